"""Operators on arrays as networks have them, next to PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.case import ALL, Call, Case, Data, Host, Options, Page, Shape, last
from clprim import ops

MEMORY = "memory-bound"
_ARRAYS = "abcd"
_ATTENTION = "scaled_dot_product_attention"


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
    """An operator: its table and title, arguments, and its call.

    Calls are text over the arguments a, b, …; what stands before a semicolon is not timed. PyTorch
    is called by the same text unless ``theirs`` says otherwise; with ``forward`` it computes the
    gradient of that text in what it reads, of which ``a`` is the gradient in the result.
    """

    family: str
    title: str
    given: Sequence[Given]
    own: str | Callable[..., Call]
    theirs: str | Callable[..., Call] = ""
    forward: str = ""
    limit: str = ""
    formats: tuple[str, ...] = ("contiguous", "channels_last")


def _called(text: str, library: dict[str, Any], arrays: Sequence[Any]) -> Call:
    names = {**library, **dict(zip(_ARRAYS, arrays, strict=False))}
    *before, timed = text.split("; ")
    for line in before:
        exec(line, names)
    return eval(f"lambda: {timed}", names)  # type: ignore[no-any-return]


def _own(op: Op, data: Data) -> Call:
    if callable(op.own):
        return op.own(*data.device)
    return _called(op.own, vars(ops), data.device)


def _theirs(op: Op, data: Data) -> Call:
    import torch

    if callable(op.theirs):
        return op.theirs(*data.torch)
    library = {**vars(torch), **vars(torch.nn.functional)}
    if not op.forward:
        return _called(op.theirs or str(op.own), library, data.torch)
    grad, *given = data.torch
    leaves = [t.requires_grad_() for t in given if t.is_floating_point()]
    result = _called(op.forward, library, data.torch)()
    return partial(torch.autograd.grad, result, leaves, grad, retain_graph=True)


def _memory(quick: bool) -> Iterator[Op]:
    n = 2 if quick else 32
    image, half = Given((n, 64, 56, 56)), Given((n, 32, 56, 56))
    rows = Given((64 if quick else 8192, 1024))
    mask = Given(rows.shape, 2)
    for title, given, own, *theirs in (
        ("relu", [image], "relu(a)"),
        ("gelu", [rows], "gelu(a)"),
        ("add", [image, image], "add(a, b)"),
        ("where", [mask, rows, rows], "where(a, b, c)"),
        ("clamp", [rows], "clamp(a, -1, 1)"),
        ("masked_fill", [rows, mask], "masked_fill(a, b, -1.0)"),
        ("cat of channels", [half, half], "cat([a, b], 1)"),
        ("pad by 1", [image], "pad(a, (1, 1, 1, 1))"),
        ("flip of lines", [rows], "contiguous(flip(a, 1))", "flip(a, [1])"),
        ("roll of lines", [rows], "roll(a, 3, 1)"),
        ("tril", [rows], "tril(a)"),
        ("softmax of 1024", [rows], "softmax(a, -1)"),
        ("sum", [image], "sum(a)"),
        ("mse_loss", [rows, rows], "mse_loss(a, b)"),
    ):
        limit = "read" if title in ("sum", "mse_loss") else "copy"
        yield Op(MEMORY, title, given, own, *theirs, limit=limit)


def _moving(quick: bool) -> Iterator[Op]:
    """Sub-pixel shuffles and memory formats, which only copy."""
    n, h, w = (1, 6, 20) if quick else (8, 180, 320)
    deep, wide = Given((n, 64, h, w)), Given((n, 16, 2 * h, 2 * w))
    image = Given((2, 16, 5, 8) if quick else (64, 128, 56, 56))
    both = Op._field_defaults["formats"]
    for title, given, own, theirs, formats in (
        ("depth_to_space by 2", deep, "depth_to_space(a, 2, 'CRD')", "pixel_shuffle(a, 2)", both),
        ("space_to_depth by 2", wide, "space_to_depth(a, 2, 'CRD')", "pixel_unshuffle(a, 2)", both),
        ("channel_shuffle of 2 groups", image, "channel_shuffle(a, 2)", "", both),
        ("to NHWC", image, "contiguous(a, memory_format='channels_last')",
         "a.contiguous(memory_format=channels_last)", both[:1]),
        ("to NCHW", image, "contiguous(a, memory_format='contiguous')", "a.contiguous()", both[1:]),
    ):  # fmt: skip
        yield Op("moving memory", title, [given], own, theirs, limit="copy", formats=formats)


def _pooling(quick: bool) -> Iterator[Op]:
    n, size = (1, 16) if quick else (8, 112)
    image, pooled = Given((n, 64, size, size)), Given((n, 64, size // 2, size // 2))
    small, to = Given((n, 512, size // 4, size // 4)), 2 if quick else 7
    for title, given, own, forward in (
        ("max 3×3, stride 2", [image], "max_pool2d(a, 3, 2, 1)", ""),
        ("max 3×3, stride 2, with indices", [image],
         "max_pool2d(a, 3, 2, 1, return_indices=True)", ""),
        ("max 5×5", [small], "max_pool2d(a, 5, 1, 2)", ""),
        ("average 2×2", [image], "avg_pool2d(a, 2)", ""),
        ("average 3×3", [image], "avg_pool2d(a, 3, 1, 1)", ""),
        ("adaptive average to 7×7", [small], f"adaptive_avg_pool2d(a, {to})", ""),
        ("global average", [small], "adaptive_avg_pool2d(a, 1)", ""),
        ("max 3×3, stride 2, backward", [pooled, image],
         "_, y = max_pool2d(b, 3, 2, 1, return_indices=True); "
         "max_pool2d_backward(a, b, 3, 2, 1, indices=y)", "max_pool2d(b, 3, 2, 1)"),
        ("average 2×2, backward", [pooled, image], "avg_pool2d_backward(a, b, 2)",
         "avg_pool2d(b, 2)"),
    ):  # fmt: skip
        yield Op("pooling", title, given, own, forward=forward)


def _softmax(quick: bool) -> Iterator[Op]:
    heads, tokens = (2, 17) if quick else (32 * 12, 197)
    side = 64 if quick else 256
    keys, logits = Given((heads, tokens, tokens)), Given((4, 1000) if quick else (64, 50257))
    segments = Given((1 if quick else 8, 21, side, side))
    for title, given, own, forward in (
        ("of 197 keys", [keys], "softmax(a, -1)", ""),
        ("of 50257 words", [logits], "softmax(a, -1)", ""),
        ("log_softmax of 50257 words", [logits], "log_softmax(a, -1)", ""),
        ("of 21 channels", [segments], "softmax(a, 1)", ""),
        ("of 197 keys, backward", [keys, keys],
         "y = softmax(b, -1); softmax_backward(a, y, -1)", "softmax(b, -1)"),
    ):  # fmt: skip
        yield Op("softmax", title, given, own, forward=forward)


def _cross_entropy(quick: bool) -> Iterator[Op]:
    size, family = 32 if quick else 256, "cross_entropy"
    for title, shape in (
        ("1000 classes", (64 if quick else 4096, 1000)),
        ("50257 words", (4 if quick else 256, 50257)),
        ("21 classes of pixels", (1 if quick else 8, 21, size, size)),
    ):
        given = [Given(shape), Given((shape[0], *shape[2:]), shape[1])]
        yield Op(family, title, given, "cross_entropy(a, b)")
        yield Op(family, f"{title}, backward", [Given(()), *given],
                 "cross_entropy_backward(a, b, c)", forward="cross_entropy(b, c)")  # fmt: skip


def _interpolate(quick: bool) -> Iterator[Op]:
    n, size = (1, 8) if quick else (8, 56)
    image, doubled = Given((n, 64, size, size)), Given((n, 64, 2 * size, 2 * size))
    family = "interpolate"
    for mode in ("nearest", "bilinear", "bicubic"):
        told = f"scale_factor=2, mode='{mode}'"
        yield Op(family, f"{mode}, twice as large", [image], f"interpolate(a, {told})")
        if mode != "bicubic":
            yield Op(family, f"{mode}, backward", [doubled, image],
                     f"interpolate_backward(a, b.shape, {told})",
                     forward=f"interpolate(b, {told})")  # fmt: skip
    told = f"size={(4 * size,) * 2}, mode='bilinear', antialias=True"
    yield Op(family, "bilinear, antialias, to 224×224", [Given((n, 3, 9 * size, 9 * size))],
             f"interpolate(a, {told})")  # fmt: skip


def _indices(quick: bool) -> Iterator[Op]:
    rows, few, many = (64, 16, 64) if quick else (4096, 4096, 65536)
    table, tokens = (100, 32) if quick else (50257, 8192)
    weight, words = Given((table, 256)), Given((tokens,), table)
    lines, some = Given((rows, 1024)), Given((few, 1024))
    for family, title, given, own, forward in (
        ("gather", "gather along lines", [lines, Given((rows, 1024), 1024)], "gather(a, 1, b)", ""),
        ("gather", "gather along columns", [lines, Given((rows, 1024), rows)], "gather(a, 0, b)",
         ""),
        ("gather", "index_select of rows", [weight, words], "index_select(a, 0, b)", ""),
        ("gather", "embedding", [words, weight], "embedding(a, b)", ""),
        ("scatter_add", "scatter_add along lines", [some, Given((few, 1024), 1024), some],
         "scatter_add(a, 1, b, c)", ""),
        ("scatter_add", "scatter_add of a long line",
         [Given((many,)), Given((16 * many,), many), Given((16 * many,))],
         "scatter_add(a, 0, b, c)", ""),
        ("scatter_add", "index_add of rows",
         [Given((few, 64)), Given((many,), few), Given((many, 64))], "index_add(a, 0, b, c)", ""),
        ("scatter_add", "embedding, backward", [Given((tokens, 256)), words, weight],
         "embedding_backward(a, b, c.shape[0])", "embedding(b, c)"),
    ):  # fmt: skip
        yield Op(family, title, given, own, forward=forward)


def _order(quick: bool) -> Iterator[Op]:
    by = 16 if quick else 1
    for family, title, shape, own, below in (
        ("cumsum", "along lines of 1024", (4096 // by, 1024), "cumsum(a, 1)", 0),
        ("cumsum", "along columns of 4096", (4096 // by, 1024), "cumsum(a, 0)", 0),
        ("cumsum", "along one line of 4 Mi", ((1 << 22) // by,), "cumsum(a, 0)", 0),
        ("sort", "lines of 64", (65536 // by, 64), "sort(a, -1)[0]", 0),
        ("sort", "lines of 1000", (2048 // by, 1000), "sort(a, -1)[0]", 0),
        ("sort", "lines of 16384", (64 // by, 16384), "sort(a, -1)[0]", 0),
        ("sort", "one line of 1 Mi", ((1 << 20) // by,), "sort(a, -1)[0]", 0),
        ("sort", "one line of 1 Mi integers below 1000", ((1 << 20) // by,), "sort(a, -1)[0]",
         1000),
        ("topk", "5 of 1000", (4096 // by, 1000), "topk(a, 5, -1)[0]", 0),
        ("topk", "50 of 50257", (64 // by, 50257), "topk(a, 50, -1)[0]", 0),
        ("topk", "1000 of 120000", (16 // by, 120000 // by), "topk(a, 1000, -1)[0]", 0),
        ("topk", "100 of 4 Mi", ((1 << 22) // by,), "topk(a, 100, -1)[0]", 0),
    ):  # fmt: skip
        yield Op(family, title, [Given(shape, below)], own)


def _attention(quick: bool) -> Iterator[Op]:
    for heads, tokens in ((8, 1024), (2, 4096)):
        given = Given((1, heads, 64 if quick else tokens, 64))
        for causal in (False, True):
            title, told = f"{tokens} tokens{', causal' if causal else ''}", f"is_causal={causal}"
            yield Op("attention", title, [given] * 3, f"{_ATTENTION}(a, b, c, {told})")
            before = f"y, sums, _ = {_ATTENTION}(b, c, d, {told}, return_stats=True)"
            yield Op("attention", f"{title}, backward", [given] * 4,
                     f"{before}; {_ATTENTION}_backward(a, b, c, d, y, sums, {told})",
                     forward=f"{_ATTENTION}(b, c, d, {told})")  # fmt: skip


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
        import torch

        params, grads = _halves(given)
        params = [t.clone().requires_grad_() for t in params]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        optimizer = torch.optim.Adam(params, fused=True)

        def call() -> Any:
            optimizer.step()
            return params

        return call

    one, some = [Given((1000 if quick else 1 << 22,))], layers[:3] if quick else layers
    yield Op("Adam", "one parameter of 4 Mi", one * 2, own, theirs)
    yield Op("Adam", f"{len(some)} parameters", some * 2, own, theirs)


def _halves(given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return given[: len(given) // 2], given[len(given) // 2 :]


_FAMILIES = (
    *(_memory, _moving, _pooling, _softmax, _cross_entropy, _interpolate),
    *(_indices, _order, _attention, _adam),
)


def ops_cases(args: Options) -> list[Case]:
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
        op.family, f"{op.title}{f', {memory}' if memory else ''}", 1, data,
        {"clprim": partial(_own, op), "PyTorch": partial(_theirs, op)},
        tolerance=1e-3, limit=op.limit, nbytes=ALL,
    )  # fmt: skip


PAGES = {
    "ops": Page(
        "Operators next to PyTorch", "ms", ops_cases, (),
        "Both allocate their results, as one operator of a network follows another. PyTorch's "
        "Adam is the fused one; clprim's parameters lie side by side (`ops.optim.flat`). Of `sort`"
        " and `topk` the values are compared, since equal ones have any order there.",
    )
}  # fmt: skip
