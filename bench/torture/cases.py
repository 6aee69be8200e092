"""Cases: a few calls of one kind on drawn arrays, with what NumPy says of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

import clprim as cp
from bench.case import of_tests
from bench.torture.case import Case
from bench.torture.draw import EXACT, Draw, Host
from bench.torture.operators import composite, conversion, narrow, place, slope
from bench.torture.ways import ways
from clprim import ops


def draw_case(draw: Draw, kinds: tuple[str, ...] | None = None) -> Case:
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


def _division(draw: Draw) -> Case:
    """Integers divided by integers, zeros and -1 among them, the least number among the others."""
    dtype, shape = draw.one([np.dtype(t) for t in ("i4", "i8", "u4")]), draw.shape(0, 3)
    hosts = [draw.edges(shape, dtype) for _ in range(3)]
    first, second = draw.one("/%"), draw.one("/%")
    text = draw.one(
        ("y0 = (x0 {} x1) {} x2;", "y0 = x0 {} x1; y0 {}= x2;", "typeof_x0 q = x0{}x1{}x2; y0 = q;")
    ).format(first, second)
    found = _divided(_divided(hosts[0], hosts[1], first), hosts[2], second)
    operator, arrays = cp.Pointwise(text), [cp.asarray(h) for h in hosts]

    def run() -> tuple[Host, ...]:
        return (operator(*arrays).get(),)

    return Case(f"{text} of {_described(arrays)}", run, (found,))


def _divided(a: Host, b: Host, op: str) -> Host:
    """C's quotient or remainder; by zero 0, and the least number by -1 itself."""
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)
        quotient = np.where(b == 0, 0, (a - rest) // np.where(b == 0, 1, b))
    return (rest if op == "%" else quotient).astype(a.dtype)


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
    expected = (exact.sum(axes, keepdims=keepdims), (2 * exact + 1).max(axes, keepdims=keepdims))

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
    expected = of_tests("conv_reference").conv2d(a, b, **options)

    def run() -> tuple[Host, ...]:
        return (ops.conv2d(x, w, **options).get(),)

    return Case(f"conv2d({options}) of {_described([x, w])}", run, (expected,))


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


def _hidden(draw: Draw, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
    """Numbers to be added to scores, some of which hide whole rows or single elements."""
    least = float(ml_dtypes.finfo(dtype).min)
    hiding = [least, least / 4, -1e4, *([] if dtype == np.float16 else [-1e9, -1e30])]
    rows = draw.random.choice([0.0, 0.0, *hiding], (*shape[:-1], 1))
    apart = draw.random.choice([0.0, *hiding], shape)
    mask: Host = np.where(draw.random.random(shape) < 0.2, apart, rows).astype(dtype)
    return mask


def _weights(scores: Host) -> Host:
    p = np.exp(scores - scores.max(-1, keepdims=True))
    found: Host = p / p.sum(-1, keepdims=True)
    return found


# Of results of a dtype, relative to the largest.
_CLOSE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def _attention(draw: Draw) -> Case:
    """Attention and its gradients, where finite numbers hide all keys from some queries."""
    dtype = np.dtype(draw.one(["float32", "float32", "float16", ml_dtypes.bfloat16]))
    length, keys, features = (int(draw.one((1, 2, 3, 5, 16, 33, 70))) for _ in range(3))
    shapes = ((2, n, size) for n, size in ((length, 16), (keys, 16), (keys, features)))
    given = [draw.arrays(s, dtype) for s in (*shapes, (2, length, features))]
    q, k, v, g = (host.astype(np.float64) for host, _ in given)
    *arrays, grad = (array for _, array in given)
    mask = _hidden(draw, (length, keys), dtype)
    # Whole numbers by 4: the same in float32, until a mask is added.
    scores = (q @ k.swapaxes(-1, -2) / 4).astype(np.float32) + mask.astype(np.float32)
    p = _weights(scores.astype(np.float64))
    y = p @ v
    slopes = p * (g @ v.swapaxes(-1, -2) - (g * y).sum(-1, keepdims=True))
    turned = slopes.swapaxes(-1, -2), p.swapaxes(-1, -2)
    expected = y, slopes @ k / 4, turned[0] @ q / 4, turned[1] @ g
    added = cp.asarray(mask)

    def run() -> tuple[Host, ...]:
        found, sums, _ = ops.scaled_dot_product_attention(*arrays, added, return_stats=True)
        back = ops.scaled_dot_product_attention_backward(
            grad, *arrays, found, sums, attn_mask=added
        )
        return tuple(a.get() for a in (found, *back))

    text = f"attention of {_described([*arrays, added])}, rows of {mask[:, 0].tolist()}"
    return Case(text, run, expected, _CLOSE[dtype.name])


def _softmax(draw: Draw) -> Case:
    """A softmax or logarithms of sums, and gradients, of rows that are far from 0."""
    dtype = np.dtype(draw.one(["float32", "float32", "float16", ml_dtypes.bfloat16]))
    shape = (int(draw.one((1, 3, 17))), int(draw.one((1, 2, 5, 33, 300))))
    a, _ = draw.arrays(shape, dtype)
    g, grad = draw.arrays(shape, dtype)
    limit = float(ml_dtypes.finfo(dtype).max)
    host = a.astype(np.float64) + _hidden(draw, shape, dtype).astype(np.float64)
    host = np.clip(host, -limit, limit).astype(dtype)
    x, exact, g = cp.asarray(host), host.astype(np.float64), g.astype(np.float64)
    p = _weights(exact)
    name = draw.one(("softmax", "logsumexp", "logcumsumexp"))
    if name == "softmax":
        expected = p, p * (g - (g * p).sum(-1, keepdims=True))
    elif name == "logsumexp":
        expected = exact.max(-1) + np.log(1 / p.max(-1)), g[:, :1] * p
    else:
        parts = [_weights(exact[:, : n + 1]) for n in range(shape[1])]
        logs = [exact[:, : n + 1].max(-1) + np.log(1 / w.max(-1)) for n, w in enumerate(parts)]
        slopes = np.zeros(shape)
        for n, w in enumerate(parts):
            slopes[:, : n + 1] += g[:, n : n + 1] * w
        expected = np.stack(logs, -1), slopes

    def run() -> tuple[Host, ...]:
        if name == "softmax":
            y = ops.softmax(x, -1)
            return y.get(), ops.softmax_backward(grad, y, -1).get()
        if name == "logsumexp":
            y = ops.logsumexp(x, -1)
            return y.get(), ops.logsumexp_backward(grad[:, 0], x, -1).get()
        y = ops.logcumsumexp(x, -1)
        return y.get(), ops.logcumsumexp_backward(grad, x, y, -1).get()

    return Case(f"{name} of {_described([x, grad])}", run, expected, _CLOSE[dtype.name])


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


def _of_torch(name: str) -> Callable[[Draw], Case]:
    def kind(draw: Draw) -> Case:
        from bench.torture import with_torch

        found: Case = getattr(with_torch, name)(draw)
        return found

    return kind


KINDS: dict[str, Callable[[Draw], Case]] = {
    "pointwise": _pointwise,
    "division": _division,
    "conversion": conversion,
    "reduction": _reduction,
    "product": _product,
    "convolution": _convolution,
    "norm": _norm,
    "attention": _attention,
    "softmax": _softmax,
    "chain": _chain,
    "assignment": _assignment,
    "upload": _upload,
    "composite": composite,
    "narrow": narrow,
    "place": place,
    "slope": slope,
    "ways": ways,
}
if find_spec("torch") is not None:
    KINDS |= {name: _of_torch(name) for name in ("transform", "changing")}


def _described(arrays: list[Any]) -> str:
    return ", ".join(f"{a.dtype} {a.shape} {a.strides}" for a in arrays)
