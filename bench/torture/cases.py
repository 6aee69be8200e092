"""Cases: a few calls of one kind on drawn arrays, with what NumPy says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.draw import EXACT, Draw, Host
from bench.torture.places import place
from clprim import ops


class WrongError(Exception):
    """A result that is not what it has to be."""


@dataclass(frozen=True)
class Case:
    """Something to run, any number of times and from any thread.

    Attributes:
        text: What it is, in a line or a few.
        run: Computes and downloads the results.
        expected: What they have to be.
        tolerance: Relative to the largest of what is expected; 0 where they are exact.
    """

    text: str
    run: Callable[[], tuple[Host, ...]]
    expected: tuple[Host, ...]
    tolerance: float = 0.0

    def check(self) -> None:
        """Runs the case once.

        Raises:
            WrongError: The results are wrong; the message says where and by how much.
        """
        for n, (found, wanted) in enumerate(zip(self.run(), self.expected, strict=True)):
            if found.shape != wanted.shape:
                raise WrongError(f"y{n} has shape {found.shape}, expected {wanted.shape}")
            difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
            allowed = self.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
            wrong = ~(difference <= allowed)
            if wrong.any():
                place = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise WrongError(
                    f"y{n} of shape {wanted.shape}: {int(wrong.sum())} elements are wrong, the "
                    f"first at {place}: {found[place]} for {wanted[place]}"
                )


def draw_case(draw: Draw, kinds: tuple[str, ...] | None = None) -> Case:
    """Returns a case of one of some kinds, of all by default."""
    kind = draw.one(kinds or tuple(KINDS))
    case = KINDS[kind](draw)
    return Case(f"{kind}: {case.text}", case.run, case.expected, case.tolerance)


def _pointwise(draw: Draw) -> Case:
    dtype, shape = draw.dtype(), draw.shape()
    inputs = [
        draw.arrays(shape if n == 0 else draw.broadcast(shape), dtype)
        for n in range(int(draw.one((1, 2, 3))))
    ]
    hosts, arrays = [h.astype(np.float64) for h, _ in inputs], [a for _, a in inputs]
    terms = [draw.expression(len(inputs), EXACT[dtype]) for _ in range(int(draw.one((1, 1, 2))))]
    text = "".join(f"(void)x{n}; " for n in range(len(inputs)))
    text += " ".join(f"y{n} = {term.text};" for n, term in enumerate(terms))
    operator = cp.Pointwise(text, result_type=dtype)
    expected = tuple(np.broadcast_to(term.value(hosts), shape).astype(dtype) for term in terms)
    in_place = len(terms) == 1 and draw.chance(0.2)
    places = _described(arrays)

    def run() -> tuple[Host, ...]:
        if in_place:  # the result goes where a copy of the first input lies
            out = cp.Pointwise("y0 = x0;")(arrays[0])
            return (operator(out, *arrays[1:], out=out).get(),)
        results = operator(*arrays)
        return tuple(y.get() for y in (results if len(terms) > 1 else [results]))

    return Case(f"{text} of {places}{' in place' if in_place else ''}", run, expected)


def _reduction(draw: Draw) -> Case:
    dtype, shape = np.dtype(np.float32), draw.shape(1)
    if draw.chance(0.3):
        dtype = np.dtype(np.int32)
    host, array = draw.arrays(shape, dtype)
    axes = tuple(d for d in range(len(shape)) if draw.chance(0.5)) or (0,)
    keepdims = draw.chance(0.3)
    text = "y0 = x0; y1 = 2 * x0 + 1;"
    operator = cp.Reduction(
        text,
        init="reduce_y0 = 0; reduce_y1 = lowest_reduce_y1;",
        step="reduce_y0 += y0; reduce_y1 = max(reduce_y1, y1);",
    )
    exact = host.astype(np.float64)
    if any(shape[d] == 0 for d in axes):
        axes = (0,)
    expected = (
        exact.sum(axes, keepdims=keepdims),
        (2 * exact + 1).max(axes, keepdims=keepdims),
    )

    def run() -> tuple[Host, ...]:
        total, largest = operator(array, axis=axes, keepdims=keepdims)
        return total.get(), largest.get()

    return Case(f"{text} along {axes} of {_described([array])}", run, expected)


def _product(draw: Draw) -> Case:
    rows, columns, depth = (int(draw.one((1, 3, 8, 17, 33, 64, 100))) for _ in range(3))
    turned = draw.chance(0.5), draw.chance(0.5)
    dtype = draw.one([np.dtype(np.float32), np.dtype(np.float32), np.dtype(np.int32)])
    a, x = draw.arrays((depth, rows) if turned[0] else (rows, depth), dtype)
    b, w = draw.arrays((columns, depth) if turned[1] else (depth, columns), dtype)
    wide = [h.astype(np.float64) for h in (a, b)]
    expected = (wide[0].T if turned[0] else wide[0]) @ (wide[1].T if turned[1] else wide[1])

    def run() -> tuple[Host, ...]:
        return (ops.matmul(x, w, transpose_a=turned[0], transpose_b=turned[1]).get(),)

    return Case(f"matmul, transposed {turned}, of {_described([x, w])}", run, (expected,))


def _convolution(draw: Draw) -> Case:
    groups = int(draw.one((1, 1, 2, 8)))
    channels, filters = groups * int(draw.one((1, 2, 3))), groups * int(draw.one((1, 2, 5)))
    kernel = int(draw.one((1, 2, 3))), int(draw.one((1, 3)))
    stride, dilation, padding = (int(draw.one(v)) for v in ((1, 1, 2), (1, 1, 2), (0, 1, 2)))
    size = tuple(dilation * (k - 1) + 1 + int(draw.random.integers(0, 14)) for k in kernel)
    a, x = draw.arrays((int(draw.one((1, 2))), channels, *size), np.float32)
    b, w = draw.arrays((filters, channels // groups, *kernel), np.float32)
    if draw.chance(0.4):
        x = ops.contiguous(x, memory_format="channels_last")
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    expected = _convolved(a.astype(np.float64), b.astype(np.float64), **options)

    def run() -> tuple[Host, ...]:
        return (ops.conv2d(x, w, **options).get(),)

    return Case(f"conv2d({options}) of {_described([x, w])}", run, (expected,))


def _convolved(x: Host, w: Host, *, stride: int, padding: int, dilation: int, groups: int) -> Host:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    sizes = [(x.shape[d] - dilation * (w.shape[d] - 1) - 1) // stride + 1 for d in (2, 3)]
    images, filters = len(x), len(w) // groups
    y = np.zeros((images, groups, filters, *sizes))
    grouped = x.reshape(images, groups, -1, *x.shape[2:])
    taps = w.reshape(groups, filters, -1, *w.shape[2:])
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            rows = slice(r * dilation, r * dilation + (sizes[0] - 1) * stride + 1, stride)
            columns = slice(s * dilation, s * dilation + (sizes[1] - 1) * stride + 1, stride)
            taken = grouped[..., rows, columns]
            y += np.einsum("ngchw,gfc->ngfhw", taken, taps[..., r, s])
    return y.reshape(images, -1, *sizes)


def _norm(draw: Draw) -> Case:
    shape = (int(draw.one((1, 2, 5))), int(draw.one((1, 3, 8, 16, 33))), *draw.shape(2, 2))
    a, x = draw.arrays(shape, np.float32)
    exact = a.astype(np.float64)
    axes = (0, 2, 3)
    expected = (exact.mean(axes), exact.var(axes))

    def run() -> tuple[Host, ...]:
        mean, variance = ops.batch_norm_stats(x)
        return mean.get(), variance.get()

    return Case(f"batch_norm_stats of {_described([x])}", run, expected, 2e-6)


def _chain(draw: Draw) -> Case:
    """Kernels that each read what the one before wrote, in temporaries that the pool reuses."""
    shape, length = draw.shape(2, 2), int(draw.random.integers(2, 9))
    a, x = draw.arrays(shape, np.float32)
    exact = a.astype(np.float64)
    for _ in range(length):
        exact = (exact + 1) * 2 - a

    def run() -> tuple[Host, ...]:
        y = x
        for _ in range(length):
            y = (y + 1) * 2 - x
        return (y.sum(axis=0).get(),)

    return Case(f"a chain of {length} over {_described([x])}", run, (exact.sum(0),))


def _assignment(draw: Draw) -> Case:
    """A view of one array takes the values of another; its surroundings keep theirs."""
    dtype, shape = draw.dtype(), draw.shape(1, 3)
    a, x = draw.arrays(shape, dtype)
    around = tuple(size + 3 for size in shape)
    inside = tuple(slice(1, 1 + size) for size in shape)
    expected = np.full(around, 7, dtype)
    expected[inside] = a

    def run() -> tuple[Host, ...]:
        whole = cp.full(around, 7, dtype)
        whole[inside] = x
        return (whole.get(),)

    return Case(f"assignment to a view of {_described([x])}", run, (expected,))


def _upload(draw: Draw) -> Case:
    """What goes up comes down, in every order."""
    dtype, shape = draw.dtype(), draw.shape(0, 4)
    a = draw.data(shape, dtype).transpose(*draw.random.permutation(len(shape)))

    def run() -> tuple[Host, ...]:
        return (cp.asarray(a).get(), cp.asarray(a).transpose().get())

    return Case(f"upload of {a.dtype} {a.shape} {a.strides}", run, (a, a.transpose()))


def _place(draw: Draw) -> Case:
    """An operator of the same elements in other places."""
    return Case(*place(draw))


KINDS: dict[str, Callable[[Draw], Case]] = {
    "pointwise": _pointwise,
    "reduction": _reduction,
    "product": _product,
    "convolution": _convolution,
    "norm": _norm,
    "chain": _chain,
    "assignment": _assignment,
    "upload": _upload,
    "place": _place,
}


def _described(arrays: list[Any]) -> str:
    return ", ".join(f"{a.dtype} {a.shape} {a.strides}" for a in arrays)
