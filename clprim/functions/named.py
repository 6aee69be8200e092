"""NumPy's functions that follow from the table of elements, or from what operators say of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.functions.masked import MASKED, reduced
from clprim.ops.elementwise.calls import computed
from clprim.ops.elementwise.row import Row
from clprim.ops.elementwise.table import ROWS
from clprim.ops.registry import OPERATORS
from clprim.ops.shared.made import made

# PyTorch's names of what NumPy's are taken for.
_OTHERS = ("dim", "keepdim")
_KINDS = {bool: "bool", int: "int", float: "float"}


def _compiled(name: str, text: str, **space: Any) -> Callable[..., Any]:
    space["__name__"] = __name__
    exec(text, space)
    function: Callable[..., Any] = space[name]
    return function


def _of_row(row: Row) -> Callable[..., Array]:
    """Compiles a function of elements."""
    name, given = row.numpy.split()[0], row.operands
    each = "" if "element" in row.meaning else ", of every element"
    compute = computed(row) if row.arithmetic or not row.shown else getattr(ops, row.name)
    call, doc = f"compute({given}, out=out)", f"Returns {row.meaning}{each}; ``out`` is where the"
    signature, space = f"({given}, /, *, out=None)", {"compute": compute}
    return made(name, signature, call, __name__, f"{doc} result goes.", space)


def _passed_on(operator: Callable[..., Any], parameters: str) -> tuple[Callable[..., Any], str]:
    """Compiles a function that passes on to an operator; returns it with its signature."""
    names, _, rest = parameters.partition("(")
    name, by_name = names.split()[0], inspect.Parameter.KEYWORD_ONLY
    if not rest:
        own = [p for p in inspect.signature(operator).parameters.values() if p.name not in _OTHERS]
        first = own[0].replace(kind=inspect.Parameter.POSITIONAL_ONLY)
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in (first, *own[1:])]
        rest = str(inspect.Signature(bare))[1:]
    _, join = MASKED.get(operator.__name__, (None, None))
    more = [] if operator.__name__ not in MASKED else ["where", *["initial"] * bool(join)]
    rest = f"{rest[:-1]}{''.join(f', {p}=None' for p in more)})"
    signature = inspect.signature(_compiled("f", f"def f({rest}: pass"))
    given = [
        p if v.kind is not by_name else f"{p}={p}"
        for p, v in signature.parameters.items()
        if p not in more
    ]
    text = f"def {name}({rest}:"
    if more:
        x, *others = signature.parameters
        options = "".join(f", {p}={p}" for p in others if p not in more)
        initial = "initial" if join else "None"
        text += f"""
    if {" or ".join(f"{p} is not None" for p in more)}:
        return reduced(operator, {x}, where, {initial}{options})"""
    text += f"\n    return operator({', '.join(given)})"
    function = _compiled(name, text, operator=operator, reduced=reduced)
    first = str(inspect.getdoc(operator)).partition("\n\n")[0]
    function.__doc__ = f"{first}\n\nPasses on to `clprim.ops.{operator.__name__}`."
    typed = [
        p.replace(annotation="Any" if p.name == "axis" else _KINDS.get(type(p.default), "Any"))
        for p in signature.parameters.values()
    ]
    returned = inspect.unwrap(operator).__annotations__["return"]
    function.__annotations__ = {p.name: p.annotation for p in typed} | {"return": returned}
    shown = signature.replace(parameters=typed)
    return function, f"{re.sub(chr(39), '', str(shown))} -> {returned}"


def _functions() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yields names, functions, and signatures for type checkers."""
    for row in ROWS.values():
        if row.numpy:
            function = _of_row(row)
            typed = f"({row.operands.replace(',', ': Any,')}: Any, /, *, out: Any = None) -> Array"
            yield from ((name, function, typed) for name in row.numpy.split())
    for name, facts in OPERATORS.items():
        if facts.numpy:
            function, typed = _passed_on(getattr(ops, name), facts.numpy)
            for other in facts.numpy.partition("(")[0].split():
                yield other, function, typed


# What a type checker reads stands in named.pyi, which is made from the same.
SIGNATURES: dict[str, str] = {}
for _name, _function, _typed in _functions():
    globals()[_name] = _function
    SIGNATURES[_name] = _typed
