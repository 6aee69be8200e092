"""Python functions as snippets: called once with values that write down what is done to them.

A function of one element, such as ``lambda x, a: x / (1 + cp.exp(-a * x))``, becomes the string
that a user would write: ``y0 = x0 / (1 + exp(-w0 * x0));``. What is used several times becomes a
local. Loops and branches of Python run while it is read; a branch on a value has no answer then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from clprim.errors import DefinitionError

__all__ = ["FUNCTIONS", "Traced", "Value", "apply", "reads", "trace", "write"]

# How tightly C binds: names and calls, signs, then the operators from products on.
_NAME, _SIGN, _TERNARY = 16, 14, 3
_LEVELS = {
    "*": 13,
    "/": 13,
    "+": 12,
    "-": 12,
    "<<": 11,
    ">>": 11,
    "<": 10,
    "<=": 10,
    ">": 10,
    ">=": 10,
    "==": 9,
    "!=": 9,
    "&": 8,
    "^": 7,
    "|": 6,
    "&&": 5,
    "||": 4,
}
_COMPARISONS = frozenset("< <= > >= == !=".split())
_BITWISE = frozenset("& ^ | << >>".split())
# Of two truth values.
_LOGICAL = {"&": "&&", "|": "||", "^": "!="}
# A snippet is for people to read, too.
_LONGEST = 20_000


class Value:
    """What stands for an element while a function is read: an expression of C.

    Attributes:
        kind: ``name``, ``sign``, ``binary``, ``call`` or ``choice``.
        word: The name, operator or function.
        parts: The values that it is made of.
        logical: Whether it is a truth value.
        of_floats: What of it integers do in another way in C, such as ``/``; empty for nothing.
    """

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
        return f"<value {_text(self, {})}>"

    # --- what Python asks for an answer to ------------------------------------------------------

    def __bool__(self) -> bool:
        raise DefinitionError(
            f"if, and, or, not, min and max need one answer, and {_shown(self)} has one for every "
            "element: write cp.where(condition, a, b), &, |, ~, cp.minimum or cp.maximum"
        )

    def __float__(self) -> float:
        raise DefinitionError(
            f"{_shown(self)} is no number yet: write cp.exp(x) for math.exp(x), and so on"
        )

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self, *_: Any) -> Any:
        raise DefinitionError(f"{_shown(self)} is one element; it has no parts")

    __len__ = __getitem__ = __iter__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DefinitionError(
            f"{_shown(self)}.{name}: an element has no methods; write cp.{name}(…), or a string "
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

    def __add__(self, other: Any) -> Value:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Value:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Value:
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Value:
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Value:
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Value:
        return apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Value:
        return apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Value:
        return apply("remainder", other, self)

    def __pow__(self, other: Any) -> Value:
        return apply("power", self, other)

    def __rpow__(self, other: Any) -> Value:
        return apply("power", other, self)

    def __and__(self, other: Any) -> Value:
        return apply("bitwise_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Value:
        return apply("bitwise_or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Value:
        return apply("bitwise_xor", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Value:
        return apply("left_shift", self, other)

    def __rshift__(self, other: Any) -> Value:
        return apply("right_shift", self, other)

    def __lt__(self, other: Any) -> Value:
        return apply("less", self, other)

    def __le__(self, other: Any) -> Value:
        return apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Value:
        return apply("greater", self, other)

    def __ge__(self, other: Any) -> Value:
        return apply("greater_equal", self, other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return apply("equal", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return apply("not_equal", self, other)

    def __neg__(self) -> Value:
        return apply("negative", self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return apply("absolute", self)

    def __invert__(self) -> Value:
        return apply("invert", self)

    def __round__(self, digits: int | None = None) -> Value:
        return apply("rint", self)

    def __floor__(self) -> Value:
        return apply("floor", self)

    def __ceil__(self) -> Value:
        return apply("ceil", self)

    def __trunc__(self) -> Value:
        return apply("trunc", self)


def _value(given: Any) -> Value:
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
    return Value("sign", "-", [number]) if given < 0 else number


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
        more = {"<": ">", ">": "<"}[less]
        return _choice(_binary("||", _binary(more, a, b), _binary("!=", a, a)), a, b)

    return extreme


def _power(a: Value, b: Value) -> Value:
    if b.kind == "name" and b.word == "2":
        return _binary("*", a, a)
    if b.kind == "name" and b.word == "0.5":
        return _call("sqrt")(a)
    if _is_number(b) and b.word.isdecimal():
        b = Value("name", f"{b.word}.0")  # OpenCL C has no pow of a float and an int
    return _call("pow")(a, b)


def _remainder(a: Value, b: Value) -> Value:
    quotient = _call("floor")(_binary("/", a, b, "%"))
    return _binary("-", a, _binary("*", b, quotient))


def _invert(a: Value) -> Value:
    return Value("sign", "!" if a.logical else "~", [a], logical=a.logical)


def _clip(x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is not None:
        x = _extreme("<")(x, low)
    return x if high is None else _extreme(">")(x, high)


def _logical(word: str) -> Callable[[Value, Value], Value]:
    return lambda a, b: _binary(word, _truth(a), _truth(b))


def _truth(a: Value) -> Value:
    return a if a.logical else _binary("!=", a, _value(0))


#: NumPy's functions of elements, as C has them.
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "add": _operator("+"),
    "subtract": _operator("-"),
    "multiply": _operator("*"),
    "divide": _operator("/", "/"),
    "floor_divide": lambda a, b: _call("floor")(_binary("/", a, b, "//")),
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
        _binary(">", a, _value(0)),
        _value(1),
        _choice(_binary("<", a, _value(0)), _value(-1), a),
    ),
    "square": lambda a: _binary("*", a, a),
    "reciprocal": lambda a: _binary("/", _value(1), a, "1 / x"),
    "isnan": lambda a: _binary("!=", a, a),
    "isfinite": lambda a: _binary("==", _binary("-", a, a), _value(0)),
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
    """Returns a function of values and numbers as a value.

    Raises:
        DefinitionError: A function that C does not have, or an argument that is no element.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        raise DefinitionError(f"{name} of an element has no expression in C; write a string")
    return function(*(None if a is None and name == "clip" else _value(a) for a in args))


# --- writing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traced:
    """What a function came to.

    Attributes:
        text: Statements, such as ``y0 = x0 * x0;``.
        logical: Of each result, whether it is a truth value.
        of_floats: What of it is for floats only; empty for nothing.
    """

    text: str
    logical: tuple[bool, ...]
    of_floats: str


Given = ParamSpec("Given")
Result = TypeVar("Result")


def _not_too_deep(written: Callable[Given, Result]) -> Callable[Given, Result]:
    """Makes Python's limit of nested calls an error that says where it comes from."""

    @functools.wraps(written)
    def checked(*args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return written(*args, **named)
        except RecursionError:
            raise DefinitionError(
                f"{args[0]}: it calls itself without end, or its terms are nested too deeply"
            ) from None

    return checked


@_not_too_deep
def trace(what: str, function: Callable[..., Any], names: Sequence[str]) -> list[Value]:
    """Returns what a function makes of elements of these names.

    Raises:
        DefinitionError: It branches on one, or returns none.
    """
    try:
        found = function(*(Value("name", name) for name in names))
    except DefinitionError as error:
        raise DefinitionError(f"{what}: {error}") from None
    results = list(found) if isinstance(found, tuple | list) else [found]
    try:
        return [_value(result) for result in results]
    except DefinitionError as error:
        raise DefinitionError(f"{what} returned {type(found).__name__}: {error}") from None


@_not_too_deep
def write(
    what: str, targets: Sequence[str], values: Sequence[Value], local_type: str | None = None
) -> Traced:
    """Writes statements that assign values.

    Args:
        what: The function, for messages.
        targets: Names that are assigned.
        values: To each of them.
        local_type: Of locals for what is used several times; None to write it each time.

    Raises:
        DefinitionError: It is longer than anybody reads.
    """
    uses: dict[int, int] = {}
    order: list[Value] = []
    for value in values:
        _count(value, uses, order)
    lines: list[str] = []
    names: dict[int, str] = {}
    for value in order:
        shared = uses[id(value)] > 1 and value.kind in ("binary", "call", "choice")
        if shared and value.word not in _BITWISE and (local_type or value.logical):
            text = _text(value, names)
            names[id(value)] = f"t{len(names)}"
            lines.append(f"{'bool' if value.logical else local_type} t{len(names) - 1} = {text};")
        if len(lines) > _LONGEST // 40:
            raise DefinitionError(f"{what}: its string is too long: write it in several functions")
    budget = [_LONGEST]
    lines += [f"{t} = {_text(v, names, budget)};" for t, v in zip(targets, values, strict=True)]
    if budget[0] < 0:
        raise DefinitionError(f"{what}: its string is too long: write it in several functions")
    of_floats = next((v.of_floats for v in order if v.of_floats), "")
    between = "\n" if len(lines) > len(targets) or len("".join(lines)) > 80 else " "
    return Traced(between.join(lines), tuple(v.logical for v in values), of_floats)


def reads(value: Value, names: set[str]) -> bool:
    """Whether a value is made of one of some names."""
    order: list[Value] = []
    _count(value, {}, order)
    return any(part.kind == "name" and part.word in names for part in order)


def _count(value: Value, uses: dict[int, int], order: list[Value]) -> None:
    """Counts how often each value is used, and lists them after what they are made of."""
    stack = [(value, False)]
    while stack:
        current, seen = stack.pop()
        if seen:
            order.append(current)
            continue
        uses[id(current)] = uses.get(id(current), 0) + 1
        if uses[id(current)] == 1:
            stack.append((current, True))
            stack += [(part, False) for part in current.parts]


def _text(value: Value, names: dict[int, str], budget: list[int] | None = None) -> str:
    return _level_text(value, names, [_LONGEST] if budget is None else budget)[1]


def _level_text(value: Value, names: dict[int, str], budget: list[int]) -> tuple[int, str]:
    """Returns how tightly a value's text binds, and the text."""
    if id(value) in names:
        return _NAME, names[id(value)]
    if budget[0] < 0:
        return _NAME, "…"

    def part(n: int, level: int) -> str:
        own, text = _level_text(value.parts[n], names, budget)
        return f"({text})" if own < level else text

    if value.kind == "name":
        level, text = _NAME, value.word
    elif value.kind == "sign":
        level, text = _SIGN, value.word + part(0, _SIGN + 1)
    elif value.kind == "call":
        level, text = (
            _NAME,
            f"{value.word}({', '.join(part(n, 0) for n in range(len(value.parts)))})",
        )
    elif value.kind == "choice":
        level, text = _TERNARY, f"{part(0, 4)} ? {part(1, 4)} : {part(2, 3)}"
    else:
        level = _LEVELS[value.word]
        # Sums of sums keep their order, and what people get wrong has parentheses.
        left = level if value.word in "+-*/" else 9 if value.word in ("&&", "||") else 12
        if value.word in ("&&", "||") and value.parts[0].word == value.word:
            left = level
        text = f"{part(0, left)} {value.word} {part(1, max(level + 1, left))}"
    budget[0] -= len(value.word)
    return level, text


def _shown(value: Value) -> str:
    text = _text(value, {}, [200])
    return text if len(text) <= 60 else text[:57] + "..."
