"""What is measured, as tables: shapes, axes, bytes, and the targets that go with them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from bench.page.targets import Target

Shape = tuple[int, ...]

FLOAT = 4  # bytes; all of these workloads are float32
MI = 1 << 20

#: How many results each operation has.
#:
#: ``axpb``: ``y0 = x0*w0 + x1``; ``sum``: Σx over the axes; ``moments``: Σx and Σx², in one call.
RESULTS = {"axpb": 1, "sum": 1, "moments": 2}

COPY = Target("share", 0.95, "of the best copy kernel")
MOMENTS = Target("share", 0.90, "of the best read-only kernel")
VAR_MEAN = Target("times PyTorch", 15, "as fast as torch.var_mean", unit="×")
SUM = Target("share", 0.80, "of the ceiling")
LAUNCH_OUT = Target("times bare", 3, "a bare enqueue, with out=", at_most=True, unit="×")
LAUNCH_FRESH = Target("times bare", 6, "a bare enqueue, without", at_most=True, unit="×")
LAUNCH_CONV = Target(
    "times bare", 4, "a bare enqueue, conv2d, packed weights and out=", at_most=True, unit="×"
)
IMPORT = Target("seconds", 0.4, "import clprim", at_most=True, unit=" s")
FIRST_CALL = Target("seconds", 0.1, "first call, warm disk cache", at_most=True, unit=" s")


@dataclass(frozen=True)
class Workload:
    """One row of a table of bandwidths.

    Attributes:
        name: Unique, in a few characters.
        title: For readers.
        group: The table that it stands in.
        op: What is computed; a key of `RESULTS`.
        shapes: Of x0, x1, ….
        axes: Reduced axes; none for what works element by element.
        memory_format: ``contiguous``, or ``channels_last`` for strides of NHWC.
        ceiling: Which kernel it is compared with: the best one that copies (``copy``) or only
            reads (``read``).
        targets: What is promised.
        beyond_cache: Whether the targets are meant for data that exceed the cache only.
    """

    name: str
    title: str
    group: str
    op: str
    shapes: tuple[Shape, ...]
    axes: tuple[int, ...] = ()
    memory_format: str = "contiguous"
    ceiling: str = "copy"
    targets: tuple[Target, ...] = ()
    beyond_cache: bool = False

    @property
    def result_shape(self) -> Shape:
        """Of each result."""
        rank = max(map(len, self.shapes))
        full = ((1,) * (rank - len(shape)) + shape for shape in self.shapes)
        sizes = [max(column) for column in zip(*full, strict=True)]
        return tuple(size for axis, size in enumerate(sizes) if axis not in self.axes)

    @property
    def read_bytes(self) -> int:
        """What must be read: every input once."""
        return FLOAT * sum(math.prod(shape) for shape in self.shapes)

    @property
    def written_bytes(self) -> int:
        """What must be written: every result once."""
        return FLOAT * RESULTS[self.op] * math.prod(self.result_shape)

    @property
    def nbytes(self) -> int:
        """What must be moved."""
        return self.read_bytes + self.written_bytes


def pointwise_workloads(*, quick: bool = False) -> tuple[Workload, ...]:
    """Return the rows of ``python -m bench pointwise``; ``quick`` ones are tiny."""
    n = 64 << 10 if quick else 64 * MI
    size = f"{n >> 10} Ki" if quick else f"{n // MI} Mi"
    group = f"y0 = x0*w0 + x1, {size} floats"
    return (
        Workload("axpb-scalar", "x1: 1 float", group, "axpb", ((n,), (1,)), targets=(COPY,)),
        Workload("axpb-full", f"x1: {size} floats", group, "axpb", ((n,), (n,)), targets=(COPY,)),
    )


def reduce_workloads(*, quick: bool = False) -> tuple[Workload, ...]:
    """Return the rows of ``python -m bench reduce``; ``quick`` ones are tiny."""
    if quick:
        return (
            *_moments((2, 4, 14, 14)),
            *_sums_of((4, 8, 7, 7)),
            *_long_and_thin(64 << 10),
            *_off_by_one(powers=(10,), planes=((31, 65),)),
        )
    return (
        *_moments((32, 64, 112, 112)),
        *_sums_of((64, 128, 56, 56)),
        *_long_and_thin(16 * MI),
        *_off_by_one(
            powers=(16, 20, 24, 26),
            planes=((4095, 4097), (4097, 4095), (63, (1 << 19) + 1), ((1 << 19) - 1, 65)),
        ),
    )


def _moments(shape: Shape) -> Iterable[Workload]:
    group = f"Σx, Σx² over (0, 2, 3) of {shape}"
    for memory_format in ("contiguous", "channels_last"):
        yield Workload(
            f"moments-{memory_format}",
            memory_format,
            group,
            "moments",
            (shape,),
            axes=(0, 2, 3),
            memory_format=memory_format,
            ceiling="read",
            targets=(MOMENTS, VAR_MEAN),
        )


def _sums_of(shape: Shape) -> Iterable[Workload]:
    axes = range(len(shape))
    for reduced in (*combinations(axes, 1), *combinations(axes, 2)):
        yield _sum(shape, reduced, f"Σx of {shape}")


def _long_and_thin(n: int) -> Iterable[Workload]:
    size = f"{n // MI} Mi" if n >= MI else f"{n >> 10} Ki"
    for shape in ((1, n), (n, 1)):
        for axis in (0, 1):
            yield _sum(shape, (axis,), f"Σx of 1×{size} and {size}×1")


def _off_by_one(powers: Iterable[int], planes: Iterable[Shape]) -> Iterable[Workload]:
    group = "Σx at sizes 2ⁿ±1"
    for power in powers:
        for n in ((1 << power) - 1, (1 << power) + 1):
            yield _sum((n,), (0,), group)
    for shape in planes:
        for axis in (0, 1):
            yield _sum(shape, (axis,), group)


def _sum(shape: Shape, axes: tuple[int, ...], group: str) -> Workload:
    # Summing along an axis of length 1 writes as much as it reads: that is a copy.
    copies = all(shape[axis] == 1 for axis in axes)
    size = "×".join(map(str, shape))
    return Workload(
        f"sum-{'x'.join(map(str, shape))}-{''.join(map(str, axes))}",
        f"{size}, axis {axes[0] if len(axes) == 1 else axes}",
        group,
        "sum",
        (shape,),
        axes=axes,
        ceiling="copy" if copies else "read",
        targets=(SUM,),
        beyond_cache=True,
    )


#: The call whose cost on the host ``python -m bench launch`` measures.
LAUNCH = Workload("launch", "1024 floats", "A small call", "axpb", ((1024,), (1024,)))


@dataclass(frozen=True)
class FirstCall:
    """A first call in a new process.

    Attributes:
        name: What ``bench.work.probe`` calls it.
        title: For readers.
        target: What is promised.
    """

    name: str
    title: str
    target: Target


FIRST_CALLS = (
    FirstCall("pointwise", "first Pointwise call", FIRST_CALL),
    FirstCall("reduction", "first Reduction call", FIRST_CALL),
)
