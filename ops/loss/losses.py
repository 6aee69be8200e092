"""The functions that follow from the table of losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from clprim.ops.gradients.vjp import vjp
from clprim.ops.loss.table import LOSSES, LossRow
from clprim.ops.registry import add
from clprim.ops.shared.made import made


def _forward(row: LossRow, reduction: str, given: tuple[Any, ...], out: Any) -> Any:
    loss, arrays, numbers = row.chosen(row.name, *given)
    return loss(reduction, arrays, numbers, out=out)


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
        space = {"row": row, "_forward": _forward}
        call, doc = (
            f"_forward(row, reduction, ({given}), out)",
            f"Returns {row.meaning}.{row.notes}",
        )
        (name, signature), (backward, _) = signatures(row)
        found[name] = made(name, signature, call, __name__, doc, space)
        found[backward] = vjp(found[name], " ".join(row.arrays[: row.inputs]), row.backward)
    return found


# What a type checker reads stands in losses.pyi, which is made from the table as well.
_FUNCTIONS = _functions()
globals().update(_FUNCTIONS)
for _row in LOSSES:
    _facts = {"torch": _row.torch, "autocast": "float32", "sample": _row.sample}
    add(_row.name, _FUNCTIONS[_row.name], **_facts)
