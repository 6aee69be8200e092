"""What `clprim doctor` checks: every family of kernels on odd shapes, against NumPy.

Operands are small whole numbers, whose sums are exact in float32 whatever the order; what is no sum
is compared with float64 to a tolerance of its own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
    """Yields what came of checks, each run in a child process, which may die of it."""
    end = time.monotonic() + seconds
    at = 0
    while at < len(wanted) and time.monotonic() < end:
        family = wanted[at].family
        last = next((n for n in range(at, len(wanted)) if wanted[n].family != family), len(wanted))
        left = end - time.monotonic()
        task = json.dumps([query.whereabouts(device.cl), quick, at, last, left])
        program = _CHILD.format(path=child.search_path(), task=task)
        try:
            if not child.is_possible():
                raise OSError
            said, in_time = child.run(program, timeout=left + _GRACE)
        except OSError:  # without children the process takes the risk
            yield from map(examine, wanted[at:last])
            at = last
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
    where, quick, first, last, left = json.loads(task)
    end = time.monotonic() + left
    cp.set_device(query.find(where))
    for check in list(checks(quick=quick))[first:last]:
        if time.monotonic() > end:
            break
        child.say(json.dumps(dataclasses.asdict(examine(check))))
    child.say(_END)
    os._exit(0)  # some drivers crash on the way out


def checks(*, quick: bool = False) -> Iterator[Check]:
    """Yields the checks."""
    # What says most in the least time comes first.
    families = (
        *(lambda dtype=dtype: _stored(dtype) for dtype in STORED),
        *(_maps, _random, _reductions, _scans, _depthwise, _pools, _norms, _products),
        _convolutions,
    )
    for family in families:
        found = list(family())
        yield from found[:1] if quick else found


def _numbers(*shape: int, seed: int = 0) -> Host:
    return np.random.default_rng(seed).integers(-5, 6, shape).astype(np.float32)


def _maps() -> Iterator[Check]:
    x, channel = _numbers(3, 5, 7, 9), _numbers(5, 1, 1, seed=1)
    scale = cp.Pointwise("y0 = x0 * x1 + w0;")
    for memory in FORMATS:
        yield Check(
            "pointwise",
            f"x0 · channel + w0, {memory}",
            lambda memory=memory: (  # type: ignore[misc]
                scale(cp.asarray(x, memory_format=memory), cp.asarray(channel), 2),
                x * channel + 2,
            ),
        )
    yield Check(
        "pointwise",
        "transposed view",
        lambda: (cp.asarray(x).transpose(3, 1, 0, 2) + 1, x.transpose(3, 1, 0, 2) + 1),
    )
    wide = x.astype(np.float64)
    yield Check("pointwise", "tanh", lambda: (ops.tanh(cp.asarray(x)), np.tanh(wide)), FUNCTIONS)
    for dtype in ("float16", "bfloat16"):
        yield Check(
            "pointwise",
            f"storage of {dtype}",
            lambda dtype=dtype: (cp.asarray(x).astype(dtype) * 2, x * 2),  # type: ignore[misc]
        )


def _reductions() -> Iterator[Check]:
    x = _numbers(3, 5, 17, 33)
    for axis in ((0, 2, 3), (3,), (1,), (0, 1, 2, 3)):
        for memory in FORMATS:
            yield Check(
                "reduction",
                f"sum over {axis}, {memory}",
                lambda axis=axis, memory=memory: (  # type: ignore[misc]
                    ops.sum(cp.asarray(x, memory_format=memory), axis=axis),
                    x.sum(axis),
                ),
            )
    y = _numbers(7, 301).astype(np.float64)
    weights = np.exp(y - y.max(1, keepdims=True))
    yield Check(
        "reduction",
        "softmax of rows",
        lambda: (
            ops.softmax(cp.asarray(y.astype(np.float32)), 1),
            weights / weights.sum(1, keepdims=True),
        ),
        FUNCTIONS,
    )


def _scans() -> Iterator[Check]:
    x = _numbers(5, 1237)
    yield Check("scan", "cumsum", lambda: (ops.cumsum(cp.asarray(x), 1), np.cumsum(x, 1)))
    yield Check("sort", "sort", lambda: (ops.sort(cp.asarray(x), 1)[0], np.sort(x, 1)))


def _products() -> Iterator[Check]:
    # All strategies that the device has, and every form: a tile's edges, one row, long depth.
    for m, k, n in ((67, 33, 130), (1, 300, 5), (64, 2000, 64)):
        a, b = _numbers(m, k), _numbers(k, n, seed=1)
        for form in ("NN", "NT", "TN", "TT"):
            left = a.T.copy() if form[0] == "T" else a
            right = b.T.copy() if form[1] == "T" else b
            for name in ("auto", *_others()):
                yield Check(
                    "product",
                    f"{form} {m}×{k}×{n}, {name}",
                    lambda a=left, b=right, form=form, name=name, y=a @ b: (  # type: ignore[misc]
                        ops.matmul(
                            cp.asarray(a),
                            cp.asarray(b),
                            transpose_a=form[0] == "T",
                            transpose_b=form[1] == "T",
                            algorithm=name,
                        ),
                        y,
                    ),
                )


def _others() -> tuple[str, ...]:
    """Strategies of products beside the one that is chosen."""
    traits = cp.current_device().traits
    names = ("panels",) if traits.is_cpu else ("tiles",)
    return (*names, "sub_groups") if traits.sub_groups else names


def _convolutions() -> Iterator[Check]:
    w = _numbers(9, 5, 3, 3, seed=1)
    for size, stride in (((11, 13), 1), ((12, 9), 2)):
        x = _numbers(2, 5, *size)
        y, back, weight = _convolve(x, w, stride)
        grad = _numbers(*y.shape, seed=2)
        for memory in FORMATS:
            for name in ("auto", *_others()):
                how: dict[str, Any] = {"padding": 1, "stride": stride, "algorithm": name}
                a, g = (
                    lambda t=t, memory=memory: cp.asarray(t, memory_format=memory)
                    for t in (x, grad)
                )
                title = f"3×3 / {stride}, {memory}, {name}"
                error = WINOGRAD if name == "auto" else 0.0
                yield Check(
                    "convolution",
                    title,
                    lambda a=a, how=how, y=y: (ops.conv2d(a(), cp.asarray(w), **how), y),  # type: ignore[misc]
                    error,
                )
                yield Check(
                    "convolution",
                    f"{title}, gradient in x",
                    lambda x=x, g=g, how=how, back=back, grad=grad: (  # type: ignore[misc]
                        ops.conv2d_input(x.shape, cp.asarray(w), g(), **how),
                        back(grad),
                    ),
                    error,
                )
                yield Check(
                    "convolution",
                    f"{title}, gradient in w",
                    lambda a=a, g=g, how=how, weight=weight, grad=grad: (  # type: ignore[misc]
                        ops.conv2d_weight(a(), w.shape, g(), **how),
                        weight(grad),
                    ),
                    error,
                )


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


def _depthwise() -> Iterator[Check]:
    x, w = _numbers(2, 19, 11, 13), _numbers(19, 1, 3, 3, seed=1)
    planes = [_convolve(x[:, c : c + 1], w[c : c + 1], 1)[0] for c in range(x.shape[1])]
    expected = np.concatenate(planes, 1)
    for memory in FORMATS:
        yield Check(
            "depthwise",
            f"3×3, {memory}",
            lambda memory=memory: (  # type: ignore[misc]
                ops.conv2d(
                    cp.asarray(x, memory_format=memory), cp.asarray(w), padding=1, groups=19
                ),
                expected,
            ),
        )


def _pools() -> Iterator[Check]:
    x = _numbers(2, 5, 12, 14)
    expected = x.reshape(2, 5, 6, 2, 7, 2).max((3, 5))
    for memory in FORMATS:
        yield Check(
            "pool",
            f"max 2×2, {memory}",
            lambda memory=memory: (  # type: ignore[misc]
                ops.max_pool2d(cp.asarray(x, memory_format=memory), 2),
                expected,
            ),
        )


def _norms() -> Iterator[Check]:
    x = _numbers(3, 5, 7, 9)
    wide = x.astype(np.float64)
    spread = np.sqrt(wide.var((1, 2, 3), keepdims=True) + 1e-5)
    expected = (wide - wide.mean((1, 2, 3), keepdims=True)) / spread
    yield Check(
        "norm",
        "layer_norm",
        lambda: (ops.layer_norm(cp.asarray(x), (5, 7, 9)), expected),
        10 * FUNCTIONS,
    )


def _random() -> Iterator[Check]:
    def drawn() -> tuple[Any, Host]:
        cp.random.seed(5)
        mean = cp.random.normal((301,)).get().mean(dtype=np.float64)
        return cp.asarray(np.array([abs(mean) < 0.3]).astype(np.float32)), np.ones(1)

    yield Check("random", "normal", drawn)


def _stored(dtype: str) -> Iterator[Check]:
    """Every family on odd rows, as a view that begins at an odd place."""
    if dtype == "float64" and not cp.current_device().traits.fp64:
        return
    real, family = dtype in REALS, f"stored as {dtype}"
    low, high = (0, 2) if dtype == "bool" else (0, 3) if dtype.startswith("u") else (-1, 2)

    def given(*shape: int, seed: int = 0) -> tuple[Callable[[], Any], Host]:
        whole = np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)
        return (lambda: cp.asarray(whole).astype(dtype)), whole.astype(np.float64)

    def check(name: str, run: Callable[[], Any], expected: Any, error: float = 0.0) -> Check:
        return Check(family, name, lambda: (run(), np.asarray(expected)), error)

    whole, host = given(7, 41)
    rows = host[1:, 2:]

    def x() -> Any:
        return whole()[1:, 2:]

    text = "y0 = !x0;" if dtype == "bool" else "y0 = x0 + x0;"
    yield check("map", lambda: cp.Pointwise(text)(x()), 1 - rows if dtype == "bool" else 2 * rows)
    yield check("transposed copy", lambda: x().T.copy(), rows.T)  # noqa: PLW0108 - made when it is run
    for axis in (0, 1):
        yield check(f"max over {axis}", lambda a=axis: ops.amax(x(), axis=a), rows.max(axis))  # type: ignore[misc]
    yield check("any over 1", lambda: ops.any(x(), axis=1), rows.any(1))
    yield check("sum over 0", lambda: ops.sum(x(), axis=0), rows.sum(0))
    yield check("cumsum", lambda: ops.cumsum(x(), 1), rows.cumsum(1))
    yield check("sort", lambda: ops.sort(x(), 1)[0], np.sort(rows, 1))
    yield check("rows by index", lambda: x()[[3, 1]], rows[[3, 1]])
    if not real:
        return
    error = REALS[dtype]
    for name in ("sin", "exp", "sqrt"):
        right = getattr(np, name)(abs(rows))
        yield check(name, lambda f=name: getattr(ops, f)(abs(x())), right, error)  # type: ignore[misc]
    yield check("gelu", lambda: ops.gelu(x() * 0), 0 * rows)
    weights = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    yield check("softmax", lambda: ops.softmax(x(), 1), weights, error)
    other, right = given(39, 17, seed=1)
    yield check("product", lambda: ops.matmul(x(), other()), rows @ right)
    images, wide = given(2, 5, 9, 11, seed=2)
    kernel, taps = given(3, 5, 3, 3, seed=3)
    single, planes = given(5, 1, 3, 3, seed=4)
    pooled = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2]
    each = [_convolve(wide[:, c : c + 1], planes[c : c + 1], 1)[0] for c in range(5)]
    for memory in FORMATS:

        def held(memory: str = memory) -> Any:
            return cp.asarray(images(), memory_format=memory)

        yield check(f"pool, {memory}", lambda h=held: ops.max_pool2d(h(), 3, 2), pooled.max((4, 5)))  # type: ignore[misc]
        yield check(
            f"convolution, {memory}",
            lambda h=held: ops.conv2d(h(), kernel(), padding=1, algorithm="auto"),  # type: ignore[misc]
            _convolve(wide, taps, 1)[0],
            max(error, WINOGRAD),
        )
        yield check(
            f"depthwise, {memory}",
            lambda h=held: ops.conv2d(h(), single(), padding=1, groups=5),  # type: ignore[misc]
            np.concatenate(each, 1),
        )
    spread = np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    normal = (rows - rows.mean(1, keepdims=True)) / spread
    yield check("layer_norm", lambda: ops.layer_norm(x(), (39,)), normal, 10 * error)
