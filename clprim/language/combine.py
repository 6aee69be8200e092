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

Locals that are made of the element alone may come before, and updates may stand under conditions on
it, so long as a partial is updated in one way. Everything else is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from clprim.language.operands import operand_number
from clprim.language.snippet import Snippet
from clprim.language.tree import (
    Assign,
    Binary,
    Call,
    Evaluate,
    Expr,
    If,
    Jump,
    Name,
    Opaque,
    Statement,
    Ternary,
    Unary,
    flat,
    names_in,
    walk,
)

_MERGE = {"+=": "+=", "-=": "+=", "*=": "*=", "&=": "&=", "|=": "|=", "^=": "^="}
_OPERATORS = frozenset("+ * & | ^ && ||".split())
_FUNCTIONS = frozenset("max min fmax fmin".split())
# Those whose result is not undefined where one argument is NaN.
_DEFINED = frozenset(["fmax", "fmin"])
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CONDITIONS = frozenset("< > <= >= == != && ||".split())
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
    for node in walk(step.tree):  # under conditions, too
        match node:
            case Assign(Name(target), "+=" | "-=" | "*=", _):
                found.add(_partial_number(target))
            case Assign(Name() as target, "=", Binary("+" | "*", a, b)):
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


def is_selection(combine: Snippet) -> bool:
    """Whether ``combine`` takes one of two partials as it is, whichever comes first."""
    for node in walk(combine.tree):
        match node:
            case Assign(_, operator, _) if operator != "=":
                return False
            case Binary(operator, _, _) if operator not in _CONDITIONS:
                return False
            case Call(Name(function), _) if function not in _DEFINED:
                return False
            case Opaque() | Unary():
                return False
    return not combine.preamble.names & _DEFINED


def derive_combine(expr: Snippet, step: Snippet) -> str | None:
    """Returns the ``combine`` snippet that ``step`` implies, or None where none is sound."""
    if any(token.text in step.preamble.names & {*_FUNCTIONS} for token in step.tokens):
        return None  # the preamble may have a max of its own
    merged = _merge_all(step.statements, position_results(expr, step), step.preamble.names)
    return "\n".join(merged) or None if merged is not None else None


def _merge_all(
    statements: Sequence[Statement], positions: frozenset[int], hidden: frozenset[str]
) -> dict[str, set[str]] | None:
    """Returns what merges the partials that statements update, and which ones each of it does."""
    merged: dict[str, set[str]] = {}
    for statement in flat(statements):
        if _is_of_the_element(statement, hidden):
            continue
        match statement:
            case If(condition, then, otherwise) if not _partials(condition):
                # Which elements are taken, and how they are, is up to the element.
                found: dict[str, set[str]] = {}
                for branch in (then, otherwise):
                    inner = _merge_all(branch, positions, hidden)
                    if inner is None or _clash(found, inner):
                        return None
                    found |= inner
            case _:
                one = _merge(statement, positions)
                if one is None:
                    return None
                found = dict([one])
        if any(targets & more for targets in merged.values() for more in found.values()):
            return None  # a second update of one partial: the two may not commute
        merged |= found
    return merged


def _clash(one: dict[str, set[str]], other: dict[str, set[str]]) -> bool:
    """Whether two branches merge one partial in different ways."""
    return any(a != b and targets & more for a, targets in one.items() for b, more in other.items())


def _is_of_the_element(statement: Statement, hidden: frozenset[str]) -> bool:
    """Whether a statement has to do with an element and locals only, and partials are none of it.

    A local that is computed from a partial is so in a statement that names it, which is refused.
    """
    known = not any(isinstance(node, Opaque | Jump) for node in walk(statement))
    return known and not any(_is_partial(n) or n in hidden for n in names_in(statement))


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
