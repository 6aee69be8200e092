"""What ``python -m bench ops`` measures: operators on arrays as networks have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.work.operator_case import (
    MEMORY,
    Call,
    Input,
    OpCase,
    functional,
    gradient,
    plain,
    torch_module,
)
from bench.work.operator_cases_index import more_cases
from clprim import ops


def _memory(quick: bool) -> list[OpCase]:
    n = 2 if quick else 32
    image, half = Input((n, 64, 56, 56)), Input((n, 32, 56, 56))
    rows = Input((64 if quick else 8192, 1024))
    mask = Input(rows.shape, 2)

    def case(
        title: str, inputs: Sequence[Input], own: Any, theirs: Any, to: str = "copy"
    ) -> OpCase:
        return OpCase(MEMORY, title, tuple(inputs), *plain(own, theirs), to)

    return [
        case("relu", [image], ops.relu, lambda t: functional().relu(t)),
        case("gelu", [rows], ops.gelu, lambda t: functional().gelu(t)),
        case("add", [image, image], ops.add, lambda a, b: a + b),
        case("where", [mask, rows, rows], ops.where, lambda m, a, b: torch_module().where(m, a, b)),
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
            lambda a, b: torch_module().cat([a, b], 1),
        ),
        case(
            "pad by 1",
            [image],
            lambda x: ops.pad(x, (1, 1, 1, 1)),
            lambda t: functional().pad(t, (1, 1, 1, 1)),
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
            lambda a, b: functional().mse_loss(a, b),
            "read",
        ),
    ]


def _pooling(quick: bool) -> list[OpCase]:
    n, size = (1, 16) if quick else (8, 112)
    image, pooled = Input((n, 64, size, size)), Input((n, 64, size // 2, size // 2))
    small = Input((n, 512, size // 4, size // 4))

    def case(title: str, inputs: Sequence[Input], own: Any, theirs: Any) -> OpCase:
        return OpCase("pooling", title, tuple(inputs), *plain(own, theirs))

    def back(title: str, inputs: Sequence[Input], own: Any, forward: Any) -> OpCase:
        prepared = plain(own, forward)[0]
        return OpCase("pooling", title, tuple(inputs), prepared, gradient(forward))

    def indices(grad: Any, x: Any) -> Call:
        _, found = ops.max_pool2d(x, 3, 2, 1, return_indices=True)
        return lambda: (ops.max_pool2d_backward(grad, x, 3, 2, 1, indices=found),)

    return [
        case(
            "max 3×3, stride 2",
            [image],
            lambda x: ops.max_pool2d(x, 3, 2, 1),
            lambda t: functional().max_pool2d(t, 3, 2, 1),
        ),
        OpCase(
            "pooling",
            "max 3×3, stride 2, with indices",
            (image,),
            lambda x: lambda: ops.max_pool2d(x, 3, 2, 1, return_indices=True),
            lambda t: lambda: functional().max_pool2d(t, 3, 2, 1, return_indices=True),
        ),
        case(
            "max 5×5",
            [small],
            lambda x: ops.max_pool2d(x, 5, 1, 2),
            lambda t: functional().max_pool2d(t, 5, 1, 2),
        ),
        case(
            "average 2×2",
            [image],
            lambda x: ops.avg_pool2d(x, 2),
            lambda t: functional().avg_pool2d(t, 2),
        ),
        case(
            "average 3×3",
            [image],
            lambda x: ops.avg_pool2d(x, 3, 1, 1),
            lambda t: functional().avg_pool2d(t, 3, 1, 1),
        ),
        case(
            "adaptive average to 7×7",
            [small],
            lambda x: ops.adaptive_avg_pool2d(x, 7 if not quick else 2),
            lambda t: functional().adaptive_avg_pool2d(t, 7 if not quick else 2),
        ),
        case(
            "global average",
            [small],
            lambda x: ops.adaptive_avg_pool2d(x, 1),
            lambda t: functional().adaptive_avg_pool2d(t, 1),
        ),
        OpCase(
            "pooling",
            "max 3×3, stride 2, backward",
            (pooled, image),
            indices,
            gradient(lambda t: functional().max_pool2d(t, 3, 2, 1)),
        ),
        back(
            "average 2×2, backward",
            [pooled, image],
            lambda g, x: ops.avg_pool2d_backward(g, x, 2),
            lambda t: functional().avg_pool2d(t, 2),
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
            *plain(lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        ),
        OpCase(
            family,
            "of 50257 words",
            (logits,),
            *plain(lambda x: ops.softmax(x, -1), lambda t: t.softmax(-1)),
        ),
        OpCase(
            family,
            "log_softmax of 50257 words",
            (logits,),
            *plain(lambda x: ops.log_softmax(x, -1), lambda t: t.log_softmax(-1)),
        ),
        OpCase(
            family,
            "of 21 channels",
            (segments,),
            *plain(lambda x: ops.softmax(x, 1), lambda t: t.softmax(1)),
        ),
        OpCase(
            family,
            "of 197 keys, backward",
            (attention, attention),
            lambda g, x: _after(ops.softmax(x, -1), lambda y: ops.softmax_backward(g, y, -1)),
            gradient(lambda t: t.softmax(-1)),
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
        forward = plain(ops.cross_entropy, lambda t, c: functional().cross_entropy(t, c))
        found.append(OpCase(family, title, (logits, target), *forward))
        backward = plain(ops.cross_entropy_backward, None)[0]
        theirs = gradient(lambda t, c: functional().cross_entropy(t, c))
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
            return functional().interpolate(t, scale_factor=2, mode=mode)

        found.append(OpCase(family, f"{mode}, twice as large", (image,), *plain(mine, other)))
    found.append(
        OpCase(
            family,
            "bilinear, antialias, to 224×224",
            (photo,),
            *plain(
                lambda x: ops.interpolate(x, (4 * size, 4 * size), mode="bilinear", antialias=True),
                lambda t: functional().interpolate(
                    t, (4 * size, 4 * size), mode="bilinear", antialias=True
                ),
            ),
        )
    )
    for mode in ("nearest", "bilinear"):

        def back(g: Any, x: Any, mode: str = mode) -> Any:
            return ops.interpolate_backward(g, x.shape, scale_factor=2, mode=mode)

        def forward(t: Any, mode: str = mode) -> Any:
            return functional().interpolate(t, scale_factor=2, mode=mode)

        own = plain(back, None)[0]
        theirs = gradient(forward)
        found.append(OpCase(family, f"{mode}, backward", (doubled, image), own, theirs))
    return found


def op_cases(*, quick: bool = False) -> list[OpCase]:
    """Return all rows.

    Args:
        quick: Whether arrays are to be small.
    """
    families = (_memory, _pooling, _softmax, _cross_entropy, _interpolate)
    return [case for family in families for case in family(quick)] + more_cases(quick=quick)
