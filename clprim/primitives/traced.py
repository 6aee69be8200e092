"""`elementwise` and `reduction`: kernels from Python functions instead of strings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyopencl.array as cl_array

from clprim.arrays.array import Array
from clprim.errors import DefinitionError, DTypeError, ShapeError
from clprim.language.definition import is_taken
from clprim.language.traced import Traced, reads, trace, write
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction

if TYPE_CHECKING:
    from clprim.gradients.pointwise import PointwiseGradient

_NUMBERS = (bool, int, float, "bool", "int", "float")


class Elementwise:
    """A `Pointwise` that is read from a Python function; made by `elementwise`.

    Which arguments are arrays and which numbers decides the string: a parameter that is annotated
    ``float`` or ``int``, or has a number as its default, is a number; any other is what a call
    gives it. ``print`` shows the string, with all others as arrays.
    """

    def __init__(
        self, function: Callable[..., Any], *, result_type: Any = None, name: str | None = None
    ) -> None:
        self.function = function
        self.__name__ = self.__qualname__ = _name_of(function)
        self.__doc__ = function.__doc__
        self._what = f"elementwise {self.__name__}"
        self._result_type, self._name = result_type, name or _identifier(self.__name__)
        self._parameters = _parameters(self._what, function)
        self._known: dict[str, tuple[Pointwise, Traced]] = {}
        # Read once now, so that what is wrong is said where it is written.
        self._default = self._of("".join("w" if _is_number(p) else "x" for p in self._parameters))

    def __repr__(self) -> str:
        return f"<clprim.{self._what}: {self}>"

    def __str__(self) -> str:
        return self._default[1].text

    def __call__(
        self, *args: Any, out: Any = None, shape: Sequence[int] | None = None, **named: Any
    ) -> Array:
        """Computes the results, for the function's own arguments; see `Pointwise`."""
        given = self._bind(args, named)
        kinds = self._kinds(given)
        pointwise, _ = self._of(kinds)
        arrays, numbers = (
            [v for v, k in zip(given, kinds, strict=True) if k == kind] for kind in "xw"
        )
        return pointwise(*arrays, *numbers, out=out, shape=shape)

    def pointwise(self, *args: Any, **named: Any) -> Pointwise:
        """Returns the `Pointwise` that such arguments run; without arguments, the one it prints."""
        if not args and not named:
            return self._default[0]
        return self._of(self._kinds(self._bind(args, named)))[0]

    def gradient(self, wrt: Any = None, *, saves: Any = ()) -> PointwiseGradient:
        """Returns the gradient of the string that it prints; see `Pointwise.gradient`."""
        return self._default[0].gradient(wrt, saves=saves)

    def _bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = [p.name for p in self._parameters]
        if len(args) > len(names) or set(named) - set(names[len(args) :]):
            raise ShapeError(f"{self._what}: expected ({', '.join(names)}), got other arguments")
        given = dict(zip(names, args, strict=False)) | named
        for p in self._parameters:
            if p.name not in given and p.default is p.empty:
                raise ShapeError(
                    f"{self._what}: {p.name} is missing; expected ({', '.join(names)})"
                )
        return [given.get(p.name, p.default) for p in self._parameters]

    def _kinds(self, given: Sequence[Any]) -> str:
        kinds = ""
        for p, value in zip(self._parameters, given, strict=True):
            array = isinstance(value, cl_array.Array)
            if array and _is_number(p):
                raise DTypeError(f"{self._what}: expected a number for {p.name}, got an array")
            # What is neither goes on as an array: the kernel says what is wrong with it.
            kinds += "w" if isinstance(value, bool | int | float | np.generic) else "x"
        arrays = [v for v in given if isinstance(v, cl_array.Array)]
        of_floats = self._of(kinds)[1].of_floats
        if of_floats and arrays and all(a.dtype.kind in "biu" for a in arrays):
            found = ", ".join(sorted({str(a.dtype) for a in arrays}))
            raise DTypeError(
                f"{self._what}: {of_floats} is for floats, got {found}: C would compute it in "
                "integers; convert with astype"
            )
        return kinds

    def _of(self, kinds: str) -> tuple[Pointwise, Traced]:
        found = self._known.get(kinds)
        if found is None:
            values = trace(self._what, self.function, _numbered(kinds))
            result_type = self._result_type
            if result_type is None and all(v.logical for v in values):
                result_type = np.bool_
            # A local has the results' type, where they have that of the arguments.
            local = "typeof_y0" if result_type is None else None
            written = write(self._what, [f"y{n}" for n in range(len(values))], values, local)
            pointwise = Pointwise(written.text, result_type=result_type, name=self._name)
            found = self._known[kinds] = (pointwise, written)
        return found


@overload
def elementwise(function: Callable[..., Any], /) -> Elementwise: ...


@overload
def elementwise(
    *, result_type: Any = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Elementwise]: ...


def elementwise(
    function: Callable[..., Any] | None = None,
    /,
    *,
    result_type: Any = None,
    name: str | None = None,
) -> Any:
    """Makes a kernel of a Python function of one element; a decorator.

    The function is called once with values that write down what is done to them: operators, `exp`,
    `where`, `maximum` and the other elementwise functions of this package (or NumPy's). Its string
    is what one would have written. It returns an element, or a tuple of them.

    Args:
        function: Of elements and numbers, in any order.
        result_type: As of `Pointwise`; bool by default where all results are truth values.
        name: Of the kernel, in profiles; the function's by default.

    Raises:
        DefinitionError: It branches on an element, as by ``if``: `where` chooses instead.

    Example:
        >>> import clprim as cp
        >>> @cp.elementwise
        ... def swoosh(x, a: float):
        ...     return x / (1 + cp.exp(-a * x))
        >>> print(swoosh)
        y0 = x0 / (1 + exp(-w0 * x0));
        >>> swoosh(cp.array([-1.0, 0.0, 1.0]), 2.0).get().round(3)
        array([-0.119,  0.   ,  0.881], dtype=float32)
    """
    if function is None:
        return lambda given: Elementwise(given, result_type=result_type, name=name)
    return Elementwise(function, result_type=result_type, name=name)


def reduction(
    *,
    init: Any,
    combine: Callable[..., Any] | None = None,
    finalize: Callable[..., Any] | None = None,
    result_type: Any = None,
    partial_type: Any = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Reduction]:
    """Makes a `Reduction` of a Python function that takes an element in; a decorator.

    Args:
        init: Neutral start of the partial result: a number, a string such as
            ``"lowest_reduce_y0"``, or a tuple of them for several.
        combine: Of the partial results and then those of another: what both come to. Left out
            where it can be derived, as of sums.
        finalize: Of the partial results and ``count``: the results.
        result_type: As of `Reduction`.
        partial_type: Likewise.
        name: Of the kernel; the function's by default.

    The function gets the partial results, then the elements, and returns the new partial results.

    Raises:
        DefinitionError: As of `elementwise`, and of `Reduction`.

    Example:
        >>> import clprim as cp
        >>> @cp.reduction(init=(0, 0), finalize=lambda s, s2, count: s2 / count - (s / count) ** 2)
        ... def variance(s, s2, x):
        ...     return s + x, s2 + x * x
        >>> variance(cp.array([1.0, 2.0, 3.0, 4.0])).item()
        1.25
    """
    starts = init if isinstance(init, tuple) else (init,)
    partials = [f"reduce_y{n}" for n in range(len(starts))]
    others = [f"other_y{n}" for n in range(len(starts))]

    def make(function: Callable[..., Any]) -> Reduction:
        what = f"reduction {_name_of(function)}"
        parameters = _parameters(what, function)
        if len(parameters) <= len(starts):
            raise DefinitionError(
                f"{what}: expected {len(starts)} partial result{'s' * (len(starts) > 1)} and then "
                f"elements as parameters, got {len(parameters)}"
            )
        kinds = "".join("w" if _is_number(p) else "x" for p in parameters[len(starts) :])
        begin = [
            f"{partial} = {start};" if isinstance(start, str) else _start(what, partial, start)
            for partial, start in zip(partials, starts, strict=True)
        ]
        return Reduction(
            "",
            init=" ".join(begin),
            step=_assign(what, partials, function, [*partials, *_numbered(kinds)]),
            combine=combine and _assign(what, partials, combine, [*partials, *others]),
            finalize=finalize and _results(what, finalize, [*partials, "count"]),
            result_type=result_type,
            partial_type=partial_type,
            name=name or _identifier(_name_of(function)),
        )

    return make


def _start(what: str, partial: str, number: Any) -> str:
    return write(what, [partial], trace(what, lambda: number, ())).text


def _assign(
    what: str, targets: Sequence[str], function: Callable[..., Any], names: Sequence[str]
) -> str:
    """Returns statements that give partial results their new values, all at once."""
    values = trace(what, function, names)
    if len(values) != len(targets):
        raise DefinitionError(f"{what}: expected {len(targets)} partial results, got {len(values)}")
    news = [f"new_y{n}" for n in range(len(targets))]
    alone = all(not reads(v, set(targets[:n])) for n, v in enumerate(values))
    if not alone:
        text = write(what, news, values, "typeof_reduce_y0").text
        for n, new in enumerate(news):
            text = text.replace(f"{new} =", f"typeof_reduce_y{n} {new} =", 1)
        return text + " " + " ".join(f"{t} = {n};" for t, n in zip(targets, news, strict=True))
    lines = []
    for target, value in zip(targets, values, strict=True):
        first = value.parts[0] if value.kind == "binary" and value.word in "+*&|^" else None
        if first is not None and first.word == target and not reads(value.parts[1], {target}):
            text = write(what, [target], [value.parts[1]], "typeof_reduce_y0").text
            lines.append(text.replace(f"{target} =", f"{target} {value.word}=", 1))
        else:
            lines.append(write(what, [target], [value], "typeof_reduce_y0").text)
    return " ".join(lines) if not any("\n" in line for line in lines) else _scoped(lines)


def _scoped(lines: Sequence[str]) -> str:
    return "\n".join(f"{{ {line} }}" for line in lines)


def _results(what: str, function: Callable[..., Any], names: Sequence[str]) -> str:
    values = trace(what, function, names)
    return write(what, [f"y{n}" for n in range(len(values))], values, "typeof_reduce_y0").text


def _numbered(kinds: str) -> list[str]:
    """Returns x0, x1, … for arrays and w0, w1, … for numbers."""
    return [f"{kind}{kinds[:n].count(kind)}" for n, kind in enumerate(kinds)]


def _parameters(what: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{what}: expected a Python function: {error}") from None
    for p in found:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise DefinitionError(f"{what}: {p} stands for any number of elements; name each")
        if p.kind is p.KEYWORD_ONLY:
            raise DefinitionError(f"{what}: {p} can only be named; put it before the *")
    return found


def _is_number(parameter: inspect.Parameter) -> bool:
    return parameter.annotation in _NUMBERS or isinstance(parameter.default, int | float)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _identifier(name: str) -> str | None:
    """Returns a function's name as a kernel's, unless it has none or OpenCL C has taken it."""
    return name if name.isidentifier() and name.isascii() and not is_taken(name) else None
