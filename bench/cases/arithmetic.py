"""Pages of arithmetic: products of matrices, convolutions, inverted residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import clprim as cp
from bench.case import FORMATS, Call, Case, Data, Host, Options, Page, Shape, of_tests, whole
from bench.peers import arithmetic
from clprim.tune.depthwise import DEPTHWISE, layer_of
from clprim.tune.networks import ACTIVATIONS, NETWORKS, Layer

#: What can be computed of a layer: its result, or the gradient by its input or by its weight.
DIRECTIONS = ("forward", "input", "weight")
_DIRECT = of_tests("conv_reference")  # exact for whole numbers
_WHAT = {"forward": "forward", "input": "gradient by input", "weight": "gradient by weight"}


def row_of(job: Any, group: str, memory_format: str, **told: Any) -> Case:
    """Return the row of a job: small whole numbers, everybody's makers of its operation."""
    makers = arithmetic.CONTENDERS[job.op] | told.pop("more", {})
    if cp.current_device().traits.is_cpu:
        makers = {name: make for name, make in makers.items() if name != "cuDNN"}
    shapes = job.shapes
    return Case(
        group,
        job.title,
        job.flops,
        lambda: Data(*(whole(s, memory_format if len(s) == 4 else "", n)
                       for n, s in enumerate(shapes))),
        {name: partial(make, job) for name, make in makers.items()},
        expected=lambda data: job.reference(*data.host),
        limit="peak",
        **told,
    )  # fmt: skip


# --- products ------------------------------------------------------------------------------------

# Squares; beside and far from the multiples of every tile; tall and flat; transposed.
_SQUARES = (256, 512, 1024, 2048, 4096, 511, 1000, 1023, 1025)
_TALL = (
    *((4096, 4096, 16), (16, 4096, 4096), (4096, 16, 4096)),
    *((64, 64, 65536), (65536, 64, 64), (8, 1000, 2048)),
)
_TRANSPOSED = (512, 1000, 2048)


@dataclass(frozen=True)
class Gemm:
    """A product of an m×k by a k×n matrix, each stored as it is or transposed."""

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    op = "gemm"
    memory_format = ""

    @property
    def title(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {'NT'[self.transpose_a]}{'NT'[self.transpose_b]}"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """Of the operands, as stored."""
        a, b = (self.m, self.k), (self.k, self.n)
        return a[::-1] if self.transpose_a else a, b[::-1] if self.transpose_b else b

    def reference(self, a: Host, b: Host) -> Host:
        return (a.T if self.transpose_a else a) @ (b.T if self.transpose_b else b)


def gemm_cases(args: Options) -> list[Case]:
    sizes = [(16, 16, 16), (31, 33, 17)] if args.quick else [*((n,) * 3 for n in _SQUARES), *_TALL]
    jobs = [Gemm(*size) for size in sizes]
    turned = ((False, True), (True, False), (True, True))
    for n in (31,) if args.quick else _TRANSPOSED:
        jobs += [Gemm(n, n, n, *flags) for flags in turned]
    return [row_of(job, "Single-precision products", "") for job in jobs]


# --- convolutions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conv:
    """A layer of a batch in a memory format and a direction, or with what follows it."""

    layer: Layer
    batch: int
    memory_format: str
    direction: str
    followed: bool = False

    @property
    def op(self) -> str:
        return "conv_followed" if self.followed else f"conv_{self.direction}"

    @property
    def title(self) -> str:
        return self.layer.title

    @property
    def flops(self) -> int:
        return self.layer.flops(self.batch)

    @property
    def input_shape(self) -> Shape:
        return self.batch, self.layer.channels, self.layer.size, self.layer.size

    @property
    def weight_shape(self) -> Shape:
        layer = self.layer
        return layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel

    @property
    def result_shape(self) -> Shape:
        return self.batch, self.layer.filters, *[self.layer.result_size] * 2

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the operands: two of input, weight and gradient by the result; bias and summand."""
        if self.followed:
            summand = (self.result_shape,) if self.layer.adds else ()
            return self.input_shape, self.weight_shape, (1, self.layer.filters, 1, 1), *summand
        x, w, y = self.input_shape, self.weight_shape, self.result_shape
        return {"forward": (x, w), "input": (w, y), "weight": (x, y)}[self.direction]

    @property
    def options(self) -> dict[str, int]:
        layer = self.layer
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(layer, name) for name in names}

    @property
    def tolerance(self) -> float:
        """Sums of whole numbers are exact; Winograd's algorithm has the error that is allowed."""
        layer = self.layer
        sums = layer.kernel == 1 or layer.groups > 1 or self.direction == "weight"
        # The largest difference by the largest number, of a bound on root mean squares.
        return 0.0 if sums else 4 * float(cp.options.current().convolution_error)

    def reference(self, *host: Host) -> Host:
        x, w, *more = host
        if self.direction == "input":
            found = _DIRECT.conv2d_input(self.input_shape, x, w, **self.options)
        elif self.direction == "weight":
            found = _DIRECT.conv2d_weight(x, self.weight_shape, w, **self.options)
        else:
            y = sum(more, start=_DIRECT.conv2d(x, w, **self.options))
            found = np.clip(y, *ACTIVATIONS[self.layer.activation]) if self.followed else y
        return np.asarray(found)

    def algorithm(self, data: Data, call: Call) -> dict[str, str]:
        if not self.tolerance:
            return {}
        with cp.profile() as profile:
            call()
            cp.synchronize()
        names = [event.name for event in profile.events]
        return {"algorithm": "winograd" if any("winograd" in name for name in names) else "sums"}


def _layers(
    args: Options, known: dict[str, Any], tiny: Callable[[Iterable[Layer]], tuple[Layer, ...]]
) -> Iterator[tuple[str, Conv]]:
    """Yield the layers of networks, batches, directions and formats, with their tables."""
    followed = getattr(args, "residual", False)
    for name in args.network:
        network = known[name]
        layers = network.followed if followed else network.layers
        layers = tiny(layers) if args.quick else layers
        usual = (1,) if args.quick else (1, 8) if followed else network.batches
        for batch in args.batch or usual:
            for direction in args.direction:
                what = "with what follows" if followed else _WHAT[direction]
                for memory in args.memory_format:
                    group = f"{network.title}, batch {batch}, {FORMATS[memory]}, {what}"
                    for layer in layers:
                        yield group, Conv(layer, batch, memory, direction, followed)


def conv_cases(args: Options) -> list[Case]:
    return [
        row_of(job, group, job.memory_format, count=job.layer.count,
              tolerance=job.tolerance, extra=job.algorithm)
        for group, job in _layers(args, NETWORKS, _tiny)
    ]  # fmt: skip


def depthwise_cases(args: Options) -> list[Case]:
    grouped = {"clprim, grouped products": arithmetic.conv_grouped}
    return [
        row_of(job, group, job.memory_format, count=job.layer.count,
              more=grouped if job.direction == "forward" else {})
        for group, job in _layers(args, DEPTHWISE, _tiny_depthwise)
    ]  # fmt: skip


def _tiny(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return one small layer of each kind: kernel, stride, groups, what follows."""
    found: dict[str, Layer] = {}
    for layer in layers:
        channels, filters = (
            min(layer.channels, 4 * layer.groups),
            min(layer.filters, 8 * layer.groups),
        )
        small = replace(layer, channels=channels, filters=filters, size=layer.kernel + 4)
        found.setdefault(replace(small, channels=0, filters=0, count=0).title, small)
    return tuple(found.values())


def _tiny_depthwise(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return one small layer of each kind: kernel, stride, dilation."""
    found: dict[Any, Layer] = {}
    for layer in layers:
        kind = (layer.kernel, layer.stride, layer.dilation)
        small = layer_of(20, layer.kernel + 4, *kind[:2], layer.count, layer.dilation)
        found.setdefault(kind, small)
    return tuple(found.values())


# --- inverted residuals --------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """1 × 1, depthwise 3 × 3, 1 × 1, with ReLU6 after the first two.

    Attributes:
        channels: Of the input.
        expansion: Channels between, by those of the input; a block of 1 has no first convolution.
        filters: Channels of the result.
        size: Height and width of the input.
        stride: Of the depthwise convolution.
        count: How often the network has it.
        batch: Images.
        memory_format: Of all its arrays.
    """

    channels: int
    expansion: int
    filters: int
    size: int
    stride: int = 1
    count: int = 1
    batch: int = 1
    memory_format: str = "channels_last"
    op = "block"

    @property
    def adds(self) -> bool:
        return self.stride == 1 and self.channels == self.filters

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its convolutions: two of them where nothing is expanded."""
        size, middle = self.size, self.channels * self.expansion
        depthwise = Layer(middle, middle, 3, size, self.stride, 1, middle)
        first = (Layer(self.channels, middle, 1, size),) if self.expansion > 1 else ()
        return (*first, depthwise, Layer(middle, self.filters, 1, depthwise.result_size))

    @property
    def title(self) -> str:
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        middle = f"{self.channels * self.expansion}→" if self.expansion > 1 else ""
        return f"{self.channels}→{middle}{self.filters}{stride} of {self.size}²"

    @property
    def flops(self) -> int:
        return sum(layer.flops(self.batch) for layer in self.layers)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the input, and of weight and bias of each convolution."""
        found: list[Shape] = [(self.batch, self.channels, self.size, self.size)]
        for layer in self.layers:
            inputs = layer.channels // layer.groups
            found += [(layer.filters, inputs, layer.kernel, layer.kernel), (layer.filters,)]
        return tuple(found)

    def operands(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the input and six weights and biases, of which the first two may be None."""
        x, *rest = arrays
        return [x, *([] if self.expansion > 1 else [None, None]), *rest]

    def steps(self, rest: Sequence[Any]) -> list[tuple[Layer, Any, Any]]:
        """Return each convolution with its weight and bias, out of ``rest`` of `operands`."""
        given = [a for a in rest if a is not None]
        return list(zip(self.layers, given[::2], given[1::2], strict=True))

    def reference(self, *host: Host) -> Host:
        y = x = host[0]
        for n, (layer, w, b) in enumerate(self.steps(host[1:])):
            options = Conv(layer, self.batch, self.memory_format, "forward").options
            y = _DIRECT.conv2d(np.clip(y, 0, 6) if n else y, w, b, **options)
        return y + x if self.adds else y


# Sandler and others: MobileNetV2, 2018, table 2: t, c, n, s line by line.
BLOCKS = tuple(
    Block(*row) for row in (
        (32, 1, 16, 112), (16, 6, 24, 112, 2), (24, 6, 24, 56), (24, 6, 32, 56, 2),
        (32, 6, 32, 28, 1, 2), (32, 6, 64, 28, 2), (64, 6, 64, 14, 1, 3), (64, 6, 96, 14),
        (96, 6, 96, 14, 1, 2), (96, 6, 160, 14, 2), (160, 6, 160, 7, 1, 2), (160, 6, 320, 7),
    )
)  # fmt: skip


def block_cases(args: Options) -> list[Case]:
    found = []
    blocks: dict[Any, Block] = {block: block for block in BLOCKS}
    if args.quick:  # a small one of each kind: with and without expansion, stride, residual
        blocks = {}
        for b in BLOCKS:
            small = Block(20, min(b.expansion, 2), 20 if b.adds else 8, 9, b.stride, b.count)
            blocks.setdefault((b.expansion > 1, b.stride, b.adds), small)
    for batch in args.batch or ((1,) if args.quick else (8,)):
        for memory in args.memory_format:
            group = f"MobileNetV2, batch {batch}, {FORMATS[memory]}, inverted residuals"
            for block in blocks.values():
                job = replace(block, batch=batch, memory_format=memory)
                found.append(row_of(job, group, memory, count=job.count))
    return found


_WRITES = (
    "clprim writes into memory that is there (`out=`); weights of forward convolutions are packed "
    "beforehand (`pack_weight`). Operands are small whole numbers: sums of products have to be "
    "NumPy's to the bit. Winograd's algorithm is taken where it pays; operations are counted as in "
    "sums of products."
)
_LAYERS = ("network", "batch", "memory_format", "direction")
PAGES = {
    "gemm": Page(
        "Matrix products: arithmetic next to MKL, CLBlast and others", "GFLOP/s", gemm_cases,
        ("peers",), _WRITES,
    ),
    "conv": Page(
        "Convolutions: arithmetic next to oneDNN and others", "GFLOP/s", conv_cases,
        (*_LAYERS, "residual", "peers"), _WRITES,
    ),
    "depthwise": Page(
        "Depthwise convolutions next to oneDNN and products of matrices", "GFLOP/s",
        depthwise_cases, (*_LAYERS, "peers"), _WRITES,
    ),
    "blocks": Page(
        "Inverted residuals of MobileNetV2, fused, next to oneDNN", "GFLOP/s", block_cases,
        ("batch", "memory_format", "peers"), _WRITES,
    ),
}  # fmt: skip
