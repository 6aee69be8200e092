"""The functions that follow from the table of losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from clprim.ops.loss.table import LOSSES, LossRow
from clprim.ops.registry import add
from clprim.ops.shared.made import made


def _forward(row: LossRow, reduction: str, given: tuple[Any, ...], out: Any) -> Any:
    loss, arrays, numbers = row.chosen(row.name, *given)
    return loss(reduction, arrays, numbers, out=out)


def _backward(row: LossRow, grad: Any, reduction: str, given: tuple[Any, ...]) -> Any:
    loss, arrays, numbers = row.chosen(f"{row.name}_backward", *given)
    return loss.backward(reduction, grad, arrays, numbers)


def signatures(row: LossRow) -> Iterator[tuple[str, str]]:
    """Yields the functions of a row: names, and parameters with what they return."""
    kinds = {"reduction": "str"} | dict.fromkeys(row.flags, "bool")
    kinds |= dict.fromkeys(row.numbers, "float")
    taken = [
        name
        if name == "*"
        else f"{name}: {kinds.get(name, 'Any')}" + f" = {default}" * bool(default)
        for name, default in row.defaults.items()
    ]
    taken = [text.replace("'", '"') for text in taken]
    yield row.name, f"({', '.join([*taken, 'out: Any = None'])}) -> Array"
    result = "Array" if row.inputs == 1 else "tuple[Array, ...]"
    yield f"{row.name}_backward", f"({', '.join(['grad: Any', *taken])}) -> {result}"


def _functions() -> dict[str, Callable[..., Any]]:
    found = {}
    for row in LOSSES:
        groups = (row.arrays, row.numbers, row.flags)
        given = ", ".join(f"({''.join(f'{name}, ' for name in names)})" for names in groups)
        space = {"row": row, "_forward": _forward, "_backward": _backward}
        docs = (
            f"Returns {row.meaning}.{row.notes}",
            (f"Returns the gradient{'s' * (row.inputs > 1)} of `{row.name}`{row.backward}."),
        )
        calls = (
            f"_forward(row, reduction, ({given}), out)",
            f"_backward(row, grad, reduction, ({given}))",
        )
        for (name, signature), call, doc in zip(signatures(row), calls, docs, strict=True):
            found[name] = made(name, signature, call, __name__, doc, space)
    return found


# What a type checker reads stands in operators.pyi, which is made from the table as well.
_FUNCTIONS = _functions()
globals().update(_FUNCTIONS)
for _row in LOSSES:
    add(_row.name, _FUNCTIONS[_row.name], sample=_row.sample)
