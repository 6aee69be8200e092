"""Operators on arrays as networks have them, next to PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.case import ALL, Call, Case, Data, Host, Options, Page, Shape, last
from clprim import ops

MEMORY = "memory-bound"


class Given(NamedTuple):
    """An argument: normal float32 numbers, or integers below some number; 2 stands for booleans."""

    shape: Shape
    below: int = 0

    def host(self, random: np.random.Generator, memory_format: str) -> Host:
        """Return the array; images in a memory format."""
        if self.below:
            found = random.integers(0, self.below, self.shape)
            return found != 0 if self.below == 2 else found
        array = np.asarray(random.standard_normal(self.shape), np.float32)
        return last(array) if memory_format == "channels_last" and array.ndim == 4 else array


class Op(NamedTuple):
    """An operator: its table and title, arguments, and functions of arrays, ours and PyTorch's.

    Those that end with ``prepare`` return the call that is timed; the others are timed themselves.
    """

    family: str
    title: str
    given: Sequence[Given]
    own: Callable[..., Any]
    theirs: Callable[..., Any]
    limit: str = ""
    prepare: bool = False
    prepares: bool = False
    formats: tuple[str, ...] = ("contiguous", "channels_last")


def _torch() -> Any:
    import torch

    return torch


def _f() -> Any:
    return _torch().nn.functional


def _backward(forward: Callable[..., Any]) -> Callable[..., Call]:
    """PyTorch's backward of a function; the gradient in its result comes first."""

    def prepare(grad: Any, *given: Any) -> Call:
        leaves = [t.detach().requires_grad_() for t in given if t.is_floating_point()]
        left = iter(leaves)
        result = forward(*(next(left) if t.is_floating_point() else t for t in given))
        backward = _torch().autograd.grad
        return lambda: backward(result, leaves, grad, retain_graph=True)

    return prepare


def _memory(quick: bool) -> Iterator[Op]:
    n = 2 if quick else 32
    image, half = Given((n, 64, 56, 56)), Given((n, 32, 56, 56))
    rows = Given((64 if quick else 8192, 1024))
    mask = Given(rows.shape, 2)
    for title, given, own, theirs in (
        ("relu", [image], ops.relu, lambda t: _f().relu(t)),
        ("gelu", [rows], ops.gelu, lambda t: _f().gelu(t)),
        ("add", [image, image], ops.add, lambda a, b: a + b),
        ("where", [mask, rows, rows], ops.where, lambda m, a, b: _torch().where(m, a, b)),
        ("clamp", [rows], lambda x: ops.clamp(x, -1, 1), lambda t: t.clamp(-1, 1)),
        ("masked_fill", [rows, mask], lambda x, m: ops.masked_fill(x, m, -1.0),
         lambda t, m: t.masked_fill(m, -1.0)),
        ("cat of channels", [half, half], lambda a, b: ops.cat([a, b], 1),
         lambda a, b: _torch().cat([a, b], 1)),
        ("pad by 1", [image], lambda x: ops.pad(x, (1, 1, 1, 1)),
         lambda t: _f().pad(t, (1, 1, 1, 1))),
        ("flip of lines", [rows], lambda x: ops.contiguous(ops.flip(x, 1)), lambda t: t.flip(1)),
        ("roll of lines", [rows], lambda x: ops.roll(x, 3, 1), lambda t: t.roll(3, 1)),
        ("tril", [rows], ops.tril, lambda t: t.tril()),
        ("softmax of 1024", [rows], lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        ("sum", [image], ops.sum, lambda t: t.sum()),
        ("mse_loss", [rows, rows], ops.mse_loss, lambda a, b: _f().mse_loss(a, b)),
    ):  # fmt: skip
        yield Op(
            MEMORY, title, given, own, theirs, "read" if title in ("sum", "mse_loss") else "copy"
        )


def _moving(quick: bool) -> Iterator[Op]:
    """Sub-pixel shuffles and memory formats, which only copy."""
    n, h, w = (1, 6, 20) if quick else (8, 180, 320)
    deep, wide = Given((n, 64, h, w)), Given((n, 16, 2 * h, 2 * w))
    image = Given((2, 16, 5, 8) if quick else (64, 128, 56, 56))
    for title, given, own, theirs in (
        ("depth_to_space by 2", deep, lambda x: ops.depth_to_space(x, 2, "CRD"),
         lambda t: _f().pixel_shuffle(t, 2)),
        ("space_to_depth by 2", wide, lambda x: ops.space_to_depth(x, 2, "CRD"),
         lambda t: _f().pixel_unshuffle(t, 2)),
        ("channel_shuffle of 2 groups", image, lambda x: ops.channel_shuffle(x, 2),
         lambda t: _f().channel_shuffle(t, 2)),
        ("to NHWC", image, lambda x: ops.contiguous(x, memory_format="channels_last"),
         lambda t: t.contiguous(memory_format=_torch().channels_last)),
        ("to NCHW", image, lambda x: ops.contiguous(x, memory_format="contiguous"),
         lambda t: t.contiguous()),
    ):  # fmt: skip
        formats = {"to NHWC": ("contiguous",), "to NCHW": ("channels_last",)}
        some = {"formats": formats[title]} if title in formats else {}
        yield Op("moving memory", title, [given], own, theirs, "copy", **some)


def _pooling(quick: bool) -> Iterator[Op]:
    n, size = (1, 16) if quick else (8, 112)
    image, pooled = Given((n, 64, size, size)), Given((n, 64, size // 2, size // 2))
    small, to = Given((n, 512, size // 4, size // 4)), 2 if quick else 7

    def indices(grad: Any, x: Any) -> Call:
        _, found = ops.max_pool2d(x, 3, 2, 1, return_indices=True)
        return lambda: ops.max_pool2d_backward(grad, x, 3, 2, 1, indices=found)

    family = "pooling"
    three = {"kernel_size": 3, "stride": 2, "padding": 1}
    for title, given, own, theirs in (
        ("max 3×3, stride 2", [image], lambda x: ops.max_pool2d(x, 3, 2, 1),
         lambda t: _f().max_pool2d(t, **three)),
        ("max 3×3, stride 2, with indices", [image],
         lambda x: ops.max_pool2d(x, 3, 2, 1, return_indices=True),
         lambda t: _f().max_pool2d(t, **three, return_indices=True)),
        ("max 5×5", [small], lambda x: ops.max_pool2d(x, 5, 1, 2),
         lambda t: _f().max_pool2d(t, 5, 1, 2)),
        ("average 2×2", [image], lambda x: ops.avg_pool2d(x, 2), lambda t: _f().avg_pool2d(t, 2)),
        ("average 3×3", [image], lambda x: ops.avg_pool2d(x, 3, 1, 1),
         lambda t: _f().avg_pool2d(t, 3, 1, 1)),
        ("adaptive average to 7×7", [small], lambda x: ops.adaptive_avg_pool2d(x, to),
         lambda t: _f().adaptive_avg_pool2d(t, to)),
        ("global average", [small], lambda x: ops.adaptive_avg_pool2d(x, 1),
         lambda t: _f().adaptive_avg_pool2d(t, 1)),
    ):  # fmt: skip
        yield Op(family, title, given, own, theirs)
    theirs = _backward(lambda t: _f().max_pool2d(t, **three))
    yield Op(
        family, "max 3×3, stride 2, backward", [pooled, image], indices, theirs, "", True, True
    )
    yield Op(family, "average 2×2, backward", [pooled, image],
             lambda g, x: ops.avg_pool2d_backward(g, x, 2),
             _backward(lambda t: _f().avg_pool2d(t, 2)), "", False, True)  # fmt: skip


def _softmax(quick: bool) -> Iterator[Op]:
    heads, tokens = (2, 17) if quick else (32 * 12, 197)
    side = 64 if quick else 256
    keys, logits = Given((heads, tokens, tokens)), Given((4, 1000) if quick else (64, 50257))
    segments = Given((1 if quick else 8, 21, side, side))
    for title, given, name, axis in (
        ("of 197 keys", keys, "softmax", -1), ("of 50257 words", logits, "softmax", -1),
        ("log_softmax of 50257 words", logits, "log_softmax", -1),
        ("of 21 channels", segments, "softmax", 1),
    ):  # fmt: skip
        yield Op("softmax", title, [given], partial(_along, getattr(ops, name), axis),
                 lambda t, name=name, axis=axis: getattr(t, name)(axis))  # fmt: skip

    def back(grad: Any, x: Any) -> Call:
        y = ops.softmax(x, -1)
        return lambda: ops.softmax_backward(grad, y, -1)

    theirs = _backward(lambda t: t.softmax(-1))
    yield Op("softmax", "of 197 keys, backward", [keys, keys], back, theirs, "", True, True)


def _along(operator: Callable[..., Any], axis: int, x: Any) -> Any:
    return operator(x, axis)


def _cross_entropy(quick: bool) -> Iterator[Op]:
    size, family = 32 if quick else 256, "cross_entropy"
    for title, shape in (
        ("1000 classes", (64 if quick else 4096, 1000)),
        ("50257 words", (4 if quick else 256, 50257)),
        ("21 classes of pixels", (1 if quick else 8, 21, size, size)),
    ):
        logits, target = Given(shape), Given((shape[0], *shape[2:]), shape[1])

        def theirs(t: Any, c: Any) -> Any:
            return _f().cross_entropy(t, c)

        yield Op(family, title, [logits, target], ops.cross_entropy, theirs)
        yield Op(family, f"{title}, backward", [Given(()), logits, target],
                 ops.cross_entropy_backward, _backward(theirs), "", False, True)  # fmt: skip


def _interpolate(quick: bool) -> Iterator[Op]:
    n, size = (1, 8) if quick else (8, 56)
    image, doubled = Given((n, 64, size, size)), Given((n, 64, 2 * size, 2 * size))
    family = "interpolate"
    for mode in ("nearest", "bilinear", "bicubic"):
        told = {"scale_factor": 2, "mode": mode}
        theirs = lambda t, told=told: _f().interpolate(t, **told)  # noqa: E731
        yield Op(family, f"{mode}, twice as large", [image],
                 lambda x, told=told: ops.interpolate(x, **told), theirs)  # fmt: skip
        if mode != "bicubic":
            yield Op(family, f"{mode}, backward", [doubled, image],
                     lambda g, x, told=told: ops.interpolate_backward(g, x.shape, **told),
                     _backward(theirs), "", False, True)  # fmt: skip
    told = {"size": (4 * size, 4 * size), "mode": "bilinear", "antialias": True}
    yield Op(family, "bilinear, antialias, to 224×224", [Given((n, 3, 9 * size, 9 * size))],
             lambda x: ops.interpolate(x, **told),
             lambda t: _f().interpolate(t, **told))  # fmt: skip


def _indices(quick: bool) -> Iterator[Op]:
    rows, few, many = (64, 16, 64) if quick else (4096, 4096, 65536)
    table, tokens = (100, 32) if quick else (50257, 8192)
    weight, words = Given((table, 256)), Given((tokens,), table)
    lines, some = Given((rows, 1024)), Given((few, 1024))
    for family, title, given, own, theirs in (
        ("gather", "gather along lines", [lines, Given((rows, 1024), 1024)],
         lambda x, i: ops.gather(x, 1, i), lambda t, i: t.gather(1, i)),
        ("gather", "gather along columns", [lines, Given((rows, 1024), rows)],
         lambda x, i: ops.gather(x, 0, i), lambda t, i: t.gather(0, i)),
        ("gather", "index_select of rows", [weight, words],
         lambda x, i: ops.index_select(x, 0, i), lambda t, i: t.index_select(0, i)),
        ("gather", "embedding", [words, weight], ops.embedding,
         lambda i, t: _f().embedding(i, t)),
        ("scatter_add", "scatter_add along lines", [some, Given((few, 1024), 1024), some],
         lambda x, i, s: ops.scatter_add(x, 1, i, s), lambda t, i, s: t.scatter_add(1, i, s)),
        ("scatter_add", "scatter_add of a long line",
         [Given((many,)), Given((16 * many,), many), Given((16 * many,))],
         lambda x, i, s: ops.scatter_add(x, 0, i, s), lambda t, i, s: t.scatter_add(0, i, s)),
        ("scatter_add", "index_add of rows",
         [Given((few, 64)), Given((many,), few), Given((many, 64))],
         lambda x, i, s: ops.index_add(x, 0, i, s), lambda t, i, s: t.index_add(0, i, s)),
    ):  # fmt: skip
        yield Op(family, title, given, own, theirs)
    yield Op("scatter_add", "embedding, backward", [Given((tokens, 256)), words, weight],
             lambda g, i, w: ops.embedding_backward(g, i, w.shape[0]),
             _backward(lambda i, t: _f().embedding(i, t)), "", False, True)  # fmt: skip


def _order(quick: bool) -> Iterator[Op]:
    by = 16 if quick else 1
    for title, shape, dim in (
        ("along lines of 1024", (4096 // by, 1024), 1),
        ("along columns of 4096", (4096 // by, 1024), 0),
        ("along one line of 4 Mi", ((1 << 22) // by,), 0),
    ):
        yield Op("cumsum", title, [Given(shape)], lambda x, d=dim: ops.cumsum(x, d),
                 lambda t, d=dim: t.cumsum(d))  # fmt: skip
    for title, shape, below in (
        ("lines of 64", (65536 // by, 64), 0), ("lines of 1000", (2048 // by, 1000), 0),
        ("lines of 16384", (64 // by, 16384), 0), ("one line of 1 Mi", ((1 << 20) // by,), 0),
        ("one line of 1 Mi integers below 1000", ((1 << 20) // by,), 1000),
    ):  # fmt: skip
        yield Op("sort", title, [Given(shape, below)], lambda x: ops.sort(x, -1)[0],
                 lambda t: t.sort(-1)[0])  # fmt: skip
    for title, shape, k in (
        ("5 of 1000", (4096 // by, 1000), 5), ("50 of 50257", (64 // by, 50257), 50),
        ("1000 of 120000", (16 // by, 120000 // by), 1000),
        ("100 of 4 Mi", ((1 << 22) // by,), 100),
    ):  # fmt: skip
        yield Op("topk", title, [Given(shape)], lambda x, k=k: ops.topk(x, k, -1)[0],
                 lambda t, k=k: t.topk(k, -1)[0])  # fmt: skip


def _attention(quick: bool) -> Iterator[Op]:
    attention, backward = (
        ops.scaled_dot_product_attention,
        ops.scaled_dot_product_attention_backward,
    )

    def back(causal: bool, g: Any, q: Any, k: Any, v: Any) -> Call:
        y, sums, _ = attention(q, k, v, is_causal=causal, return_stats=True)  # type: ignore[misc]
        return lambda: backward(g, q, k, v, y, sums, is_causal=causal)

    for heads, tokens in ((8, 1024), (2, 4096)):
        given = Given((1, heads, 64 if quick else tokens, 64))
        for causal in (False, True):
            own = partial(attention, is_causal=causal)
            theirs = lambda *t, c=causal: _f().scaled_dot_product_attention(*t, is_causal=c)  # noqa: E731
            title = f"{tokens} tokens{', causal' if causal else ''}"
            yield Op("attention", title, [given] * 3, own, theirs)
            yield Op("attention", f"{title}, backward", [given] * 4, partial(back, causal),
                     _backward(theirs), "", True, True)  # fmt: skip


def _adam(quick: bool) -> Iterator[Op]:
    # Basic blocks of a small residual network: weights, and pairs of vectors.
    layers = [
        Given(s) for w in (64, 128, 256) for _ in range(4) for s in ((w, w, 3, 3), (w,), (w,))
    ]

    def own(*given: Any) -> Call:
        params, grads = (ops.optim.flat(part) for part in _halves(given))
        first, second = ops.optim.flat(params, fill=0), ops.optim.flat(params, fill=0)

        def call() -> Any:
            ops.optim.adam(params, grads, first, second, step=1)
            return params

        return call

    def theirs(*given: Any) -> Call:
        params, grads = _halves(given)
        params = [t.clone().requires_grad_() for t in params]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        optimizer = _torch().optim.Adam(params, fused=True)

        def call() -> Any:
            optimizer.step()
            return params

        return call

    one, some = [Given((1000 if quick else 1 << 22,))], layers[:3] if quick else layers
    yield Op("Adam", "one parameter of 4 Mi", one * 2, own, theirs, "", True, True)
    yield Op("Adam", f"{len(some)} parameters", some * 2, own, theirs, "", True, True)


def _halves(given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return given[: len(given) // 2], given[len(given) // 2 :]


_FAMILIES = (
    *(_memory, _moving, _pooling, _softmax, _cross_entropy, _interpolate),
    *(_indices, _order, _attention, _adam),
)


def _call(function: Callable[..., Any], prepares: bool, arrays: Sequence[Any]) -> Call:
    return function(*arrays) if prepares else partial(function, *arrays)


def ops_cases(args: Options) -> list[Case]:
    """Return the rows of ``python -m bench ops``."""
    found = []
    for op in (op for family in _FAMILIES for op in family(args.quick)):
        images = op.family not in ("attention", "Adam") and any(
            len(g.shape) == 4 and not g.below for g in op.given
        )
        found += [_case(op, memory) for memory in (op.formats if images else ("",))]
    return found


def _case(op: Op, memory: str) -> Case:
    def data() -> Data:
        random = np.random.default_rng(0)
        return Data(*(given.host(random, memory) for given in op.given))

    return Case(
        op.family,
        f"{op.title}{f', {memory}' if memory else ''}",
        1,
        data,
        {
            "clprim": lambda data: _call(op.own, op.prepare, data.device),
            "PyTorch": lambda data: _call(op.theirs, op.prepares, data.torch),
        },
        tolerance=1e-3,
        limit=op.limit,
        nbytes=ALL,
    )


PAGES = {
    "ops": Page(
        "Operators next to PyTorch", "ms", ops_cases, (),
        "Both allocate their results, as one operator of a network follows another. PyTorch's "
        "Adam is the fused one; clprim's parameters lie side by side (`ops.optim.flat`). Of `sort`"
        " and `topk` the values are compared, since equal ones have any order there.",
    )
}  # fmt: skip
