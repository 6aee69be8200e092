"""Values that stand for elements while a function is read, and NumPy's functions of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clprim.errors import DefinitionError
from clprim.language.traced_text import shown, text_of

_COMPARISONS = frozenset("< <= > >= == !=".split())
# Of two truth values.
_LOGICAL = {"&": "&&", "|": "||", "^": "!="}


def _infix(name: str) -> Callable[[Any, Any], Value]:
    return lambda self, other: apply(name, self, other)


def _reflected(name: str) -> Callable[[Any, Any], Value]:
    return lambda self, other: apply(name, other, self)


def _prefix(name: str) -> Callable[[Any], Value]:
    return lambda self: apply(name, self)


class Value:
    """What stands for an element while a function is read: an expression of C."""

    __slots__ = ("kind", "logical", "of_floats", "parts", "word")
    __hash__ = None  # type: ignore[assignment] # == is an expression

    def __init__(
        self,
        kind: str,
        word: str,
        parts: Sequence[Value] = (),
        *,
        logical: bool = False,
        of_floats: str = "",
    ) -> None:
        self.kind, self.word, self.parts, self.logical = kind, word, tuple(parts), logical
        self.of_floats = of_floats

    def __repr__(self) -> str:
        return f"<value {text_of(self, {})}>"

    # --- what Python asks for an answer to ------------------------------------------------------

    def __bool__(self) -> bool:
        raise DefinitionError(
            f"if, and, or, not, min and max need one answer, and {shown(self)} has one for every "
            "element: write cp.where(condition, a, b), &, |, ~, cp.minimum or cp.maximum"
        )

    def __float__(self) -> float:
        raise DefinitionError(
            f"{shown(self)} is no number yet: write cp.exp(x) for math.exp(x), and so on"
        )

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self, *_: Any) -> Any:
        raise DefinitionError(f"{shown(self)} is one element; it has no parts")

    __len__ = __getitem__ = __iter__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DefinitionError(
            f"{shown(self)}.{name}: an element has no methods; write cp.{name}(…), or a string "
            "for what has no function here"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Value:
        if method != "__call__" or any(v is not None for v in options.values()):
            raise DefinitionError(f"numpy.{ufunc.__name__}.{method} of an element: write a string")
        return apply(ufunc.__name__, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Value:
        if kwargs:
            raise DefinitionError(f"{func.__name__} of an element takes no options; write a string")
        return apply(func.__name__, *args)

    # --- operators -------------------------------------------------------------------------------

    __add__, __radd__ = _infix("add"), _reflected("add")
    __sub__, __rsub__ = _infix("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _infix("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _infix("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _infix("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _infix("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _infix("power"), _reflected("power")
    __and__ = __rand__ = _infix("bitwise_and")
    __or__ = __ror__ = _infix("bitwise_or")
    __xor__ = __rxor__ = _infix("bitwise_xor")
    __lshift__ = _infix("left_shift")
    __rshift__ = _infix("right_shift")
    __lt__ = _infix("less")
    __le__ = _infix("less_equal")
    __gt__ = _infix("greater")
    __ge__ = _infix("greater_equal")
    __eq__ = _infix("equal")  # type: ignore[assignment]
    __ne__ = _infix("not_equal")  # type: ignore[assignment]
    __neg__, __abs__, __invert__ = map(_prefix, ("negative", "absolute", "invert"))
    __floor__, __ceil__, __trunc__ = map(_prefix, ("floor", "ceil", "trunc"))

    def __pos__(self) -> Value:
        return self

    def __round__(self, digits: int | None = None) -> Value:
        return apply("rint", self)


def as_value(given: Any) -> Value:
    """Returns a value or a number of Python's or NumPy's as a value."""
    if isinstance(given, Value):
        return given
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, bool):
        return Value("name", "1" if given else "0", logical=True)
    if isinstance(given, int) and -(2**63) < given < 2**63:
        number = Value("name", str(abs(given)))
    elif isinstance(given, float):
        word = "NAN" if math.isnan(given) else "INFINITY" if math.isinf(given) else repr(abs(given))
        number = Value("name", word)
    else:
        raise DefinitionError(
            f"expected an element or a number, got {type(given).__name__} {given!r}"
            if isinstance(given, int | str)
            else f"expected an element or a number, got {type(given).__name__}"
        )
    # A negative zero is none to `<`, and has its sign all the same.
    return Value("sign", "-", [number]) if math.copysign(1, given) < 0 else number


def _binary(word: str, a: Value, b: Value, of_floats: str = "") -> Value:
    if a.logical and b.logical:
        word = _LOGICAL.get(word, word)
    logical = word in _COMPARISONS or word in ("&&", "||")
    return Value("binary", word, [a, b], logical=logical, of_floats=of_floats)


def _operator(word: str, of_floats: str = "") -> Callable[..., Value]:
    return lambda a, b: _binary(word, a, b, of_floats)


def _call(word: str) -> Callable[..., Value]:
    return lambda *parts: Value("call", word, parts, of_floats=f"{word}()")


def _choice(condition: Value, a: Value, b: Value) -> Value:
    return Value("choice", "?", [_truth(condition), a, b], logical=a.logical and b.logical)


def _is_number(value: Value) -> bool:
    inner = value.parts[0] if value.kind == "sign" else value
    return inner.kind == "name" and not inner.word[0].isalpha()


def _extreme(less: str) -> Callable[[Value, Value], Value]:
    """The one of two that compares so; NaN where either is."""

    def extreme(a: Value, b: Value) -> Value:
        if _is_number(a):
            a, b = b, a
        if _is_number(b):  # of which none is NaN
            return _choice(_binary(less, a, b), b, a)
        more = {"<": ">=", ">": "<="}[less]  # the first of equals, as `ops.maximum` gives
        return _choice(_binary("||", _binary(more, a, b), _binary("!=", a, a)), a, b)

    return extreme


def _power(a: Value, b: Value) -> Value:
    if b.kind == "name" and b.word in ("2", "2.0"):
        return _binary("*", a, a)
    if b.kind == "name" and b.word == "0.5":
        return _call("sqrt")(a)
    if b.kind == "sign" and b.parts[0].word in ("1", "1.0"):
        return _binary("/", as_value(1), a, "1 / x")
    if _is_number(b) and b.word.isdecimal():
        b = Value("name", f"{b.word}.0")  # OpenCL C has no pow of a float and an int
    return _call("pow")(a, b)


def _divided(word: str, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """What fmod leaves, the same with the divisor's sign, and whether they are one."""
    rest = Value("call", "fmod", [a, b], of_floats=word)
    turned = _call("copysign")(rest, b)
    return rest, turned, _binary("==", turned, rest)


def _remainder(a: Value, b: Value) -> Value:
    rest, turned, same = _divided("%", a, b)
    # Of a zero only the sign changes: what is taken away is +0, and has the slope that is lost.
    zero = _binary("-", turned, _binary("-", rest, _binary("*", as_value(2), rest)))
    whole = _binary("==", rest, as_value(0))
    return _choice(whole, zero, _choice(same, rest, _binary("+", rest, b)))


def _floor_divide(a: Value, b: Value) -> Value:
    """As that of arrays: whole but for rounding, with the quotient's sign where it is a zero."""
    rest, _, same = _divided("//", a, b)
    below = _binary("/", _binary("-", a, rest), b)
    found = _choice(same, below, _binary("-", below, as_value(1)))
    quotient, zero = _binary("/", a, b), as_value(0)
    signed = _call("copysign")(zero, quotient)
    whole = _choice(_binary("==", found, zero), signed, _call("rint")(found))
    if _is_number(b) and any(digit in b.word for digit in "123456789"):
        return whole
    return _choice(_binary("==", b, zero), quotient, whole)


def _invert(a: Value) -> Value:
    return Value("sign", "!" if a.logical else "~", [a], logical=a.logical)


def _clip(x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is not None:
        x = _extreme("<")(x, low)
    return x if high is None else _extreme(">")(x, high)


def _logical(word: str) -> Callable[[Value, Value], Value]:
    return lambda a, b: _binary(word, _truth(a), _truth(b))


def _truth(a: Value) -> Value:
    return a if a.logical else _binary("!=", a, as_value(0))


#: NumPy's functions of elements, as C has them.
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "add": _operator("+"),
    "subtract": _operator("-"),
    "multiply": _operator("*"),
    "divide": _operator("/", "/"),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "bitwise_and": _operator("&"),
    "bitwise_or": _operator("|"),
    "bitwise_xor": _operator("^"),
    "left_shift": _operator("<<"),
    "right_shift": _operator(">>"),
    "less": _operator("<"),
    "less_equal": _operator("<="),
    "greater": _operator(">"),
    "greater_equal": _operator(">="),
    "equal": _operator("=="),
    "not_equal": _operator("!="),
    "negative": lambda a: Value("sign", "-", [a]),
    "positive": lambda a: a,
    "invert": _invert,
    "logical_and": _logical("&&"),
    "logical_or": _logical("||"),
    "logical_not": lambda a: _invert(_truth(a)),
    "absolute": _call("fabs"),
    "sign": lambda a: _choice(
        _binary(">", a, as_value(0)),
        as_value(1),
        _choice(
            _binary("<", a, as_value(0)),
            as_value(-1),
            _choice(_binary("==", a, as_value(0)), as_value(0), a),
        ),
    ),
    "square": lambda a: _binary("*", a, a),
    "reciprocal": lambda a: _binary("/", as_value(1), a, "1 / x"),
    "isnan": lambda a: _binary("!=", a, a),
    "isfinite": lambda a: _binary("==", _binary("-", a, a), as_value(0)),
    "maximum": _extreme("<"),
    "minimum": _extreme(">"),
    "where": _choice,
    "clip": _clip,
    **{
        name: _call(name)
        for name in (
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh "
            "tanh asinh acosh atanh erf erfc lgamma floor ceil trunc rint atan2 hypot copysign "
            "fmax fmin nextafter"
        ).split()
    },
}
_ALIASES = {
    "abs": "absolute",
    "fabs": "absolute",
    "pow": "power",
    "mod": "remainder",
    "round": "rint",
    "true_divide": "divide",
    "bitwise_invert": "invert",
    "bitwise_not": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    **{f"arc{f}": f"a{f}" for f in "sin cos tan sinh cosh tanh".split()},
    "arctan2": "atan2",
}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in _ALIASES.items() if name in FUNCTIONS}


def apply(name: str, *args: Any) -> Value:
    """Returns a function of values and numbers as a value."""
    function = FUNCTIONS.get(name)
    if function is None:
        raise DefinitionError(f"{name} of an element has no expression in C; write a string")
    return function(*(None if a is None and name == "clip" else as_value(a) for a in args))
