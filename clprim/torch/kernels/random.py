"""Random numbers: one seed gives the same ones on every device."""

from __future__ import annotations

from typing import Any

import torch

from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch import private
from clprim.torch.kernels.elementwise import apply
from clprim.torch.memory import array_of, kind_of
from clprim.torch.table import kernel


def _fills(name: str, expr: str, *defaults: float) -> None:
    """Registers an overload that fills its tensor from a string of the numbers that follow."""

    def fill(x: torch.Tensor, *numbers: Any, generator: Any = None, **named: Any) -> torch.Tensor:
        given = [*numbers, *named.values(), *defaults[len(numbers) + len(named) :]]
        if x.numel():
            apply(expr, *map(float, given), kind=x.dtype, out=array_of(x))
        return x

    private.register_kernel(name, fill)


def register() -> None:
    """Registers what fills tensors in place."""
    _fills("uniform_", "{a} + ({b} - {a}) * rand()", 0.0, 1.0)
    _fills("normal_", "{a} + {b} * randn()", 0.0, 1.0)
    _fills("exponential_", "-log1p(-rand()) / {a}", 1.0)
    private.register_kernel("random_.from", _between)
    private.register_kernel("random_.to", lambda x, to, *, generator=None: _between(x, 0, to))
    private.register_kernel("random_", lambda x, *, generator=None: _between(x, 0, None))


def _between(x: torch.Tensor, low: int, high: int | None, *, generator: Any = None) -> torch.Tensor:
    if high is None:
        digits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
        high = low + (1 << digits[x.dtype] if x.dtype in digits else torch.iinfo(x.dtype).max)
    if x.numel():
        if x.dtype is torch.bool:
            low, high = 0, 2
        apply("randint({a}, {b})", low, high, kind=x.dtype, out=array_of(x))
    return x


@kernel("bernoulli", "bernoulli.p")
def _bernoulli(x: Array, p: Any = None, *, generator: Any = None) -> Any:
    if p is None:
        return apply("rand() < {a}", x, kind=kind_of(x.dtype))
    return apply("(void){a}; y0 = rand() < {b};", x, float(p), kind=kind_of(x.dtype))


@kernel("native_dropout")
def _dropout(x: Array, p: float, train: bool | None) -> Any:
    if train is False or p == 0:
        kept = empty(x.shape, bool)
        kept.fill(True)
        return apply("{a}", x, kind=kind_of(x.dtype)), kept
    expr = "(void){a}; y0 = rand() >= {b};"
    kept = apply(expr, x, float(p), kind=torch.bool)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return apply("{b} ? {a} * {c} : 0", x, kept, scale, kind=kind_of(x.dtype)), kept


@kernel("native_dropout_backward")
def _dropout_backward(grad: Array, kept: Array, scale: float) -> Any:
    return apply("{b} ? {a} * {c} : 0", grad, kept, float(scale), kind=kind_of(grad.dtype))
