"""Derives ``combine`` from ``step``, where merging partial results that way is sound.

``step`` takes one element into a partial; ``combine`` takes one partial into another. The two are
not the same statement (``reduce_y0 += y0 * y0`` must not square partials), so the derivation looks
at the *form* of each update:

* ``r += E``, ``r -= E``, ``r *= E``, ``r &= E``, ``r |= E``, ``r ^= E`` and ``r = f(r, E)`` for
  ``+ * & | ^ && ||`` and ``max min fmax fmin``, where E reads no partial: partials merge with the
  same operation (for ``-=``: partials of a neutral start add up).
* ``if (E < r) { r = E; s = F; … }`` and ``r = E < r ? E : r``, any comparison: the better partial
  wins as a whole. Where one of the results is the element's position, equal values are decided
  by it, so that the first (``<``, ``>``) or last (``<=``, ``>=``) one wins however work was split.

Everything else is asked for.
"""

from __future__ import annotations

from clprim.language.snippet import Snippet, operand_number
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Evaluate,
    Expr,
    If,
    Name,
    Statement,
    Ternary,
    flat,
    names_in,
    walk,
)

__all__ = ["added_results", "derive_combine", "position_results", "summed_results"]

_MERGE = {"+=": "+=", "-=": "+=", "*=": "*=", "&=": "&=", "|=": "|=", "^=": "^="}
_OPERATORS = frozenset("+ * & | ^ && ||".split())
_FUNCTIONS = frozenset("max min fmax fmin".split())
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_POSITIONS = frozenset(["reduce_item", "scan_item", "index"])


def _partial_number(name: str) -> int | None:
    """The N of ``reduce_yN`` or ``scan_yN``; None for another name."""
    number = operand_number(name, "reduce_y")
    return operand_number(name, "scan_y") if number is None else number


def _partials(node: Expr) -> frozenset[str]:
    return frozenset(n for n in names_in(node) if _partial_number(n) is not None)


def position_results(expr: Snippet, step: Snippet) -> frozenset[int]:
    """The partials that hold an element's position (``reduce_item``, ``scan_item``, ``index``)."""
    positions = set(_POSITIONS)
    for statement in flat(expr.statements):
        match statement:
            case Evaluate(Assign(Name(y), "=", Name(source))) if source in _POSITIONS:
                positions.add(y)
    found: set[int | None] = set()
    for node in walk(step.tree):
        match node:
            case Assign(Name(target), "=", Name(source)) if source in positions:
                found.add(_partial_number(target))
    return frozenset(n for n in found if n is not None)


def summed_results(step: Snippet) -> frozenset[int]:
    """The partials that ``step`` adds up or multiplies: NumPy widens small integers for these."""
    found: set[int | None] = set()
    for statement in flat(step.statements):
        match statement:
            case Evaluate(Assign(Name(target), "+=" | "-=" | "*=", _)):
                found.add(_partial_number(target))
            case Evaluate(Assign(Name() as target, "=", Binary("+" | "*", a, b))):
                if target in (a, b):
                    found.add(_partial_number(target.text))
    return frozenset(n for n in found if n is not None)


def added_results(combine: Snippet) -> frozenset[int]:
    """The partials that ``combine`` merges by adding the other one, and does nothing else with."""
    found: list[int | None] = []
    touched: list[int | None] = []
    for statement in flat(combine.statements):
        match statement:
            case Evaluate(Assign(Name(r), "+=", Name(o))) if o == _other(r) != r:
                found.append(_partial_number(r))
            case Evaluate(Assign(Name(r), "=", Binary("+", Name(a), Name(b)))) if {a, b} == {
                r,
                _other(r),
            } and _is_partial(r):
                found.append(_partial_number(r))
    for node in walk(combine.tree):
        match node:
            case Assign(Name(target), _, _):
                touched.append(_partial_number(target))
    return frozenset(n for n in found if n is not None and touched.count(n) == 1)


def derive_combine(expr: Snippet, step: Snippet) -> str | None:
    """Returns the ``combine`` snippet that ``step`` implies, or None where none is sound."""
    positions = position_results(expr, step)
    updated: set[str] = set()
    merged: list[str] = []
    for statement in flat(step.statements):
        result = _merge(statement, positions)
        if result is None:
            return None
        text, targets = result
        if updated & targets:  # a second update of one partial: the two may not commute
            return None
        updated |= targets
        merged.append(text)
    return "\n".join(merged) or None


def _merge(statement: Statement, positions: frozenset[int]) -> tuple[str, set[str]] | None:
    match statement:
        case Evaluate(Assign(Name(r), op, value)) if (
            op in _MERGE and _is_partial(r) and not _partials(value)
        ):
            return f"{r} {_MERGE[op]} {_other(r)};", {r}
        case Evaluate(Assign(Name(r), "=", Binary(op, a, b))) if op in _OPERATORS and _is_partial(
            r
        ):
            if _takes_one(r, a, b):
                return f"{r} = {r} {op} {_other(r)};", {r}
        case Evaluate(Assign(Name(r), "=", Call(f, (a, b)))) if f in _FUNCTIONS and _is_partial(r):
            if _takes_one(r, a, b):
                return f"{r} = {f}({r}, {_other(r)});", {r}
        case Evaluate(Assign(Name(r), "=", Ternary(condition, a, b))) if _is_partial(r):
            # r = E > r ? E : r   takes the element where it wins.
            if b == Name(r) and not _partials(a):
                return _select(condition, {r: a}, positions)
            # r = r > E ? r : E   keeps the partial unless the element wins.
            if a == Name(r) and not _partials(b):
                match condition:
                    case Binary(op, left, right) if op in _MIRRORED and _takes_one(r, left, right):
                        if (right if left == Name(r) else left) == b:
                            op = op if left == Name(r) else _MIRRORED[op]
                            return f"{r} = {r} {op} {_other(r)} ? {r} : {_other(r)};", {r}
        case If(condition, then, ()):
            taken: dict[str, Expr] = {}
            for inner in flat(then):
                match inner:
                    case Evaluate(Assign(Name(r), "=", value)) if _is_partial(r) and not _partials(
                        value
                    ):
                        taken[r] = value
                    case _:
                        return None
            return _select(condition, taken, positions)
    return None


def _select(
    condition: Expr, taken: dict[str, Expr], positions: frozenset[int]
) -> tuple[str, set[str]] | None:
    """Merges ``if (E op r) { r = E; … }``: the partial with the better r is taken whole."""
    match condition:
        case Binary(op, element, Name(r)) if op in _MIRRORED and taken.get(r) == element:
            pass
        case Binary(op, Name(r), element) if op in _MIRRORED and taken.get(r) == element:
            op = _MIRRORED[op]
        case _:
            return None
    better = f"{_other(r)} {op} {r}"
    others = [name for name in taken if name != r]
    if others:
        tie = [name for name in others if _partial_number(name) in positions]
        if not tie:  # equal values would leave the other results to chance
            return None
        strict = op.rstrip("=")
        first = "<" if op == strict else ">"
        better = (
            f"{_other(r)} {strict} {r} || ({_other(r)} == {r} && {_other(tie[0])} {first} {tie[0]})"
        )
    body = " ".join(f"{name} = {_other(name)};" for name in taken)
    return f"if ({better}) {{ {body} }}", set(taken)


def _is_partial(name: str) -> bool:
    return _partial_number(name) is not None


def _takes_one(r: str, a: Expr, b: Expr) -> bool:
    """Whether exactly one of the operands is the partial and the other reads none."""
    return (a == Name(r) and not _partials(b)) or (b == Name(r) and not _partials(a))


def _other(name: str) -> str:
    return name.replace("reduce_y", "other_y").replace("scan_y", "other_y")
