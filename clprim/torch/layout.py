"""How results lie in memory: rules that kernels and fake tensors share.

`clprim.ops` follows its first operand where that costs no copy. PyTorch promises the strides of a
result operator by operator, and `torch.compile` computes with what it promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import torch

from clprim.torch import dispatcher, private

#: Of an overload's arguments and of a result: the result as it has to lie.
Rule = Callable[[Sequence[Any], torch.Tensor], torch.Tensor]

_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def contiguous(_: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """In C order."""
    return found if found.is_contiguous() else found.contiguous()


def format_of(place: int) -> Rule:
    """Channels last where the argument at a place is so (of a list, all of it), else in C order."""

    def rule(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
        given = args[place] if isinstance(args[place], (list, tuple)) else (args[place],)
        last = _LAST.get(found.ndim)
        if last is None or not all(t.ndim == found.ndim and _is_last(t) for t in given):
            return contiguous(args, found)
        if found.is_contiguous(memory_format=last):
            return found
        return found.contiguous(memory_format=last)

    return rule


def _is_last(given: torch.Tensor) -> bool:
    # The first comparison settles what is in C order.
    return given.stride(-1) >= given.stride(1) and private.is_channels_last(given)


def like(place: int) -> Rule:
    """In the order of the argument at a place, as `torch.empty_like` has it."""

    def rule(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
        given = args[place]
        if found.stride() == given.stride() or (found.is_contiguous() and given.is_contiguous()):
            return found
        return in_order(found, private.elementwise_order(given))

    return rule


def elementwise(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """In the order of the first operand that tells two dimensions apart, then of the next."""
    given = [a for a in args if isinstance(a, torch.Tensor) and a.ndim]
    if not given or found.stride() == given[0].stride():
        return found
    shape = found.shape
    return in_order(found, private.elementwise_order(*[g.expand(shape) for g in given]))


def seldom(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """As `elementwise`, of kernels that have the same order but for operands that are repeated."""
    return found if found.is_contiguous() else elementwise(args, found)


def turned(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """As `elementwise` of two operands, the second one first."""
    return elementwise(args[1::-1], found)


def of_two(args: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """As `elementwise`, of the first two operands."""
    return elementwise(args[:2], found)


def in_order(found: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """A tensor whose dimensions lie in an order, from the slowest to the fastest, without gaps."""
    moved = found.permute(*order)
    if moved.is_contiguous():
        return found
    back = [0] * len(order)
    for place, d in enumerate(order):
        back[d] = place
    return moved.contiguous().permute(*back)


def laid(rules: Rule | tuple[Rule, ...], args: Sequence[Any], found: Any) -> Any:
    """Returns results as a rule has them, or each as its own rule."""
    if isinstance(found, torch.Tensor):
        return rules(args, found)  # type: ignore[operator]
    if not isinstance(found, (list, tuple)):
        return found
    each = rules if isinstance(rules, tuple) else repeat(rules, len(found))
    return type(found)(
        rule(args, f) if isinstance(f, torch.Tensor) else f
        for rule, f in zip(each, found, strict=True)
    )


# PyTorch makes their meta functions of others, whose operands come in another order.
_APART = """copysign.Tensor div.Tensor_mode floor_divide heaviside logaddexp logical_and logical_or
logical_xor""".split()


def _fake(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return elementwise(args, original(*args, **options))


def register() -> None:
    """Registers rules for fake tensors of what PyTorch itself says otherwise than it runs."""
    for name in _APART:
        dispatcher.register_fake(name, _fake)
