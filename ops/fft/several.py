"""Transforms along several dimensions, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.fft.transforms import along, numbers, power_of
from clprim.ops.shared.dims import named_once, several_dims, whole
from clprim.plan.strides import elements_of

Sizes = int | Sequence[int] | None


def fftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns the Fourier transform along several dimensions.

    Args:
        x: As in `fft`.
        s: Of each dimension how many numbers are transformed, -1 for as many as there are.
        dim: The dimensions, each once; by default the last ones that s is for, or all.
        norm: As in `fft`, with the product of all lengths as n.
        axes: The same as ``dim``, by NumPy's name.
    """
    return _along("fft.fftn", x, s, named_once("fft.fftn", dim, axes), norm)


def ifftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns the inverse Fourier transform along several dimensions; arguments as in `fftn`."""
    return _along("fft.ifftn", x, s, named_once("fft.ifftn", dim, axes), norm, inverse=True)


def rfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns the transform of real numbers, half of it along the last of the dimensions.

    Arguments as in `fftn`.
    """
    return _along("fft.rfftn", x, s, named_once("fft.rfftn", dim, axes), norm, given="real")


def irfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns the real numbers whose `rfftn` is given; arguments as in `fftn`.

    Along the last dimension there are by default 2 · (numbers - 1) of them.
    """
    found = named_once("fft.irfftn", dim, axes)
    return _along("fft.irfftn", x, s, found, norm, inverse=True, given="half")


def fft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns `fftn` along two dimensions, by default the last ones."""
    return _along("fft.fft2", x, s, named_once("fft.fft2", dim, axes, (-2, -1)), norm)


def ifft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns `ifftn` along two dimensions, by default the last ones."""
    found = named_once("fft.ifft2", dim, axes, (-2, -1))
    return _along("fft.ifft2", x, s, found, norm, inverse=True)


def rfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns `rfftn` along two dimensions, by default the last ones."""
    found = named_once("fft.rfft2", dim, axes, (-2, -1))
    return _along("fft.rfft2", x, s, found, norm, given="real")


def irfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None
) -> Array:
    """Returns `irfftn` along two dimensions, by default the last ones."""
    found = named_once("fft.irfft2", dim, axes, (-2, -1))
    return _along("fft.irfft2", x, s, found, norm, inverse=True, given="half")


def _along(
    what: str,
    x: Any,
    s: Any,
    dim: Any,
    norm: Any,
    *,
    inverse: bool = False,
    given: str = "complex",
) -> Array:
    """Transforms along all dimensions; along the last one real numbers, or half a spectrum."""
    x = numbers(what, x, given)
    power_of(what, norm)
    sizes = None if s is None else (s,) if is_integer(s) else elements_of(s)
    if s is not None and sizes is None:
        raise ShapeError(f"{what}: s={quoted(s)}: expected whole numbers")
    if dim is None:
        if sizes is not None and len(sizes) > x.ndim:
            raise ShapeError(f"{what}: s={quoted(s)} for {x.ndim} dimensions")
        dim = range(x.ndim) if sizes is None else range(x.ndim - len(sizes), x.ndim)
    dims = several_dims(what, x.ndim, tuple(dim) if isinstance(dim, range) else dim)
    if sizes is not None and len(sizes) != len(dims):
        raise ShapeError(f"{what}: s={quoted(s)} for dim={quoted(dims)}: expected as many sizes")
    lengths = [None] * len(dims) if sizes is None else [_length(what, size) for size in sizes]
    steps = [*zip(dims, lengths, strict=True)]
    if not steps:
        if given != "complex":
            raise ShapeError(f"{what}: dim={quoted(dim)}: expected at least one dimension")
        return x
    last, others = steps[-1], steps[:-1]
    if given == "half":
        for d, n in others:
            x = along(what, x, n, d, norm, inverse=inverse)
        return along(what, x, last[1], last[0], norm, inverse=inverse, given=given)
    x = along(what, x, last[1], last[0], norm, inverse=inverse, given=given)
    for d, n in reversed(others):
        x = along(what, x, n, d, norm, inverse=inverse)
    return x


def _length(what: str, size: Any) -> int | None:
    return None if is_integer(size) and size == -1 else whole(what, "s", size, 1)
