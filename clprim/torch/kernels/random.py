"""Random numbers: one seed gives the same ones on every device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from clprim import random
from clprim.arrays.array import Array
from clprim.arrays.creation import empty
from clprim.torch import dispatcher
from clprim.torch.copying import copy_into
from clprim.torch.kernels.elementwise import apply, promoted
from clprim.torch.layout import format_of, seldom
from clprim.torch.table import kernel
from clprim.torch.tensors import array_of, kind_of


@contextlib.contextmanager
def _drawn_by(generator: torch.Generator | None) -> Iterator[None]:
    """Lets a generator of the CPU decide the numbers: it draws the seed of this call."""
    if generator is None:
        yield
    else:
        seed = int(torch.randint(1 << 62, (), generator=generator).item())
        with random.at(random.State(seed, 0)):
            yield


def _filling(expr: str, *defaults: float) -> Any:
    """Returns what fills its tensor from a string of the numbers that follow."""

    def fill(x: torch.Tensor, *numbers: Any, generator: Any = None, **named: Any) -> torch.Tensor:
        given = [*numbers, *named.values(), *defaults[len(numbers) + len(named) :]]
        if x.numel():
            with _drawn_by(generator):
                apply(expr, *map(float, given), kind=x.dtype, out=array_of(x))
        return x

    return fill


_normal_reals = _filling("fma((typeof_y0){b}, (typeof_y0)randn(), (typeof_y0){a})", 0.0, 1.0)


def _normal(
    x: torch.Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None
) -> torch.Tensor:
    """Of complex numbers each part has half of the variance."""
    if not x.is_complex():
        return _normal_reals(x, mean, std, generator=generator)
    torch.view_as_real(x).normal_(0, std / 2**0.5, generator=generator)
    return x.add_(mean) if mean else x


def register() -> None:
    """Registers what fills tensors in place."""
    dispatcher.register_kernel("uniform_", _uniform)
    dispatcher.register_kernel("normal_", _normal)
    dispatcher.register_kernel("exponential_", _filling("-log1p(-rand()) / {a}", 1.0))
    dispatcher.register_kernel("random_.from", _between)
    dispatcher.register_kernel("random_.to", _below)
    dispatcher.register_kernel("random_", _any)
    dispatcher.register_kernel("randperm.generator_out", _permutation)


def _uniform(
    x: torch.Tensor, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None
) -> torch.Tensor:
    if x.numel():
        target = torch.view_as_real(x) if x.is_complex() else x
        with _drawn_by(generator):
            random.fill_uniform(array_of(target), float(low), float(high))
    return x


def _below(x: torch.Tensor, high: int, *, generator: Any = None) -> torch.Tensor:
    return _between(x, 0, high, generator=generator)


def _any(x: torch.Tensor, *, generator: Any = None) -> torch.Tensor:
    return _between(x, 0, None, generator=generator)


def _permutation(n: int, *, generator: Any, out: torch.Tensor) -> torch.Tensor:
    with _drawn_by(generator):
        found = random.randperm(n)
    out.resize_(n)
    copy_into(array_of(out), found)
    return out


def _between(x: torch.Tensor, low: int, high: int | None, *, generator: Any = None) -> torch.Tensor:
    if high is None:
        digits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}
        high = low + (1 << digits[x.dtype] if x.dtype in digits else torch.iinfo(x.dtype).max)
    if x.numel():
        if x.dtype is torch.bool:
            low, high = 0, 2
        with _drawn_by(generator):
            apply("randint({a}, {b})", low, high, kind=x.dtype, out=array_of(x))
    return x


@kernel("bernoulli")
def _bernoulli(x: Array, *, generator: Any = None) -> Any:
    with _drawn_by(generator):
        return apply("rand() < {a}", x, kind=kind_of(x.dtype))


# PyTorch drops an argument that equals its default, here that of `bernoulli_`.
@kernel("bernoulli.p", "bernoulli.Tensor")
def _coins(x: Array, p: Any = 0.5, *, generator: Any = None) -> Any:
    p = p if isinstance(p, Array) else float(p)
    with _drawn_by(generator):
        return apply("(void){a}; y0 = rand() < {b};", x, p, kind=kind_of(x.dtype))


@kernel("multinomial")
def _multinomial(x: Array, count: int, replacement: bool = False, *, generator: Any = None) -> Any:
    with _drawn_by(generator):
        return random.multinomial(x, count, replacement=replacement)


@kernel("native_dropout", lies=seldom)
def _dropout(x: Array, p: float, train: bool | None) -> Any:
    if train is False or p == 0:
        kept = empty(x.shape, bool)
        kept.fill(True)
        return apply("{a}", x, kind=kind_of(x.dtype)), kept
    expr = "(void){a}; y0 = rand() >= {b};"
    kept = apply(expr, x, float(p), kind=torch.bool)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return apply("{b} ? {a} * {c} : 0", x, kept, scale, kind=kind_of(x.dtype)), kept


@kernel("native_dropout_backward", lies=format_of(0))
def _dropout_backward(grad: Array, kept: Array, scale: float) -> Any:
    kind = promoted(grad, float(scale))
    return apply("{b} ? {a} * {c} : 0", grad, kept, float(scale), kind=kind)


@kernel("rrelu_with_noise")
def _rrelu(
    x: Array,
    noise: Array,
    lower: Any = 1 / 8,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    kind = kind_of(x.dtype)
    if not training:
        return apply("{a} > 0 ? {a} : {a} * {b}", x, (lower + upper) / 2, kind=kind)
    with _drawn_by(generator):
        expr = "{a} > 0 ? 1 : {b} + ({c} - {b}) * rand()"
        apply(expr, x, float(lower), float(upper), kind=kind, out=noise)
    return apply("{a} * {b}", x, noise, kind=kind)
