"""What `clprim doctor` checks: every family of kernels on odd shapes, against NumPy.

Operands are small whole numbers, whose sums are exact in float32 whatever the order; what is no sum
is compared with float64 to a tolerance of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError
from clprim.runtime import child, query
from clprim.runtime.device import Device

Host = np.ndarray[Any, Any]
FORMATS = ("contiguous", "channels_last")
# Relative errors: of functions that OpenCL allows some units in the last place, of Winograd's sums.
FUNCTIONS, WINOGRAD = 2e-5, 2e-3
# What arrays are stored in, what is met most first, and half a unit in the last place of a real.
REALS = {"float16": 5e-4, "bfloat16": 4e-3, "float32": FUNCTIONS, "float64": FUNCTIONS}
STORED = (*REALS, *"uint8 int8 bool int32 int64 int16 uint16 uint32 uint64".split())
_END = "end"
_GRACE = 60.0  # seconds for the check that is running when time is up
_TURN = 10.0  # seconds after which a child process begins no further check: what was found is told
_CHILD = (
    "import sys; sys.path[:] = {path!r}; "
    "from clprim.command.doctor_checks import main; main({task!r})"
)


@dataclass(frozen=True)
class Check:
    """One call, and what it should give."""

    family: str
    name: str
    run: Callable[[], tuple[Any, Host]]
    tolerance: float = 0.0


@dataclass(frozen=True)
class Found:
    """What came of a check."""

    family: str
    name: str
    right: bool
    message: str = ""


def examine(check: Check) -> Found:
    """Runs a check; an error is a finding as well."""
    try:
        given, expected = check.run()
        found = np.asarray(given.get(), dtype=np.float64)
    except ClprimError as error:
        return Found(check.family, check.name, right=False, message=str(error))
    if found.shape != expected.shape:
        message = f"shape {found.shape}, expected {expected.shape}"
        return Found(check.family, check.name, right=False, message=message)
    wrong = np.abs(found - expected)
    allowed = check.tolerance * float(np.max(np.abs(expected), initial=1.0))
    worst = float(np.max(wrong, initial=0.0))
    if worst <= allowed:  # also False for NaN
        return Found(check.family, check.name, right=True)
    message = f"{int(np.sum(~(wrong <= allowed)))} of {wrong.size} elements differ, by {worst:g}"
    return Found(check.family, check.name, right=False, message=message)


def examined(
    device: Device, wanted: Sequence[Check], *, quick: bool, seconds: float
) -> Iterator[Found]:
    """Yields what came of checks, which are run in child processes: one may die of a check."""
    end = time.monotonic() + seconds
    at = 0
    while at < len(wanted) and (left := end - time.monotonic()) > 0:
        task = json.dumps([query.whereabouts(device.cl), quick, at, min(left, _TURN)])
        program = _CHILD.format(path=child.search_path(), task=task)
        try:
            if not child.is_possible():
                raise OSError
            said, in_time = child.run(program, timeout=left + _GRACE)
        except OSError:  # without children the process takes the risk
            yield examine(wanted[at])
            at += 1
            continue
        ended = said[-1:] == [_END]
        for line in said[: len(said) - ended]:
            yield Found(**json.loads(line))
            at += 1
        if not ended:
            check, at = wanted[at], at + 1
            message = "the process ended" if in_time else "no answer in time"
            yield Found(check.family, check.name, right=False, message=message)


def main(task: str) -> None:
    """Runs checks in a child process, and says what came of each as soon as it is known."""
    child.leave_no_core_file()
    where, quick, first, seconds = json.loads(task)
    end = time.monotonic() + seconds
    cp.set_device(query.find(where))
    for check in list(checks(quick=quick))[first:]:
        child.say(json.dumps(dataclasses.asdict(examine(check))))
        if time.monotonic() > end:
            break
    child.say(_END)
    os._exit(0)  # some drivers crash on the way out


# --- what is checked -----------------------------------------------------------------------------

Shapes = tuple[tuple[int, ...], ...]


class Row(NamedTuple):
    """A call of arrays, and what NumPy says of them.

    ``error`` is of the result, by that of what arrays are stored in, ``least`` of a float32; of so
    many ``images``, the first arrays, there is a check in both memory formats.
    """

    name: str
    shapes: Shapes
    call: Callable[..., Any]
    wanted: Callable[..., Any]
    error: float = 0.0
    least: float = 0.0
    images: int = 0


def checks(*, quick: bool = False) -> Iterator[Check]:
    """Yields the checks, of a family the first one in the quick form."""
    # What says most in the least time comes first.
    doubles = cp.current_device().traits.fp64
    for dtype in STORED if doubles else (d for d in STORED if d != "float64"):
        rows = (*_STORED, *_STORED_REAL) if dtype in REALS else _STORED
        yield from _checks(f"stored as {dtype}", rows, quick, dtype)
    for family, some in (*_FAMILIES.items(), ("product", _products()), ("convolution", _layers())):
        yield from _checks(family, some, quick)


def _checks(
    family: str, rows: Iterable[Row], quick: bool, dtype: str | None = None
) -> Iterator[Check]:
    for row in itertools.islice(rows, 1 if quick else None):
        for memory in FORMATS[: 1 if quick or not row.images else None]:
            name = f"{row.name}, {memory}" if row.images else row.name
            error = max(row.error * REALS.get(dtype or "float32", 0.0), row.least)
            yield Check(family, name, partial(_run, row, memory, dtype), error)


def _run(row: Row, memory: str, dtype: str | None) -> tuple[Any, Host]:
    """The result and what it should be; what is stored as a dtype begins at an odd place."""
    given, hosts = [], []
    low, high = (0, 2) if dtype == "bool" else (0, 3) if (dtype or "")[:1] == "u" else (-1, 2)
    for n, shape in enumerate(row.shapes):
        random = np.random.default_rng(n)
        odd = dtype is not None and len(shape) == 2
        whole = tuple(size + odd * (1 + axis) for axis, size in enumerate(shape))
        bounds = (low, high) if dtype else (-5, 6)
        host = random.integers(*bounds, whole).astype(np.float32)
        array = cp.asarray(host).astype(dtype or "float32")
        if n < row.images:
            array = cp.asarray(array, memory_format=memory)
        place = (slice(1, None), slice(2, None)) if odd else ()
        given.append(array[place])
        hosts.append(host[place].astype(np.float64))
    return row.call(*given), np.asarray(row.wanted(*hosts))


def _softmax(x: Host) -> Host:
    found: Host = np.exp(x - x.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def _normalised(x: Host) -> Host:
    axes = tuple(range(1, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def _pooled(x: Host, size: int) -> Any:
    """The largest of windows that are two apart."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
    return windows[:, :, ::2, ::2].max((4, 5))


def _of_planes(x: Host, w: Host) -> Host:
    """A depthwise convolution, a channel after the other."""
    found = [_convolve(x[:, c : c + 1], w[c : c + 1], 1)[0] for c in range(x.shape[1])]
    return np.concatenate(found, 1)


def _depthwise(x: Any, w: Any) -> Any:
    return _convolution(x, w, groups=len(w))


def _convolution(x: Any, w: Any, **how: Any) -> Any:
    return ops.conv2d(x, w, padding=1, **how)


def _softmax_of_rows(x: Any) -> Any:
    return ops.softmax(x, 1)


def _sorted(x: Any) -> Any:
    return ops.sort(x, 1)[0]


def _layer_norm(x: Any) -> Any:
    return ops.layer_norm(x, x.shape[1:])


def _turned(x: Any) -> Any:
    return x.transpose(3, 1, 0, 2) + 1


def _normal() -> Any:
    cp.random.seed(5)
    mean = cp.random.normal((301,)).get().mean(dtype=np.float64)
    return cp.asarray(np.array([abs(mean) < 0.3], np.float32))


_ROWS, _IMAGE = ((6, 39),), (2, 5, 9, 11)
# Every family on odd rows, of what is stored as some dtype; the others of reals alone.
_STORED = (
    Row("map", _ROWS, cp.Pointwise("y0 = x0 * x0;"), np.square),
    Row("transposed copy", _ROWS, lambda x: x.T.copy(), np.transpose),
    Row("max over 0", _ROWS, lambda x: ops.amax(x, axis=0), lambda x: x.max(0)),
    Row("max over 1", _ROWS, lambda x: ops.amax(x, axis=1), lambda x: x.max(1)),
    Row("any over 1", _ROWS, lambda x: ops.any(x, axis=1), lambda x: x.any(1)),
    Row("sum over 0", _ROWS, lambda x: ops.sum(x, axis=0), lambda x: x.sum(0)),
    Row("cumsum", _ROWS, lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),
    Row("sort", _ROWS, _sorted, lambda x: np.sort(x, 1)),
    Row("rows by index", _ROWS, lambda x: x[[3, 1]], lambda x: x[[3, 1]]),
)
_STORED_REAL = (
    Row("sin", _ROWS, lambda x: ops.sin(abs(x)), lambda x: np.sin(abs(x)), 1),
    Row("exp", _ROWS, lambda x: ops.exp(abs(x)), lambda x: np.exp(abs(x)), 1),
    Row("sqrt", _ROWS, lambda x: ops.sqrt(abs(x)), lambda x: np.sqrt(abs(x)), 1),
    Row("gelu", _ROWS, lambda x: ops.gelu(x * 0), lambda x: x * 0),
    Row("softmax", _ROWS, _softmax_of_rows, _softmax, 1),
    Row("product", (*_ROWS, (39, 17)), ops.matmul, np.matmul),
    Row("pool", (_IMAGE,), lambda x: ops.max_pool2d(x, 3, 2), lambda x: _pooled(x, 3), images=1),
    Row(
        "convolution", (_IMAGE, (3, 5, 3, 3)), lambda x, w: _convolution(x, w, algorithm="auto"),
        lambda x, w: _convolve(x, w, 1)[0], 1, WINOGRAD, 1,
    ),
    Row("depthwise", (_IMAGE, (5, 1, 3, 3)), _depthwise, _of_planes, images=1),
    Row("layer_norm", _ROWS, _layer_norm, _normalised, 10),
)  # fmt: skip
_ODD, _WIDE = ((3, 5, 7, 9),), ((3, 5, 17, 33),)
_FAMILIES: dict[str, tuple[Row, ...]] = {
    "pointwise": (
        Row("x0 · channel + w0", (*_ODD, (5, 1, 1)),
            lambda x, c: cp.Pointwise("y0 = x0 * x1 + w0;")(x, c, 2), lambda x, c: x * c + 2,
            images=1),
        Row("transposed view", _ODD, _turned, _turned),
        Row("tanh", _ODD, ops.tanh, np.tanh, 1),
        Row("storage of float16", _ODD, lambda x: x.astype("float16") * 2, lambda x: x * 2),
        Row("storage of bfloat16", _ODD, lambda x: x.astype("bfloat16") * 2, lambda x: x * 2),
    ),
    "random": (Row("normal", (), _normal, lambda: np.ones(1)),),
    "reduction": (
        *(
            Row(f"sum over {axis}", _WIDE, partial(ops.sum, axis=axis), partial(np.sum, axis=axis),
                images=1)
            for axis in ((0, 2, 3), (3,), (1,), (0, 1, 2, 3))
        ),
        Row("softmax of rows", ((7, 301),), _softmax_of_rows, _softmax, 1),
    ),
    "scan": (Row("cumsum", ((5, 1237),), lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),),
    "sort": (Row("sort", ((5, 1237),), _sorted, lambda x: np.sort(x, 1)),),
    "depthwise": (
        Row("3×3", ((2, 19, 11, 13), (19, 1, 3, 3)), _depthwise, _of_planes, images=1),
    ),
    "pool": (
        Row("max 2×2", ((2, 5, 12, 14),), lambda x: ops.max_pool2d(x, 2), lambda x: _pooled(x, 2),
            images=1),
    ),
    "norm": (Row("layer_norm", _ODD, _layer_norm, _normalised, 10),),
}  # fmt: skip


def _strategies() -> tuple[str, ...]:
    """Strategies of products: the one that is chosen, and others that the device has."""
    traits = cp.current_device().traits
    names = ("auto", "panels" if traits.is_cpu else "tiles")
    return (*names, "sub_groups") if traits.sub_groups else names


def _products() -> Iterator[Row]:
    # Every form: a tile's edges, one row, long depth.
    for m, k, n in ((67, 33, 130), (1, 300, 5), (64, 2000, 64)):
        for form, strategy in itertools.product(("NN", "NT", "TN", "TT"), _strategies()):
            left, right = form[0] == "T", form[1] == "T"
            shapes = (k, m) if left else (m, k), (n, k) if right else (k, n)
            how: dict[str, Any] = {"transpose_a": left, "transpose_b": right, "algorithm": strategy}
            yield Row(
                f"{form} {m}×{k}×{n}, {strategy}", shapes, partial(ops.matmul, **how),
                lambda a, b, t=left, u=right: (a.T if t else a) @ (b.T if u else b),
            )  # fmt: skip


def _layers() -> Iterator[Row]:
    """Convolutions and their gradients by both operands."""
    w = (9, 5, 3, 3)
    for size, stride in (((11, 13), 1), ((12, 9), 2)):
        x, y = (2, 5, *size), (2, 9, *((n - 1) // stride + 1 for n in size))
        for name in _strategies():
            how: dict[str, Any] = {"padding": 1, "stride": stride, "algorithm": name}
            title, error = f"3×3 / {stride}, {name}", WINOGRAD if name == "auto" else 0.0
            yield Row(
                title, (x, w), partial(ops.conv2d, **how),
                lambda a, b, s=stride: _convolve(a, b, s)[0], 0, error, 1,
            )  # fmt: skip
            yield Row(
                f"{title}, gradient in x", (y, w),
                lambda g, b, x=x, how=how: ops.conv2d_input(x, b, g, **how),
                lambda g, b, x=x, s=stride: _convolve(np.zeros(x), b, s)[1](g), 0, error, 1,
            )  # fmt: skip
            yield Row(
                f"{title}, gradient in w", (x, y),
                lambda a, g, how=how: ops.conv2d_weight(a, w, g, **how),
                lambda a, g, s=stride: _convolve(a, np.zeros(w), s)[2](g), 0, error, 2,
            )  # fmt: skip


def _convolve(
    x: Host, w: Host, stride: int
) -> tuple[Host, Callable[[Host], Host], Callable[[Host], Host]]:
    """A convolution with padding 1 and its gradients, one tap after the other."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    kernel, (rows, columns) = w.shape[2], ((n - 1) // stride + 1 for n in x.shape[2:])

    def tap(array: Host, r: int, s: int) -> Host:
        end = r + stride * (rows - 1) + 1, s + stride * (columns - 1) + 1
        return array[:, :, r : end[0] : stride, s : end[1] : stride]

    taps = [(r, s) for r in range(kernel) for s in range(kernel)]
    y = sum(np.einsum("nchw,kc->nkhw", tap(padded, r, s), w[:, :, r, s]) for r, s in taps)

    def in_x(grad: Host) -> Host:
        found = np.zeros_like(padded)
        for r, s in taps:
            tap(found, r, s)[...] += np.einsum("nkhw,kc->nchw", grad, w[:, :, r, s])
        return found[:, :, 1:-1, 1:-1]

    def in_w(grad: Host) -> Host:
        found = np.zeros(w.shape)
        for r, s in taps:
            found[:, :, r, s] = np.einsum("nkhw,nchw->kc", grad, tap(padded, r, s))
        return found

    return np.asarray(y), in_x, in_w
