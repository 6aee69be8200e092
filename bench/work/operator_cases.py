"""What ``python -m bench ops`` measures: operators on arrays as networks have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clprim import ops

__all__ = ["MEMORY", "Input", "OpCase", "op_cases"]

Call = Callable[[], Sequence[Any]]

#: The family whose rows are held against the device's bandwidth.
MEMORY = "memory-bound"
# Four dimensions that are no image.
_NO_IMAGES = ("attention", "Adam")


@dataclass(frozen=True)
class Input:
    """One argument.

    Attributes:
        shape: Of it.
        below: 0 for normal float32 numbers, else integers from 0 up to it; 2 for booleans.
    """

    shape: tuple[int, ...]
    below: int = 0


@dataclass(frozen=True)
class OpCase:
    """One row, in one memory format or in both.

    Attributes:
        family: The table that it stands in.
        title: For readers.
        inputs: Of both calls.
        own: Takes arrays, returns the call that is measured.
        theirs: Likewise of PyTorch's tensors.
        ceiling: ``copy`` or ``read`` where bandwidth is the bound, else empty.
    """

    family: str
    title: str
    inputs: tuple[Input, ...]
    own: Callable[..., Call]
    theirs: Callable[..., Call]
    ceiling: str = ""

    @property
    def images(self) -> bool:
        """Whether memory formats differ."""
        return self.family not in _NO_IMAGES and any(
            len(given.shape) == 4 and not given.below for given in self.inputs
        )


def _torch() -> Any:
    import torch

    return torch


def _functional() -> Any:
    return _torch().nn.functional


def _plain(own: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[Any, Any]:
    """Calls of functions that return one array."""
    return (
        lambda *given: lambda: (own(*given),),
        lambda *given: lambda: (theirs(*given),),
    )


def _gradient(forward: Callable[..., Any]) -> Callable[..., Call]:
    """PyTorch's backward of a function; the gradient in its result comes first."""

    def prepare(grad: Any, *given: Any) -> Call:
        leaves = [t.detach().requires_grad_() for t in given if t.is_floating_point()]
        left = iter(leaves)
        result = forward(*(next(left) if t.is_floating_point() else t for t in given))
        backward = _torch().autograd.grad
        return lambda: backward(result, leaves, grad, retain_graph=True)

    return prepare


def _memory(quick: bool) -> list[OpCase]:
    n = 2 if quick else 32
    image, half = Input((n, 64, 56, 56)), Input((n, 32, 56, 56))
    rows = Input((64 if quick else 8192, 1024))
    mask = Input(rows.shape, 2)

    def case(
        title: str, inputs: Sequence[Input], own: Any, theirs: Any, to: str = "copy"
    ) -> OpCase:
        return OpCase(MEMORY, title, tuple(inputs), *_plain(own, theirs), to)

    return [
        case("relu", [image], ops.relu, lambda t: _functional().relu(t)),
        case("gelu", [rows], ops.gelu, lambda t: _functional().gelu(t)),
        case("add", [image, image], ops.add, lambda a, b: a + b),
        case("where", [mask, rows, rows], ops.where, lambda m, a, b: _torch().where(m, a, b)),
        case("clamp", [rows], lambda x: ops.clamp(x, -1, 1), lambda t: t.clamp(-1, 1)),
        case(
            "masked_fill",
            [rows, mask],
            lambda x, m: ops.masked_fill(x, m, -1.0),
            lambda t, m: t.masked_fill(m, -1.0),
        ),
        case(
            "cat of channels",
            [half, half],
            lambda a, b: ops.cat([a, b], 1),
            lambda a, b: _torch().cat([a, b], 1),
        ),
        case(
            "pad by 1",
            [image],
            lambda x: ops.pad(x, (1, 1, 1, 1)),
            lambda t: _functional().pad(t, (1, 1, 1, 1)),
        ),
        case(
            "flip of lines",
            [rows],
            lambda x: ops.contiguous(ops.flip(x, 1)),
            lambda t: t.flip(1),
        ),
        case("roll of lines", [rows], lambda x: ops.roll(x, 3, 1), lambda t: t.roll(3, 1)),
        case("tril", [rows], ops.tril, lambda t: t.tril()),
        case("softmax of 1024", [rows], lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        case("sum", [image], ops.sum, lambda t: t.sum(), "read"),
        case(
            "mse_loss",
            [rows, rows],
            ops.mse_loss,
            lambda a, b: _functional().mse_loss(a, b),
            "read",
        ),
    ]


def _pooling(quick: bool) -> list[OpCase]:
    n, size = (1, 16) if quick else (8, 112)
    image, pooled = Input((n, 64, size, size)), Input((n, 64, size // 2, size // 2))
    small = Input((n, 512, size // 4, size // 4))

    def case(title: str, inputs: Sequence[Input], own: Any, theirs: Any) -> OpCase:
        return OpCase("pooling", title, tuple(inputs), *_plain(own, theirs))

    def back(title: str, inputs: Sequence[Input], own: Any, forward: Any) -> OpCase:
        prepared = _plain(own, forward)[0]
        return OpCase("pooling", title, tuple(inputs), prepared, _gradient(forward))

    def indices(grad: Any, x: Any) -> Call:
        _, found = ops.max_pool2d(x, 3, 2, 1, return_indices=True)
        return lambda: (ops.max_pool2d_backward(grad, x, 3, 2, 1, indices=found),)

    return [
        case(
            "max 3×3, stride 2",
            [image],
            lambda x: ops.max_pool2d(x, 3, 2, 1),
            lambda t: _functional().max_pool2d(t, 3, 2, 1),
        ),
        OpCase(
            "pooling",
            "max 3×3, stride 2, with indices",
            (image,),
            lambda x: lambda: ops.max_pool2d(x, 3, 2, 1, return_indices=True),
            lambda t: lambda: _functional().max_pool2d(t, 3, 2, 1, return_indices=True),
        ),
        case(
            "max 5×5",
            [small],
            lambda x: ops.max_pool2d(x, 5, 1, 2),
            lambda t: _functional().max_pool2d(t, 5, 1, 2),
        ),
        case(
            "average 2×2",
            [image],
            lambda x: ops.avg_pool2d(x, 2),
            lambda t: _functional().avg_pool2d(t, 2),
        ),
        case(
            "average 3×3",
            [image],
            lambda x: ops.avg_pool2d(x, 3, 1, 1),
            lambda t: _functional().avg_pool2d(t, 3, 1, 1),
        ),
        case(
            "adaptive average to 7×7",
            [small],
            lambda x: ops.adaptive_avg_pool2d(x, 7 if not quick else 2),
            lambda t: _functional().adaptive_avg_pool2d(t, 7 if not quick else 2),
        ),
        case(
            "global average",
            [small],
            lambda x: ops.adaptive_avg_pool2d(x, 1),
            lambda t: _functional().adaptive_avg_pool2d(t, 1),
        ),
        OpCase(
            "pooling",
            "max 3×3, stride 2, backward",
            (pooled, image),
            indices,
            _gradient(lambda t: _functional().max_pool2d(t, 3, 2, 1)),
        ),
        back(
            "average 2×2, backward",
            [pooled, image],
            lambda g, x: ops.avg_pool2d_backward(g, x, 2),
            lambda t: _functional().avg_pool2d(t, 2),
        ),
    ]


def _softmax(quick: bool) -> list[OpCase]:
    heads, tokens = (2, 17) if quick else (32 * 12, 197)
    words = 1000 if quick else 50257
    attention, logits = Input((heads, tokens, tokens)), Input((4 if quick else 64, words))
    segments = Input((1 if quick else 8, 21, 64 if quick else 256, 64 if quick else 256))
    family = "softmax"
    return [
        OpCase(
            family,
            "of 197 keys",
            (attention,),
            *_plain(lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        ),
        OpCase(
            family,
            "of 50257 words",
            (logits,),
            *_plain(lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        ),
        OpCase(
            family,
            "log_softmax of 50257 words",
            (logits,),
            *_plain(lambda x: ops.log_softmax(x, -1), lambda t: t.log_softmax(-1)),
        ),
        OpCase(
            family,
            "of 21 channels",
            (segments,),
            *_plain(lambda x: ops.softmax(x, 1), lambda t: t.softmax(1)),
        ),
        OpCase(
            family,
            "of 197 keys, backward",
            (attention, attention),
            lambda g, x: _after(ops.softmax(x, -1), lambda y: ops.softmax_backward(g, y, -1)),
            _gradient(lambda t: t.softmax(-1)),
        ),
    ]


def _after(made: Any, call: Callable[[Any], Any]) -> Call:
    """A call with something that was made before the clock runs."""
    return lambda: (call(made),)


def _cross_entropy(quick: bool) -> list[OpCase]:
    family = "cross_entropy"
    found = []
    size = 32 if quick else 256
    for title, shape in (
        ("1000 classes", (64 if quick else 4096, 1000)),
        ("50257 words", (4 if quick else 256, 50257)),
        ("21 classes of pixels", (1 if quick else 8, 21, size, size)),
    ):
        logits = Input(shape)
        target = Input((shape[0], *shape[2:]), shape[1])
        forward = _plain(ops.cross_entropy, lambda t, c: _functional().cross_entropy(t, c))
        found.append(OpCase(family, title, (logits, target), *forward))
        backward = _plain(ops.cross_entropy_backward, None)[0]
        theirs = _gradient(lambda t, c: _functional().cross_entropy(t, c))
        found.append(
            OpCase(family, f"{title}, backward", (Input(()), logits, target), backward, theirs)
        )
    return found


def _interpolate(quick: bool) -> list[OpCase]:
    n, size = (1, 8) if quick else (8, 56)
    image, doubled = Input((n, 64, size, size)), Input((n, 64, 2 * size, 2 * size))
    photo = Input((n, 3, 9 * size, 9 * size))
    family = "interpolate"
    found = []
    for mode in ("nearest", "bilinear", "bicubic"):

        def mine(x: Any, mode: str = mode) -> Any:
            return ops.interpolate(x, scale_factor=2, mode=mode)

        def other(t: Any, mode: str = mode) -> Any:
            return _functional().interpolate(t, scale_factor=2, mode=mode)

        found.append(OpCase(family, f"{mode}, twice as large", (image,), *_plain(mine, other)))
    found.append(
        OpCase(
            family,
            "bilinear, antialias, to 224×224",
            (photo,),
            *_plain(
                lambda x: ops.interpolate(x, (4 * size, 4 * size), mode="bilinear", antialias=True),
                lambda t: _functional().interpolate(
                    t, (4 * size, 4 * size), mode="bilinear", antialias=True
                ),
            ),
        )
    )
    for mode in ("nearest", "bilinear"):

        def back(g: Any, x: Any, mode: str = mode) -> Any:
            return ops.interpolate_backward(g, x.shape, scale_factor=2, mode=mode)

        def forward(t: Any, mode: str = mode) -> Any:
            return _functional().interpolate(t, scale_factor=2, mode=mode)

        own = _plain(back, None)[0]
        theirs = _gradient(forward)
        found.append(OpCase(family, f"{mode}, backward", (doubled, image), own, theirs))
    return found


def _gather(quick: bool) -> list[OpCase]:
    rows = 64 if quick else 4096
    table, tokens = (100, 32) if quick else (50257, 8192)
    weight, words = Input((table, 256)), Input((tokens,), table)
    lines, places = Input((rows, 1024)), Input((rows, 1024), 1024)
    family = "gather"
    return [
        OpCase(
            family,
            "gather along lines",
            (lines, places),
            *_plain(lambda x, i: ops.gather(x, 1, i), lambda t, i: t.gather(1, i)),
        ),
        OpCase(
            family,
            "gather along columns",
            (lines, Input((rows, 1024), rows)),
            *_plain(lambda x, i: ops.gather(x, 0, i), lambda t, i: t.gather(0, i)),
        ),
        OpCase(
            family,
            "index_select of rows",
            (weight, words),
            *_plain(lambda x, i: ops.index_select(x, 0, i), lambda t, i: t.index_select(0, i)),
        ),
        OpCase(
            family,
            "embedding",
            (words, weight),
            *_plain(ops.embedding, lambda i, t: _functional().embedding(i, t)),
        ),
    ]


def _scatter(quick: bool) -> list[OpCase]:
    few, many = (16, 64) if quick else (4096, 65536)
    table, tokens = (100, 32) if quick else (50257, 8192)
    family = "scatter_add"
    lines, places = Input((few, 1024)), Input((few, 1024), 1024)

    def add(x: Any, i: Any, s: Any, dim: int) -> Any:
        return x.scatter_add(dim, i, s)

    return [
        OpCase(
            family,
            "scatter_add along lines",
            (lines, places, lines),
            *_plain(lambda x, i, s: ops.scatter_add(x, 1, i, s), lambda t, i, s: add(t, i, s, 1)),
        ),
        OpCase(
            family,
            "scatter_add of a long line",
            (Input((many,)), Input((16 * many,), many), Input((16 * many,))),
            *_plain(lambda x, i, s: ops.scatter_add(x, 0, i, s), lambda t, i, s: add(t, i, s, 0)),
        ),
        OpCase(
            family,
            "index_add of rows",
            (Input((few, 64)), Input((many,), few), Input((many, 64))),
            *_plain(
                lambda x, i, s: ops.index_add(x, 0, i, s), lambda t, i, s: t.index_add(0, i, s)
            ),
        ),
        OpCase(
            family,
            "embedding, backward",
            (Input((tokens, 256)), Input((tokens,), table), Input((table, 256))),
            lambda g, i, w: lambda: (ops.embedding_backward(g, i, w.shape[0]),),
            _gradient(lambda i, t: _functional().embedding(i, t)),
        ),
    ]


def _cumsum(quick: bool) -> list[OpCase]:
    rows, long = (16, 4096) if quick else (4096, 1 << 22)
    return [
        OpCase(
            "cumsum",
            title,
            (Input(shape),),
            *_plain(lambda x, d=dim: ops.cumsum(x, d), lambda t, d=dim: t.cumsum(d)),
        )
        for title, shape, dim in (
            ("along lines of 1024", (rows, 1024), 1),
            ("along columns of 4096", (rows, 1024), 0),
            ("along one line of 4 Mi", (long,), 0),
        )
    ]


def _order(quick: bool) -> list[OpCase]:
    by = 16 if quick else 1
    found = [
        OpCase(
            "sort",
            title,
            (Input(shape, below),),
            lambda x: lambda: ops.sort(x, -1)[:1],
            lambda t: lambda: t.sort(-1)[:1],
        )
        for title, shape, below in (
            ("lines of 64", (65536 // by, 64), 0),
            ("lines of 1000", (2048 // by, 1000), 0),
            ("lines of 16384", (64 // by, 16384), 0),
            ("one line of 1 Mi", ((1 << 20) // by,), 0),
            ("one line of 1 Mi integers below 1000", ((1 << 20) // by,), 1000),
        )
    ]
    found += [
        OpCase(
            "topk",
            title,
            (Input(shape),),
            lambda x, k=k: lambda: ops.topk(x, k, -1)[:1],
            lambda t, k=k: lambda: t.topk(k, -1)[:1],
        )
        for title, shape, k in (
            ("5 of 1000", (4096 // by, 1000), 5),
            ("50 of 50257", (64 // by, 50257), 50),
            ("1000 of 120000", (16 // by, 120000 // by), 1000),
            ("100 of 4 Mi", ((1 << 22) // by,), 100),
        )
    ]
    return found


def _attention(quick: bool) -> list[OpCase]:
    found = []
    for heads, tokens in ((8, 1024), (2, 4096)):
        shape = (1, heads, 64 if quick else tokens, 64)
        given = (Input(shape),) * 3
        for causal in (False, True):

            def mine(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
                return ops.scaled_dot_product_attention(q, k, v, is_causal=causal)

            def other(q: Any, k: Any, v: Any, causal: bool = causal) -> Any:
                return _functional().scaled_dot_product_attention(q, k, v, is_causal=causal)

            title = f"{tokens} tokens{', causal' if causal else ''}"
            found.append(OpCase("attention", title, given, *_plain(mine, other)))

            def back(g: Any, q: Any, k: Any, v: Any, causal: bool = causal) -> Call:
                forward = ops.scaled_dot_product_attention
                y, sums, _ = forward(q, k, v, is_causal=causal, return_stats=True)  # type: ignore[misc]
                gradient = ops.scaled_dot_product_attention_backward
                return lambda: gradient(g, q, k, v, y, sums, is_causal=causal)

            title += ", backward"
            found.append(OpCase("attention", title, (Input(shape), *given), back, _gradient(other)))
    return found


def _adam(quick: bool) -> list[OpCase]:
    one = (Input((1000 if quick else 1 << 22,)),)
    # Basic blocks of a small residual network: weights, and pairs of vectors.
    layers: list[Input] = []
    for width in (64, 128, 256):
        for _ in range(4):
            layers += [Input((width, width, 3, 3)), Input((width,)), Input((width,))]
    some = tuple(layers[:3] if quick else layers)

    def mine(*given: Any) -> Call:
        half = len(given) // 2
        params = ops.optim.flat(given[:half])
        grads = ops.optim.flat(given[half:])
        first, second = ops.optim.flat(params, fill=0), ops.optim.flat(params, fill=0)

        def call() -> Sequence[Any]:
            ops.optim.adam(params, grads, first, second, step=1)
            return params

        return call

    def other(*given: Any) -> Call:
        half = len(given) // 2
        params = [t.clone().requires_grad_() for t in given[:half]]
        for param, grad in zip(params, given[half:], strict=True):
            param.grad = grad
        optimizer = _torch().optim.Adam(params, fused=True)

        def call() -> Sequence[Any]:
            optimizer.step()
            return [param.detach() for param in params]

        return call

    return [
        OpCase("Adam", "one parameter of 4 Mi", one * 2, mine, other),
        OpCase("Adam", f"{len(some)} parameters", some * 2, mine, other),
    ]


def op_cases(*, quick: bool = False) -> list[OpCase]:
    """Return all rows.

    Args:
        quick: Whether arrays are to be small.
    """
    families = (
        _memory,
        _pooling,
        _softmax,
        _cross_entropy,
        _interpolate,
        _gather,
        _scatter,
        _cumsum,
        _order,
        _attention,
        _adam,
    )
    return [case for family in families for case in family(quick)]
