"""Transforms along one dimension.

X[k] = Σ x[j] exp(-2πi jk / n), and back with the other sign. ``norm`` says which of the two is
divided by n: ``"backward"``, the default, the inverse one; ``"forward"`` the other; ``"ortho"``
both by √n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.call.arguments import check_array
from clprim.call.primitive import NoPlanError
from clprim.call.scalars import scalar_dtypes, split_arguments
from clprim.dtypes import complex_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.dims import named_once, one_dim, whole
from clprim.primitives.fourier import Options, elementwise, is_complex_in, parts_of, transform
from clprim.runtime.device import current_device
from clprim.runtime.tracing import active

_NO_STRINGS = (None, (), None, ())
_POWERS = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}


def fft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the Fourier transform along a dimension.

    Args:
        x: An array of complex or real numbers; float16, bfloat16 and integers are computed with in
            float32.
        n: How many numbers are transformed: x is cut off, or goes on with zeros. By default all.
        dim: The dimension, by default the last one.
        norm: ``"backward"``, ``"ortho"`` or ``"forward"``: 1, 1 / √n or 1 / n times the sum.
        axis: The same as ``dim``, by NumPy's name.
        load: A string of a `Pointwise` that makes ``y0`` of each number ``x0`` before it is
            transformed, inside the transform where a kernel can.
        load_args: Its arrays from ``x1`` on, which broadcast to x, and then numbers from ``w0`` on.
        store: Such a string on each result.
        store_args: Its arrays from ``x1`` on, which broadcast to the result, and then numbers.

    Returns:
        complex64, or complex128 of float64 and complex128.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.fft.fft(cp.asarray(np.float32([1, 0, -1, 0]))).get()
        array([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j], dtype=complex64)
    """
    what, strings = "fft.fft", (load, load_args, store, store_args)
    dim = named_once(what, dim, axis, -1)
    return along(what, x, n, dim, norm, strings=strings)


def ifft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the inverse Fourier transform along a dimension; arguments as in `fft`."""
    what, strings = "fft.ifft", (load, load_args, store, store_args)
    dim = named_once(what, dim, axis, -1)
    return along(what, x, n, dim, norm, strings=strings, inverse=True)


def rfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the first n // 2 + 1 numbers of the transform of real numbers, which give the rest.

    Arguments as in `fft`.
    """
    what, strings = "fft.rfft", (load, load_args, store, store_args)
    dim = named_once(what, dim, axis, -1)
    return along(what, x, n, dim, norm, strings=strings, given="real")


def irfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the real numbers whose `rfft` is given; n of them, by default 2 · (numbers - 1).

    Imaginary parts at 0 and n / 2 are ignored. Arguments as in `fft`.
    """
    what, strings = "fft.irfft", (load, load_args, store, store_args)
    return along(
        what,
        x,
        n,
        named_once(what, dim, axis, -1),
        norm,
        strings=strings,
        inverse=True,
        given="half",
    )


def hfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the transform, which is real, of numbers of which half is given: x[-k] = conj(x[k]).

    There are n results, by default 2 · (numbers - 1). Arguments as in `fft`.
    """
    what, strings = "fft.hfft", (load, load_args, store, store_args)
    dim = named_once(what, dim, axis, -1)
    return along(what, x, n, dim, norm, strings=strings, given="half")


def ihfft(
    x: Any, n: int | None = None, dim: int | None = None, norm: str | None = None, *,
    axis: int | None = None, load: str | None = None, load_args: Any = (),
    store: str | None = None, store_args: Any = (),
) -> Array:  # fmt: skip
    """Returns the numbers whose `hfft` is given, n // 2 + 1 of them; arguments as in `fft`."""
    what, strings = "fft.ihfft", (load, load_args, store, store_args)
    return along(
        what,
        x,
        n,
        named_once(what, dim, axis, -1),
        norm,
        strings=strings,
        inverse=True,
        given="real",
    )


def along(
    what: str,
    x: Any,
    n: Any,
    dim: Any,
    norm: Any,
    *,
    inverse: bool = False,
    given: str = "complex",
    strings: tuple[str | None, Any, str | None, Any] = _NO_STRINGS,
    over: bool = False,
) -> Array:
    """Returns transforms of ``complex`` or ``real`` numbers, or of ``half`` a spectrum.

    They may be written ``over`` x, if there is a kernel that does so.
    """
    narrow = active.now is None and strings[0] is None
    x = numbers(what, x, given, narrow=narrow)
    axis = one_dim(what, x.ndim, dim)
    have, half = x.shape[axis], given == "half"
    if n is None and (have if not half else have - 1) < 1:
        raise ShapeError(
            f"{what}: n={2 * (have - 1) if half else have} of shape {x.shape}: expected at least 1"
        )
    count = (2 * (have - 1) if half else have) if n is None else whole(what, "n", n, 1)
    power = power_of(what, norm)
    scale = count ** (power - 1 if inverse else -power)
    kept = count // 2 + 1 if given == "real" else count
    load, load_args, store, store_args = strings
    options = Options(count, axis, inverse, kept, half, real=half, pairs=False)
    if any_strings(*strings):
        before, arrays, values = _string(what, "load", load, load_args, x.dtype)
        made = parts_of(x.dtype) if half else complex_dtype(parts_of(x.dtype))
        after, others, factors = _string(what, "store", store, store_args, made)
        inside = options._replace(
            load=load or "", store=store or "", arrays=len(arrays), numbers=len(values)
        )
        if given == "real" and is_complex_in(x, inside, arrays, values):
            raise DTypeError(f"{what}: load= makes complex numbers of x, expected real ones")
        if active.now is None and have:
            try:
                return transform(x, inside, scale, (*arrays, *others), (*values, *factors))
            except NoPlanError:
                pass
        x = before(x)
        return after(along(what, x, count, axis, norm, inverse=inverse, given=given))
    if not have:
        shape = (*x.shape[:axis], kept, *x.shape[axis + 1 :])
        return zeros(shape, parts_of(x.dtype) if half else complex_dtype(parts_of(x.dtype)))
    if over and active.now is None:
        try:
            return transform(x, options, scale, outs=(x,))
        except NoPlanError:
            pass
    return transform(x, options, scale)


def strings_of(
    load: Any = None, load_args: Any = (), store: Any = None, store_args: Any = ()
) -> tuple[Any, Any, Any, Any]:
    """Returns options of what runs on numbers that are read, and on results."""
    return load, load_args, store, store_args


def any_strings(load: Any, load_args: Any, store: Any, store_args: Any) -> bool:
    """Whether there are strings, or arguments of some."""
    given = load is not None or store is not None
    return given or any(args.__class__ is not tuple or args for args in (load_args, store_args))


def _string(
    what: str, part: str, text: Any, args: Any, dtype: Any
) -> tuple[Callable[[Any], Any], Sequence[Any], Sequence[Any]]:
    """Returns what a string makes of an array, by itself, and what arrays and numbers it reads."""
    given = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
    if text is None:
        if given:
            raise DefinitionError(f"{what}: {part}_args without {part}=")
        return lambda x: x, (), ()
    run, label = elementwise(part, text), f"{what}: {part}="
    (_, *arrays), numbers = split_arguments(label, (None, *given), run.inputs, run.scalars)
    for k, array in enumerate(arrays, 1):
        check_array(label, f"x{k}", array, current_device())
    scalar_dtypes(label, numbers, [dtype, *(array.dtype for array in arrays)])

    def made(x: Any) -> Any:
        found: Any = run(x, *arrays, *numbers)
        if isinstance(found, tuple) or found.shape != x.shape:
            raise ShapeError(f"{what}: {part}= makes something else than one result of {x.shape}")
        return found

    return made, arrays, numbers


def power_of(what: str, norm: Any) -> float:
    """Returns by which power of n a forward transform is divided."""
    if (norm is not None and not isinstance(norm, str)) or norm not in _POWERS:
        raise DefinitionError(f"{what}: norm={quoted(norm)}: expected backward, ortho or forward")
    return _POWERS[norm]


def numbers(what: str, x: Any, given: str = "complex", *, narrow: bool = False) -> Any:
    """Returns an array of float32 or float64, or of complex numbers of these.

    Where ``narrow`` ones may stay, as kernels read them, those of 16 bits and integers do.
    """
    dtype = dtype_of(what, "x", x)
    if given == "real" and dtype.kind == "c":
        raise DTypeError(f"{what}: x is {dtype}, expected real numbers")
    known = dtype.kind == "c" or dtype in (np.float32, np.float64)
    known = known or (narrow and dtype != np.bool_)
    if not x.ndim:
        raise ShapeError(f"{what}: x has no dimensions, expected at least one")
    return x if known else x.astype(np.float32)
