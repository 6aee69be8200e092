"""What people write who think of another language, and how OpenCL C spells it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from clprim.errors import shorten
from clprim.language import names
from clprim.language.cursor import Fault
from clprim.language.operands import NUMBERED, is_engine_name
from clprim.language.parser import parse_snippet
from clprim.language.tokens import Token, scan
from clprim.language.tree import (
    Binary,
    Call,
    Cast,
    Evaluate,
    Expr,
    Name,
    Node,
    Number,
    Unary,
    fold,
    walk,
)

_HELPERS = "helper functions go to preamble=, in OpenCL C"
_ELEMENTS = "a snippet sees one element; sums over an array are a Reduction's"
#: Names of other languages and libraries: what to write instead.
INSTEAD = {
    "and": "C writes a && b",
    "or": "C writes a || b",
    "not": "C writes !a",
    "is": "C writes a == b",
    "elif": "C writes else if",
    "where": "C writes condition ? a : b",
    "True": "C writes true",
    "False": "C writes false",
    "None": "C has no None",
    **dict.fromkeys(("np", "math", "torch", "numpy", "cp"), "OpenCL C has its functions by name"),
    **dict.fromkeys(("def", "lambda"), _HELPERS),
    **dict.fromkeys(("sum", "mean", "prod", "norm"), _ELEMENTS),
    "relu": "write x0 < 0 ? 0 : x0",
    "sigmoid": "write 1 / (1 + exp(-x0))",
    "silu": "write x0 / (1 + exp(-x0))",
    "square": "write x0 * x0",
    "power": "write pow(x0, 2)",
    "maximum": "write max(x0, x1)",
    "minimum": "write min(x0, x1)",
    "pi": "write M_PI_F",
    "inf": "write INFINITY",
    "ln": "write log(x0)",
    **{f"arc{f}": f"write a{f}(x0)" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"{f}{n}": f"write {c}" for f, n, c in (
        *(("float", 16, "half"), ("float", 32, "float"), ("float", 64, "double")),
        *(("int", 8, "char"), ("int", 32, "int"), ("int", 64, "long")),
        *(("uint", 8, "uchar"), ("uint", 32, "uint"), ("uint", 64, "ulong")),
    ) if f"{f}{n}" not in names.TYPES},
}  # fmt: skip
INTEGERS_ONLY = {
    "^": "'^' is exclusive or, of integers; a power is pow(x0, 2)",
    "%": "'%' takes integers; of floats it is fmod(x0, x1)",
    **{op: f"{op!r} takes integers" for op in ("&", "|", "<<", ">>", "~")},
}
_OF_FLOATS = {"mad24": "mad", "mul24": "*", "mad_hi": "mad"}
_CALL = re.compile(r"call to '(\w+)' is ambiguous", re.ASCII)
_DIRECTIVE = re.compile(
    r"#\s*(define|undef|include|if|ifdef|ifndef|elif|else|endif|pragma|line|error)\b"
)
_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+[uUlL]*$|[0-9]+[uUlL]*$")
_INTEGER_TYPES = frozenset("char uchar short ushort int uint long ulong size_t".split())
#: Functions of floating values alone; for integers the compiler cannot choose one.
_FLOATS = names.COMPONENTWISE - names.INTEGER_FORMS
_CLASSES = frozenset("isfinite isinf isnan isnormal signbit isequal isless isgreater".split())


def unknown_name(text: str, known: Iterable[str], families: frozenset[str]) -> str:
    """Says what an unknown name may be meant to be."""
    if text in INSTEAD:
        return f"; {INSTEAD[text]}"
    if text in families and text in NUMBERED:
        return f"; did you mean '{text}0'?"
    everything = [*known, *names.BUILTINS]
    for family in families:
        numbers = range(4) if family in NUMBERED else ("",)
        everything.extend(f"{family}{n}" for n in numbers)
    close = difflib.get_close_matches(text, everything, 1, 0.6) if len(text) < 40 else []
    if close:
        return f"; did you mean {shorten(close[0])!r}?"
    return "; arrays are x0, x1, …, scalars w0, …, results y0, …, helpers go to preamble="


def of_directive(text: str) -> str:
    """Says what is wrong with a line that begins with ``#``."""
    if _DIRECTIVE.match(text):
        return "preprocessor lines belong into preamble="
    return "'#' begins no comment in C, '//' does"


def of_complaint(text: str, marked: str) -> str | None:
    """Says how to spell what a compiler refuses for its types."""
    call = _CALL.search(text)
    if call is not None:
        function = call[1]
        if function in _FLOATS | _CLASSES:
            return f"{function} takes floating values; an integer is converted by (float)x0"
        if function in _OF_FLOATS:
            return f"{function} takes integers; of floating values it is {_OF_FLOATS[function]}"
    if "expression" in text:
        op = max((op for op in INTEGERS_ONLY if marked.startswith(op)), key=len, default="")
        return INTEGERS_ONLY.get(op)
    return None


def takes_floats(function: str) -> bool:
    """Whether a function has no form for integers, and none that converts them."""
    return function in _FLOATS and function not in names.UNIFIED


def is_integer(node: Node) -> bool:
    """Whether an expression surely is an integer."""
    return fold(node, _is_integer)


def _is_integer(node: Node, given: list[bool]) -> bool:
    match node:
        case Number(text):
            return _INTEGER.match(text) is not None
        case Name("index" | "reduce_item" | "scan_item" | "count") | Call("coord" | "size"):
            return True
        case Cast(kind):
            return kind.text in _INTEGER_TYPES
        case Unary("+" | "-") | Binary("+" | "-" | "*" | "/"):
            return all(given)
    return False


def is_floating(node: Node) -> bool:
    """Whether an expression surely is a floating value."""
    return fold(node, _is_floating)


def _is_floating(node: Node, given: list[bool]) -> bool:
    match node:
        case Number(text):
            return _INTEGER.match(text) is None
        case Call(function):
            return function in _FLOATS
        case Cast(kind):
            return kind.text in ("float", "double", "half")
        case Unary("+" | "-") | Binary("+" | "-" | "*" | "/"):
            return any(given)
    return False


def quotient(before: Token | None, comment: Token, after: Token | None) -> str | None:
    """Asks about a ``//`` that may be meant to divide: ``y0 = x0 // 2``."""
    if before is None or not (before.kind in ("name", "number") or before.text in (")", "]")):
        return None
    if after is not None and after.kind != "name":
        return None
    divisor = comment.text[2:].partition(";")[0].strip()
    try:
        (statement,) = parse_snippet(divisor, scan("", "", divisor)).statements
    except (Fault, ValueError):
        return None
    if not isinstance(statement, Evaluate) or not _is_value(statement.value):
        return None
    return (
        f"'//' begins a comment, so {shorten(divisor)!r} divides nothing; did you mean '/'? "
        "(floor(a / b) rounds down; before a comment put a ';')"
    )


def _is_value(node: Expr) -> bool:
    """Whether all names are the engine's or OpenCL C's."""
    known = (
        n.text in names.BUILTINS or is_engine_name(n.text)
        for n in walk(node)
        if isinstance(n, Name)
    )
    return all(known) and all(
        n.function in names.BUILTINS or is_engine_name(n.function)
        for n in walk(node)
        if isinstance(n, Call)
    )
