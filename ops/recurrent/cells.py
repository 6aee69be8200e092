"""The cells of recurrent layers as strings, and their gradients, which are derived from these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.ops.elementwise.formulas import sigmoid_of
from clprim.ops.elementwise.table import ROWS
from clprim.primitives.pointwise import Pointwise

#: How many gates a cell has.
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
# Of the sums of the gates, as torch.nn orders them, then of what is kept: lstm's memory; of gru the
# state's part of the new value, and the state.
_LSTM = f"""
    {sigmoid_of("{0}", "i")} {sigmoid_of("{1}", "f")} {sigmoid_of("{3}", "o")}
    y1 = f * {{4}} + i * tanh({{2}});
    y0 = o * tanh(y1);
"""
_GRU = f"""
    {sigmoid_of("{0}", "r")} {sigmoid_of("{1}", "z")}
    y0 = (1 - z) * tanh({{2}} + r * {{3}}) + z * {{4}};
"""
#: Cells of which sums of gates are given.
OF_SUMS = {kind: text.format(*(f"x{n}" for n in range(5))) for kind, text in
           (("lstm", _LSTM), ("gru", _GRU))}  # fmt: skip
# Gates of the input first, then those of the state, then the state.
_CELLS = {
    "lstm": _LSTM.format("x0 + x4", "x1 + x5", "x2 + x6", "x3 + x7", "x8"),
    "gru": _GRU.format("x0 + x3", "x1 + x4", "x2", "x5", "x6"),
    "tanh": "y0 = tanh(x0 + x1);",
    "relu": "typeof_y0 sum = x0 + x1; " + ROWS["relu"].text().replace("x0", "sum"),
}
# PyTorch's, where that of the string is another.
_BY_HAND = {"relu": "gx0 = x0 + x1 <= 0 ? 0 : gy0;"}
# What gradients are wanted of. A gate of the input and of the state are added, but one of gru's.
_WANTED = {
    "lstm": ("x0", "x1", "x2", "x3", "x8"),
    "gru": ("x0", "x1", "x2", "x5", "x6"),
    "tanh": ("x0",),
    "relu": ("x0",),
}


@lru_cache(maxsize=32)
def cell(kind: str, dtype: Any) -> Pointwise:
    """Returns the kernel of a step: from gates and the state before to the state."""
    return Pointwise(_CELLS[kind], name=f"{kind}_cell", result_type=dtype)


@lru_cache(maxsize=32)
def cell_gradient(kind: str, dtype: Any) -> Pointwise:
    """Returns the gradient of a step, as a kernel that writes where it is told to.

    Its arrays are those of the step, the gradient of the state from the step behind, that of the
    output, and with a memory that of it. It returns gradients of the gates of the input, then of
    the memory; of gru of the gates of the state as well, and of the state itself.
    """
    forward = Pointwise(_CELLS[kind], name=f"{kind}_cell", gradient=_BY_HAND.get(kind))
    inputs = forward.definition.inputs
    text = str(forward.gradient(_WANTED[kind]))
    text = re.sub(r"\by(\d)\b", r"state\1", text)  # results that it computes again
    text = re.sub(r"\bgy0\b", f"(x{inputs} + x{inputs + 1})", text)
    text = re.sub(r"\bgy1\b", f"x{inputs + 2}", text)
    for n, name in enumerate(_WANTED[kind]):
        text = re.sub(rf"\b(typeof_)?g{name}\b", rf"\g<1>y{n}", text)
    mention = "".join(f"(void)x{n};\n" for n in range(inputs))
    if kind == "gru":
        text += "\ny5 = y0; y6 = y1;"
    return Pointwise(mention + text, name=f"{kind}_cell_gradient", result_type=dtype)


def step_back(
    kind: str,
    gates: Sequence[Any],
    states: Sequence[Any],
    above: Sequence[Any],
    given: Sequence[Any],
    own: Sequence[Any],
    direct: Any,
) -> None:
    """Runs the gradient of a step."""
    outs = list(given)
    if kind == "lstm":
        outs.append(direct)
    elif kind == "gru":
        r, z, new = own
        outs += [new, direct, r, z]
    kernel = cell_gradient(kind, given[0].dtype)
    kernel(*gates, *states, *above, out=tuple(outs) if len(outs) > 1 else outs[0])
