"""Elementwise overloads: strings whose operands have the dtype that PyTorch's promotion gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache, wraps
from typing import Any

import numpy as np
import torch

from clprim.arrays.array import Array
from clprim.arrays.expressions import SIGNS, TRUTHS, statements
from clprim.dtypes import adapted
from clprim.errors import DTypeError
from clprim.functions.shape import broadcast_to
from clprim.ops.elementwise.row import Row
from clprim.ops.elementwise.table import PAIRS, ROWS, SEVERAL
from clprim.primitives.pointwise import Pointwise
from clprim.torch.agreeing import family
from clprim.torch.copying import cast, check_target
from clprim.torch.layout import seldom, turned
from clprim.torch.table import kernel, overload
from clprim.torch.tensors import Number, is_inexact, kind_of, numpy_dtype

_BOOL = np.dtype(np.bool_)
_TWO = "const typeof_y0 a = {a}, b = {b}; "


@lru_cache(maxsize=4096)
def _pointwise(expr: str, of_arrays: tuple[bool, ...], dtype: Any, preamble: str = "") -> Pointwise:
    """Returns the operator of a string whose operands ``a``, ``b``, … are arrays or numbers."""
    names, counts = {}, {"x": 0, "w": 0}
    for letter, is_array in zip("abcdefgh", of_arrays, strict=False):
        sort = "x" if is_array else "w"
        names[letter] = f"{sort}{counts[sort]}"
        counts[sort] += 1
    text = expr.format(**names)
    text = text if "y0 =" in text else f"y0 = {text};"
    return Pointwise(text, result_type=dtype, preamble=preamble)


def promoted(*values: Any) -> torch.dtype:
    """Returns the dtype of operands: of tensors with dimensions, of others, then of numbers."""
    # Tensors without elements stand for arrays: their dtype and dimensions are all that counts.
    return _promoted(
        tuple([(v.dtype, v.ndim > 0) if isinstance(v, Array) else type(v) for v in values]),
        torch.get_default_dtype(),
    )


@lru_cache(maxsize=4096)
def _promoted(operands: tuple[Any, ...], default: torch.dtype) -> torch.dtype:
    ranks: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, tuple):
            rank, kind = (0 if operand[1] else 1), kind_of(operand[0])
        elif issubclass(operand, Number):
            rank, kind = 1, operand.kind
        elif issubclass(operand, bool):
            rank, kind = 2, torch.bool
        elif issubclass(operand, int):
            rank, kind = 2, torch.int64
        elif issubclass(operand, complex):
            rank, kind = 2, default.to_complex()
        else:
            rank, kind = 2, default
        ranks[rank] = kind if ranks[rank] is None else torch.promote_types(ranks[rank], kind)
    result: torch.dtype | None = None
    for found in ranks:
        if found is None:
            continue
        if result is None:
            result = found
        elif result.is_floating_point and found.is_complex:
            result = result.to_complex()
        elif _category(found) > _category(result):
            result = torch.promote_types(result, found)
    assert result is not None
    return result


def _category(kind: torch.dtype) -> int:
    return 2 if is_inexact(kind) else 0 if kind is torch.bool else 1


def floating(kind: torch.dtype) -> torch.dtype:
    """Returns the dtype, or the default one for a whole number's."""
    return kind if is_inexact(kind) else torch.get_default_dtype()


def apply(
    expr: str,
    *values: Any,
    kind: Any,
    out: Array | None = None,
    shape: tuple[int, ...] | None = None,
    preamble: str = "",
) -> Any:
    """Runs a string whose operands are called ``a``, ``b``, … in braces."""
    of_arrays = tuple([isinstance(v, Array) for v in values])
    if out is not None:
        check_target(kind, out)
    dtype = out.dtype if out is not None else numpy_dtype(kind)
    if False in of_arrays:
        arrays = [v for v in values if isinstance(v, Array)]
        numbers = [v for v in values if not isinstance(v, Array)]
        values = (*arrays, *numbers)
    return _pointwise(expr, of_arrays, dtype, preamble)(*values, out=out, shape=shape)


@family("broadcast")
def broadcast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets arrays of an elementwise function have shapes that broadcast.

    Gradients have more dimensions than what was saved where `torch.func` computes many at once.
    """

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        shapes = {a.shape for a in (*args, *options.values()) if isinstance(a, Array)}
        if len(shapes) > 1:
            shape = np.broadcast_shapes(*shapes)
            args = tuple([broadcast_to(a, shape) if isinstance(a, Array) else a for a in args])
            for name, a in options.items():
                options[name] = broadcast_to(a, shape) if isinstance(a, Array) else a
        return function(*args, **options)

    return run


# What is real of complex numbers.
_REAL = ("abs", "angle")
_MAKE_COMPLEX = ("complex", "polar")

# --- one operand ---------------------------------------------------------------------------------


def as_given(text: str) -> str:
    """Returns a string of `clprim.ops`, which calls operands x0, w0, … by itself, for `apply`."""
    return text.replace("{", "{{").replace("}", "}}")


@lru_cache(maxsize=4096)
def typed(expr: str) -> str:
    """Statements in which operands have the result's type first."""
    letters = [letter for letter in "abcdefgh" if f"{{{letter}}}" in expr]
    heads = "".join(f"const typeof_y0 c{n} = {{{n}}}; " for n in letters)
    body = expr
    for letter in letters:
        body = body.replace(f"{{{letter}}}", f"c{letter}")
    return f"{heads}y0 = {body};"


def has_gradient(row: Row) -> bool:
    """Whether PyTorch differentiates a row by an operator that takes what the row's own does."""
    one = row.torch and row.backward is not None and row.of_result is None
    return bool(one) and overload(f"{row.torch}_backward") is not None


def _unary(row: Row) -> None:
    """Registers an operator of one: strings of floats and of integers, which may be kept."""
    names, texts, keep = row.torch, row.texts, bool(row.integers)
    is_real = row.name in _REAL

    @cache
    def operator(dtype: Any, stored: Any, default: torch.dtype) -> Pointwise:
        kind = kind_of(dtype)
        if keep and kind is torch.bool and "sign" not in names:
            raise RuntimeError(f"{names}: not for tensors of bool")
        if kind.is_complex:
            result = stored or (None if is_real else dtype)
            return _pointwise(as_given(row.text(dtype=dtype)), (True,), result)
        text = texts[keep and not kind.is_floating_point]
        result = stored or numpy_dtype(kind if keep or kind.is_floating_point else default)
        return _pointwise(as_given(text), (True,), result)

    @kernel(*names.split(), out=True, record=row.name)
    def run(x: Array, *, out: Array | None = None) -> Any:
        if out is None:
            return operator(x.dtype, None, torch.get_default_dtype())(x)
        kind = kind_of(x.dtype) if keep else floating(kind_of(x.dtype))
        if is_real and kind.is_complex:
            if out.dtype == x.dtype:
                raise RuntimeError(f"In-place {names} is not supported for complex tensors.")
            kind = kind.to_real()
        check_target(kind, out)
        return operator(x.dtype, out.dtype, torch.get_default_dtype())(x, out=out)


def _truth(row: Row) -> None:
    floats, integers = map(as_given, row.texts)
    complexes = as_given(row.complexes)

    @kernel(row.torch, lies=seldom, record=row.name)
    def run(x: Array) -> Any:
        if x.dtype.kind == "c":
            if not complexes:
                raise DTypeError(f"{row.name}: not for complex tensors")
            return apply(complexes, x, kind=torch.bool)
        return apply(floats if x.dtype.kind not in "biu" else integers, x, kind=torch.bool)


for _row in ROWS.values():
    if not _row.torch or len(_row.arrays) > 1 or _row.arithmetic == "invert":
        continue
    if _row.truth:
        _truth(_row)
    elif not has_gradient(_row):
        _unary(_row)


@kernel(ROWS["invert"].torch, lies=seldom, record="invert")
def _not(x: Array) -> Any:
    return apply("!{a}" if x.dtype == _BOOL else "~{a}", x, kind=kind_of(x.dtype))


# --- two operands --------------------------------------------------------------------------------


def _beside(kind: torch.dtype, *values: Any) -> tuple[Any, ...]:
    """Numbers, tensors without dimensions too, as PyTorch takes them beside 16 bits: rounded.

    Products and quotients take them in float32.
    """
    if kind.itemsize != 2 or not kind.is_floating_point:
        return values
    dtype = numpy_dtype(kind)
    return tuple(
        [
            adapted(v, dtype) if not isinstance(v, Array) else v if v.ndim else cast(v, kind)
            for v in values
        ]
    )


def _binary(sign: str, result: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """An operator that C has a sign for, ``result`` from the common dtype."""
    expr = typed(f"{{a}} {sign} {{b}}")

    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if result is not None:
            kind = result(kind)
            if is_inexact(kind):  # of int8 too a number beyond it divides
                a, b = (float(v) if isinstance(v, int) else v for v in (a, b))
        return apply(expr, a, b, kind=kind, out=out)

    return run


def _sum(sign: str) -> Callable[..., Any]:
    def run(a: Any, b: Any, alpha: Any = 1, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if kind is torch.bool:
            if sign == "-":
                raise RuntimeError(
                    "Subtraction, the `-` operator, with two bool tensors is not supported."
                )
            return apply("({a} != 0) | ({b} != 0)", a, b, kind=kind, out=out)
        a, b, alpha = _beside(kind, a, b, alpha)
        if alpha == 1:
            return apply(typed(f"{{a}} {sign} {{b}}"), a, b, kind=kind, out=out)
        return apply(typed(f"{{a}} {sign} {{c}} * {{b}}"), a, b, alpha, kind=kind, out=out)

    return run


def _rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    kind = promoted(a, b)
    return apply(typed("{a} - {c} * {b}"), *_beside(kind, b, a, alpha), kind=kind)


_div = _binary("/", result=floating)


def _stated(name: str, a: Any, b: Any, kind: Any, out: Array | None = None) -> Any:
    """Runs one of the operators that arrays have, on operands of one dtype."""
    if kind is torch.bool:
        raise RuntimeError(f"{name}: not for tensors of bool")
    body = statements(name, numpy_dtype(kind) if out is None else out.dtype)
    assert body is not None
    return apply(_TWO + as_given(body), a, b, kind=kind, out=out)


def _of_statements(name: str) -> Callable[..., Any]:
    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if name != "floor_divide":  # a quotient
            a, b = _beside(kind, a, b)
        return _stated(name, a, b, kind, out)

    return run


def _div_mode(a: Any, b: Any, *, rounding_mode: str | None = None, out: Array | None = None) -> Any:
    if rounding_mode is None:
        return _div(a, b, out=out)
    return _stated(f"{rounding_mode}_divide", a, b, promoted(a, b), out)


def _of_row(row: Row) -> Callable[..., Any]:
    """An operator of two that is a string of `clprim.ops`."""

    @cache
    def text(kind: torch.dtype) -> str:
        return _TWO + as_given(row.text(dtype=numpy_dtype(kind)))

    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        kind = kind if row.integers else floating(kind)
        return apply(text(kind), *_beside(kind, a, b), kind=kind, out=out)

    return run


def _of_parts(row: Row) -> Callable[..., Any]:
    """A complex number of two real ones, which are of one dtype."""

    def run(a: Array, b: Array, *, out: Array | None = None) -> Any:
        if a.dtype != b.dtype or a.dtype.kind != "f":
            raise RuntimeError(
                f"{row.name}: expected both inputs to be Half, Float or Double tensors of one "
                f"dtype, got {kind_of(a.dtype)} and {kind_of(b.dtype)}"
            )
        kind = kind_of(a.dtype).to_complex()
        if out is not None and kind_of(out.dtype) is not kind:
            raise RuntimeError(f"Expected object of scalar type {kind} for argument 'out'")
        return apply(row.text(), a, b, kind=kind, out=out)

    return run


def _pow(a: Any, b: Any, *, out: Array | None = None) -> Any:
    kind = promoted(a, b)
    if is_inexact(kind):
        simple = {2: "{a} * {a}", 3: "{a} * {a} * {a}", 0.5: "sqrt({a})", 1: "{a}", -1: "1 / {a}"}
        if not isinstance(b, Array) and b in simple:
            return apply(typed(simple[b]), a, kind=kind, out=out)
        return apply(typed("pow({a}, {b})"), *_beside(kind, a, b), kind=kind, out=out)
    if not isinstance(b, Array) and b < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    return _stated("power", a, b, kind, out)


def _logical(sign: str) -> Callable[..., Any]:
    expr = f"({{a}} != 0) {sign} ({{b}} != 0)"

    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        return apply(expr, a, b, kind=torch.bool, out=out)

    return run


def _comparison(sign: str) -> Callable[..., Any]:
    def run(a: Any, b: Any, *, out: Array | None = None) -> Any:
        kind = promoted(a, b)
        if kind is torch.bool:
            kind = torch.uint8
        c = _C_TYPES[kind]
        expr = f"y0 = ({c}){{a}} {sign} ({c}){{b}};"
        return apply(expr, *_beside(kind, a, b), kind=torch.bool, out=out)

    return run


_C_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "float",
    torch.bfloat16: "float",
    torch.int8: "char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
    torch.uint8: "uchar",
    torch.uint16: "ushort",
    torch.uint32: "uint",
    torch.uint64: "ulong",
    torch.complex64: "float2",
    torch.complex128: "double2",
}


def _of_pair(row: Row) -> Callable[[str], Callable[..., Any]]:
    """What computes the overloads of a row of two operands."""
    name = row.arithmetic
    special = {
        "add": dict.fromkeys(("Tensor", "Scalar"), _sum("+")),
        "subtract": dict.fromkeys(("Tensor", "Scalar"), _sum("-")),
        "divide": {"Tensor": _div, "Scalar": _div},
        "power": dict.fromkeys(("Tensor_Tensor", "Tensor_Scalar", "Scalar"), _pow),
    }
    if name in special:
        return lambda which: special[name].get(which, _div_mode)
    if row.name in _MAKE_COMPLEX:
        run = _of_parts(row)
    elif not name:
        run = _of_row(row)
    elif name in SIGNS:
        run = _binary(SIGNS[name])
    elif name not in TRUTHS:
        run = _of_statements(name)
    else:
        run = (_logical if name.startswith("logical") else _comparison)(TRUTHS[name])
    return lambda _: run


def _several(row: Row) -> Callable[..., Any]:
    """A row of three operands and a number, each of which may be a number of the CPU."""

    @cache
    def text(kind: torch.dtype) -> str:
        found = as_given(row.text(dtype=numpy_dtype(kind)))
        for name, letter in zip(("x0", "x1", "x2", "w0"), "abcd", strict=True):
            found = re.sub(rf"\b{name}\b", f"{{{letter}}}", found)
        return found

    def run(a: Any, b: Any, c: Any, *, value: Any = 1, out: Array | None = None) -> Any:
        if not row.numbers:
            kind = promoted(a, b)
            return apply(text(kind), a, b, c, kind=kind, out=out)
        kind = promoted(a, b, c)
        return apply(text(kind), a, b, c, value, kind=kind, out=out)

    return run


for _row in (row for row in PAIRS if row.torch):
    _computed = _of_pair(_row)
    for _name in _row.torch.split():
        if _name.startswith("rsub"):
            kernel(_name, lies=turned, record=_row.name)(_rsub)
        else:
            kernel(_name, out=True, record=_row.name)(_computed(_name.partition(".")[2]))
for _row in SEVERAL:
    for _name in _row.torch.split():
        kernel(_name, out=True, record=_row.name)(_several(_row))
