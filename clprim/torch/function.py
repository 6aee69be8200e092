"""Operators from strings on tensors, differentiable by their derived gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim.errors import DTypeError
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.torch.numbers import run_on
from clprim.torch.tensors import adopt, array_of, on_device


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Gradients that depend on what they were computed of, in a way that is not known here."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            "clprim.torch.operator: its gradients have no gradients in PyTorch; make them by "
            "definition.gradient().gradient() on arrays"
        )


def operator(definition: Any) -> Callable[..., Any]:
    """Returns a function of tensors on the device that runs a `Pointwise` or a `Reduction`.

    Args:
        definition: The operator. Its gradient is derived from its strings when the first backward
            pass asks for it.

    Returns:
        A function of the operator's arguments, tensors in the place of arrays; a `Reduction` takes
        ``axis=`` and ``keepdims=`` as well. Gradients of its gradients are refused.

    Raises:
        DTypeError: Neither.
    """
    if not isinstance(definition, (Pointwise, Reduction)):
        raise DTypeError(
            f"clprim.torch.operator: expected a Pointwise or a Reduction, "
            f"got {type(definition).__name__}"
        )
    inputs = definition.definition.inputs

    class Derived(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, options: dict[str, Any], *args: Any) -> Any:
            arrays = [array_of(a) if on_device(a) else a for a in args]
            ctx.options = options
            ctx.numbers = args[inputs:]
            ctx.save_for_backward(*args[:inputs])
            found = run_on(args, definition, *arrays, **options)
            return tuple(map(adopt, found)) if isinstance(found, tuple) else adopt(found)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            tensors = ctx.saved_tensors
            wanted = [n for n in range(inputs) if ctx.needs_input_grad[n + 1]]
            gradient = definition.gradient(wrt=tuple(f"x{n}" for n in wanted))
            given = tuple(None if g is None else array_of(g.contiguous()) for g in grads)
            found = run_on(
                tensors,
                gradient,
                *map(array_of, tensors),
                *ctx.numbers,
                grad=given[0] if len(given) == 1 else given,
                **ctx.options,
            )
            results: list[Any] = [None] * (1 + inputs + len(ctx.numbers))
            for n, array in zip(
                wanted, found if isinstance(found, tuple) else (found,), strict=True
            ):
                results[n + 1] = adopt(array)
            if torch.is_grad_enabled():
                made = _Once.apply(len(wanted), *[results[n + 1] for n in wanted], *tensors, *grads)
                for n, tensor in zip(wanted, made, strict=True):
                    results[n + 1] = tensor
            return tuple(results)

    def run(*args: Any, **options: Any) -> Any:
        return Derived.apply(options, *args)

    return run
