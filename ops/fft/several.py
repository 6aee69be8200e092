"""Transforms along several dimensions, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from clprim.arrays.array import Array
from clprim.dtypes import is_integer
from clprim.errors import ShapeError, quoted
from clprim.ops.fft.transforms import along, any_strings, numbers, power_of, strings_of
from clprim.ops.shared.dims import named_once, several_dims, whole
from clprim.plan.strides import elements_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Sizes = int | Sequence[int] | None


class Strings(TypedDict, total=False):
    """What runs on numbers that are read and on results."""

    load: str | None
    load_args: Any
    store: str | None
    store_args: Any


def fftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the Fourier transform along several dimensions.

    Args:
        x: As in `fft`.
        s: Of each dimension how many numbers are transformed, -1 for as many as there are.
        dim: The dimensions, by default the last ones that s is for, or all; along one that is named
            twice is transformed twice.
        norm: As in `fft`, with the product of all lengths as n.
        axes: The same as ``dim``, by NumPy's name.
        load: As in `fft`: a string that makes ``y0`` of each number ``x0`` of x, inside the first
            transform.
        load_args: Its arrays from ``x1`` on, which broadcast to x, and then numbers from ``w0`` on.
        store: Such a string on each result, inside the last transform.
        store_args: Its arrays from ``x1`` on, which broadcast to the result, and then numbers.
    """
    dim = named_once("fft.fftn", dim, axes)
    return _along("fft.fftn", x, s, dim, norm, strings)


def ifftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the inverse Fourier transform along several dimensions; arguments as in `fftn`."""
    dim = named_once("fft.ifftn", dim, axes)
    return _along("fft.ifftn", x, s, dim, norm, strings, inverse=True)


def rfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the transform of real numbers, half of it along the last of the dimensions.

    Arguments as in `fftn`.
    """
    dim = named_once("fft.rfftn", dim, axes)
    return _along("fft.rfftn", x, s, dim, norm, strings, given="real")


def irfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the real numbers whose `rfftn` is given; arguments as in `fftn`.

    Along the last dimension there are by default 2 · (numbers - 1) of them.
    """
    dim = named_once("fft.irfftn", dim, axes)
    return _along("fft.irfftn", x, s, dim, norm, strings, inverse=True, given="half")


def hfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the transform, which is real, of numbers of which half is given.

    Arguments as in `irfftn`.
    """
    dim = named_once("fft.hfftn", dim, axes)
    return _along("fft.hfftn", x, s, dim, norm, strings, given="half")


def ihfftn(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns the numbers whose `hfftn` is given, half of them; arguments as in `fftn`."""
    dim = named_once("fft.ihfftn", dim, axes)
    return _along("fft.ihfftn", x, s, dim, norm, strings, inverse=True, given="real")


def fft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `fftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.fft2", dim, axes, (-2, -1))
    return _along("fft.fft2", x, s, dim, norm, strings)


def ifft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `ifftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.ifft2", dim, axes, (-2, -1))
    return _along("fft.ifft2", x, s, dim, norm, strings, inverse=True)


def rfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `rfftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.rfft2", dim, axes, (-2, -1))
    return _along("fft.rfft2", x, s, dim, norm, strings, given="real")


def irfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `irfftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.irfft2", dim, axes, (-2, -1))
    return _along("fft.irfft2", x, s, dim, norm, strings, inverse=True, given="half")


def hfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `hfftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.hfft2", dim, axes, (-2, -1))
    return _along("fft.hfft2", x, s, dim, norm, strings, given="half")


def ihfft2(
    x: Any, s: Sizes = None, dim: Sizes = None, norm: str | None = None, *, axes: Sizes = None,
    **strings: Unpack[Strings],
) -> Array:  # fmt: skip
    """Returns `ihfftn` along two dimensions, by default the last ones."""
    dim = named_once("fft.ihfft2", dim, axes, (-2, -1))
    return _along("fft.ihfft2", x, s, dim, norm, strings, inverse=True, given="real")


def _along(
    what: str,
    x: Any,
    s: Any,
    dim: Any,
    norm: Any,
    strings: Strings,
    *,
    inverse: bool = False,
    given: str = "complex",
) -> Array:
    """Transforms along all dimensions; along the last one real numbers, or half a spectrum."""
    for name in strings.keys() - Strings.__annotations__:
        raise TypeError(
            f"{what.removeprefix('fft.')}() got an unexpected keyword argument {name!r}"
        )
    load, load_args, store, store_args = told = strings_of(**strings)
    x = numbers(what, x, given, narrow=True)
    power_of(what, norm)
    sizes = None if s is None else (s,) if is_integer(s) else elements_of(s)
    if s is not None and sizes is None:
        raise ShapeError(f"{what}: s={quoted(s)}: expected whole numbers")
    if dim is None:
        if sizes is not None and len(sizes) > x.ndim:
            raise ShapeError(f"{what}: s={quoted(s)} for {x.ndim} dimensions")
        dim = range(x.ndim) if sizes is None else range(x.ndim - len(sizes), x.ndim)
    dim = tuple(dim) if isinstance(dim, range) else dim
    dims = several_dims(what, x.ndim, dim, again=True)
    if sizes is not None and len(sizes) != len(dims):
        raise ShapeError(f"{what}: s={quoted(s)} for dim={quoted(dims)}: expected as many sizes")
    lengths = [None] * len(dims) if sizes is None else [_length(what, size) for size in sizes]
    steps = [(d, n or x.shape[d], "complex") for d, n in zip(dims, lengths, strict=True)][:-1]
    if dims:
        last = dims[-1], lengths[-1], given
        steps = [*steps, last] if given == "half" else [last, *reversed(steps)]
    elif given != "complex" or any_strings(*told):
        raise ShapeError(f"{what}: dim={quoted(dim)}: expected at least one dimension")
    for k, (d, n, kind) in enumerate(steps, 1):
        before = (load, load_args) if k == 1 else (None, ())
        after = (store, store_args) if k == len(steps) else (None, ())
        strung = (*before, *after)
        x = along(what, x, n, d, norm, inverse=inverse, given=kind, strings=strung, over=k > 1)
    return x if steps else numbers(what, x)


def _length(what: str, size: Any) -> int | None:
    return None if is_integer(size) and size == -1 else whole(what, "s", size, 1)
