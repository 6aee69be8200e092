"""Holds a gradient to central differences: whether it is that of its operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim.arrays.creation import asarray
from clprim.dtypes import is_integer, is_real
from clprim.errors import ClprimError, DefinitionError, DTypeError, quoted
from clprim.gradients.kernels import register
from clprim.gradients.request import as_tuple, is_array, is_floating
from clprim.runtime.device import current_device

_MOST = 64


class GradientError(ClprimError, AssertionError):
    """A gradient and central differences disagree."""


def check_gradient(
    operator: Any,
    *args: Any,
    wrt: Any = None,
    gradient: Any = None,
    step: float | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    **options: Any,
) -> None:
    """Compares the gradient of an operator with central differences.

    Arguments are taken in float64 where the device has it. At kinks, where a function has no
    derivative, differences are the mean of both sides; choose arguments apart from them.

    Args:
        operator: A `Pointwise`, a `Reduction`, or anything that is called alike and has
            ``gradient()``.
        args: Its arguments: device or NumPy arrays, then scalars.
        wrt: Names of arguments; every floating array by default.
        gradient: What to compare; ``operator.gradient(wrt)`` by default.
        step: Of the differences, relative to elements of about 1; the cube root of the unit of
            rounding by default.
        tolerance: How much may differ, relative to the greatest of both; ten times the square of
            ``step`` by default, with room for rounding.
        seed: Of the random gradient of the results, and of the elements that are tried where an
            array has more than 64.
        options: For the operator: ``axis=``, ``keepdims=``.

    Raises:
        GradientError: They disagree; it says for which argument, where, and both numbers.
        DefinitionError: The operator has no gradient.

    Example:
        >>> import numpy as np, clprim as cp
        >>> silu = cp.Pointwise("y0 = x0 / (1 + exp(-x0));")
        >>> cp.check_gradient(silu, np.linspace(-3, 3, 20))
        >>> wrong = cp.Pointwise("y0 = x0 * x0;", gradient="gx0 = gy0 * x0;")
        >>> cp.check_gradient(wrong, np.array([1.0, 2.0]))
        Traceback (most recent call last):
            ...
        clprim.gradients.check.GradientError: gradient of Pointwise 'y0 = x0 * x0;': of x0 at (0,) \
it is 1.14, but differences give 2.27
    """
    dtype = np.dtype(np.float64 if current_device().traits.fp64 else np.float32)
    exact = dtype == np.float64
    step = (6e-6 if exact else 5e-3) if step is None else step
    tolerance = (1e-6 if exact else 2e-2) if tolerance is None else tolerance
    _check(operator, gradient, step, tolerance, seed)
    if gradient is None:
        gradient = operator.gradient() if wrt is None else operator.gradient(wrt)
    hosts = [_host(a, dtype) for a in args]
    names = _names(hosts, wrt)
    rng = np.random.default_rng(seed)

    def forward(values: list[Any]) -> list[Any]:
        found = operator(*map(_device, values), **options)
        return [r.get().astype(np.float64) for r in as_tuple(found)]

    results = forward(hosts)
    grads = [rng.uniform(0.5, 1.5, r.shape) for r in results]
    made = as_tuple(operator(*map(_device, hosts), **options))
    integers = [not is_floating(r.dtype) for r in made]
    handed = tuple(
        None if whole else asarray(g.astype(dtype))
        for g, whole in zip(grads, integers, strict=True)
    )
    found = gradient(*map(_device, hosts), grad=handed if len(handed) > 1 else handed[0], **options)
    for name, result in zip(names, as_tuple(found), strict=True):
        place = int(name[1:]) + (sum(map(_is_host, hosts)) if name[0] == "w" else 0)
        derived = result.get().astype(np.float64)
        flat = np.arange(derived.size)
        if flat.size > _MOST:
            flat = rng.choice(flat, _MOST, replace=False)
        scale = max(1.0, float(np.abs(derived[np.isfinite(derived)]).max(initial=0)))
        for k in flat:
            where = np.unravel_index(k, derived.shape)
            width = step * max(1.0, abs(float(_element(hosts[place], where))))
            moved = [_moved(hosts[place], where, by) for by in (width, -width)]
            up, down = (forward([*hosts[:place], m, *hosts[place + 1 :]]) for m in moved)
            change = sum(
                float(((u - d) * g).sum())
                for u, d, g, whole in zip(up, down, grads, integers, strict=True)
                if not whole
            )
            above, below = (float(_element(m, where)) for m in moved)
            expected = change / (above - below)
            if not abs(derived[where] - expected) <= tolerance * max(scale, abs(expected)):
                what = getattr(gradient, "_what", repr(gradient))
                raise GradientError(
                    f"{what}: of {name} at {tuple(int(i) for i in where)} it is "
                    f"{derived[where]:.3g}, but differences give {expected:.3g}"
                )


def _check(operator: Any, gradient: Any, step: Any, tolerance: Any, seed: Any) -> None:
    """Refuses arguments that nothing can be held to differences with."""
    if not hasattr(operator, "gradient"):
        raise DefinitionError(f"check_gradient: {quoted(operator)} has no gradient")
    for label, value in {"step": step, "tolerance": tolerance}.items():
        if not is_real(value):
            raise DTypeError(f"check_gradient: expected a number for {label}, got {quoted(value)}")
    if gradient is not None and not callable(gradient):
        raise DefinitionError(f"check_gradient: gradient={quoted(gradient)} cannot be called")
    if not is_integer(seed) or seed < 0:
        raise DTypeError(f"check_gradient: seed={quoted(seed)}: expected an integer of at least 0")


def _check_definition(operator: Any) -> None:
    """Holds a gradient by hand to differences of random numbers, when it is defined."""
    definition = operator.definition
    rng = np.random.default_rng(0)
    args: list[Any] = [rng.uniform(0.25, 1.75, (3, 4)) for _ in range(definition.inputs)]
    args += rng.uniform(0.25, 1.75, definition.scalars).tolist()
    check_gradient(operator, *args)


def _host(value: Any, dtype: Any) -> Any:
    """An argument on the host; floats in the dtype that is checked in."""
    array = value.get() if is_array(value) else value
    if np.iscomplexobj(array):
        raise DTypeError("check_gradient: no gradients of complex numbers are derived")
    if not isinstance(array, np.ndarray):
        return array
    return array.astype(dtype) if is_floating(array.dtype) else array


def _is_host(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _device(value: Any) -> Any:
    return asarray(value) if isinstance(value, np.ndarray) else value


def _names(hosts: list[Any], wrt: Any) -> tuple[str, ...]:
    """The arguments that a gradient is of."""
    if wrt is not None:
        return (wrt,) if isinstance(wrt, str) else tuple(wrt)
    arrays = [a for a in hosts if _is_host(a)]
    return tuple(f"x{n}" for n, a in enumerate(arrays) if is_floating(a.dtype))


def _element(value: Any, where: Any) -> Any:
    return value[where] if isinstance(value, np.ndarray) else value


def _moved(value: Any, where: Any, by: float) -> Any:
    """An argument with one element changed."""
    if not isinstance(value, np.ndarray):
        return float(value) + by
    moved = value.copy()
    moved[where] += by
    return moved


register("check", _check_definition)
