"""What `clprim doctor` checks: every family of kernels on odd shapes, against NumPy.

Operands are small whole numbers, whose sums are exact in float32 whatever the order; what is no sum
is compared with float64 to a tolerance of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError

Host = np.ndarray[Any, Any]
FORMATS = ("contiguous", "channels_last")
# Relative errors: of functions that OpenCL allows some units in the last place, of Winograd's sums.
FUNCTIONS, WINOGRAD = 2e-5, 2e-3


@dataclass(frozen=True)
class Check:
    """One call, and what it should give.

    Attributes:
        family: Of kernels.
        name: What it does.
        run: Makes the call, on the current device; returns what it gave and what is right.
        tolerance: Of the largest difference, relative to the largest value; 0 for equality.
    """

    family: str
    name: str
    run: Callable[[], tuple[Any, Host]]
    tolerance: float = 0.0


@dataclass(frozen=True)
class Found:
    """What came of a check.

    Attributes:
        family, name: The check's.
        right: Whether it gave what it should.
        message: What is wrong, or why the call was refused.
    """

    family: str
    name: str
    right: bool
    message: str = ""


def examine(check: Check) -> Found:
    """Runs a check; an error is a finding as well.

    Args:
        check: Which.
    """
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


def checks(*, quick: bool = False) -> Iterator[Check]:
    """Yields the checks.

    Args:
        quick: Whether one of every family is enough.
    """
    families = (_maps, _reductions, _scans, _products, _convolutions, _depthwise, _pools, _norms)
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
