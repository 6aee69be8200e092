"""The cells of recurrent layers as strings, and their gradients, which are derived from these."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from clprim.ops.elementwise.table import ROWS
from clprim.ops.product.matmul import matmul
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise

#: Activations: a string, the defaults of its numbers, and what no one sets.
ACTIVATIONS: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    **{name: (ROWS[name].text(), (), ()) for name in ("sigmoid", "tanh", "relu", "softsign")},
    "affine": ("y0 = w0 * x0 + w1;", (1.0, 0.0), ()),
    "leakyrelu": (ROWS["leaky_relu"].text(), (0.01,), ()),
    "thresholdedrelu": (ROWS["threshold"].text(), (1.0,), (0.0,)),
    "scaledtanh": (f"x0 = w1 * x0; {ROWS['tanh'].text()} y0 = w0 * y0;", (1.0, 1.0), ()),
    "hardsigmoid": (ROWS["hardsigmoid.of"].text(), (0.2, 0.5), ()),
    "elu": (ROWS["elu"].text(), (1.0,), ()),
    "softplus": (ROWS["softplus"].text(), (), (1.0, math.inf)),
}
#: A string, and its numbers.
Function = tuple[str, tuple[float, ...]]


@dataclass(frozen=True)
class Cell:
    """A cell: its gates in the order that they lie in, and what steps make of them."""

    kind: str
    order: str
    functions: tuple[Function, ...]
    clip: float | None = None
    coupled: bool = False
    after: bool = True
    peepholes: bool = False

    @property
    def count(self) -> int:
        """How many gates there are."""
        return len(self.order)

    def gates(self, array: Any) -> list[Any]:
        """Returns each gate of (rows, gates × H)."""
        return columns(array, self.count)

    def step(
        self, given: Any, states: Sequence[Any], weight: Any, bias: Any, peepholes: Sequence[Any],
        product: Any, out: Any,
    ) -> None:  # fmt: skip
        """Runs a step, given the input's gates; a product of the state is left in ``product``."""
        h, *memory = states
        dtype = given.dtype
        if self.kind == "gru" and not self.after:
            part = dict(zip(self.order, self.gates(given), strict=True))
            size = h.shape[1]
            rows = {c: weight[n * size : (n + 1) * size] for n, c in enumerate(self.order)}
            r, z = (matmul(h, rows[letter], transpose_b=True) for letter in "rz")
            text = self._applied(0, "x0 + x1", "gate_r") + "y0 = gate_r * x2;"
            reset = kernel(text, "gru_reset", dtype)(part["r"], r, h)
            n = matmul(reset, rows["n"], transpose_b=True)
            text = f"""
                {self._applied(0, "x0 + x1", "gate_z")}
                {self._applied(1, "x2 + x3", "gate_n")}
                y0 = (1 - gate_z) * gate_n + gate_z * x4;"""
            kernel(text, "gru_cell", dtype)(part["z"], z, part["n"], n, h, out=out)
            return
        own = matmul(h, weight, transpose_b=True, bias=bias, out=product)
        more = {"lstm": memory, "gru": [h]}.get(self.kind, [])
        run = step_of(self, dtype)
        run(*self.gates(given), *self.gates(own), *more, *peepholes, out=out)

    def text(self) -> str:
        """Returns the step of the input's gates, the state's, and a memory or gru's state."""
        at = {letter: n for n, letter in enumerate(self.order)}
        both = {letter: f"x{n} + x{self.count + n}" for letter, n in at.items()}
        if self.kind == "gru":
            both["n"] = f"x{at['n']}"
        return self._made(both, f"x{self.count + at.get('n', 0)}", 2 * self.count)

    def text_of_sums(self) -> str:
        """Returns the step of sums of the gates, but of gru the new value's parts are apart."""
        sums = {letter: f"x{n}" for n, letter in enumerate(self.order)}
        return self._made(sums, "x3", 4)

    def _made(self, gates: dict[str, str], own: str, before: int) -> str:
        """Returns the step, of a state's part of gru's new value and where a state begins."""
        if self.kind == "rnn":
            return f"{self._applied(0, gates['n'], 'gate_n')} y0 = gate_n;"
        if self.kind == "gru":
            return f"""
                {self._applied(0, gates["r"], "gate_r")}
                {self._applied(0, gates["z"], "gate_z")}
                {self._applied(1, f"{gates['n']} + gate_r * {own}", "gate_n")}
                y0 = (1 - gate_z) * gate_n + gate_z * x{before};"""
        if self.peepholes:
            peeps = zip("iof", ("x{}", "y1", "x{}"), range(before + 1, before + 4), strict=True)
            for letter, state, n in peeps:
                gates[letter] += f" + x{n} * {state.format(before)}"
        forget = self._applied(0, gates["f"], "gate_f")
        if self.coupled:
            unused = re.findall(r"x\d+", gates["f"])
            forget = "".join(f"(void){x}; " for x in unused) + "typeof_y0 gate_f = 1 - gate_i;"
        return f"""
            {self._applied(0, gates["i"], "gate_i")}
            {forget}
            {self._applied(1, gates["g"], "gate_g")}
            y1 = gate_f * x{before} + gate_i * gate_g;
            {self._applied(0, gates["o"], "gate_o")}
            {self._applied(2, "y1", "shown")}
            y0 = gate_o * shown;"""

    def _applied(self, number: int, value: str, name: str) -> str:
        """Returns statements that declare an activation of a value by a name."""
        text, numbers = self.functions[number]
        for n, given in enumerate(numbers):
            written = "INFINITY" if math.isinf(given) else repr(given)
            text = re.sub(rf"\bw{n}\b", f"(typeof_y0){written}", text)
        if self.clip:
            bound = f"(typeof_y0){self.clip!r}"
            text = f"x0 = x0 < -{bound} ? -{bound} : x0 > {bound} ? {bound} : x0; {text}"
        text = re.sub(r"\bx0\b", f"of_{name}", re.sub(r"\by0\b", name, text))
        return f"typeof_y0 {name}; {{ typeof_y0 of_{name} = {value}; {text} }}"


def _of(kind: str, order: str, *names: str) -> Cell:
    return Cell(kind, order, tuple((ACTIVATIONS[name][0], ()) for name in names))


#: PyTorch's.
CELLS = {
    "lstm": _of("lstm", "ifgo", "sigmoid", "tanh", "tanh"),
    "gru": _of("gru", "rzn", "sigmoid", "tanh"),
    "tanh": _of("rnn", "n", "tanh"),
    "relu": _of("rnn", "n", "relu"),
}
#: Of plain layers.
PLAIN = [name for name, cell in CELLS.items() if cell.kind == "rnn"]
# PyTorch's, where that of the string is another.
_BY_HAND = {"relu": "gx0 = x0 + x1 <= 0 ? 0 : gy0;"}
# What gradients are wanted of. A gate of the input and of the state are added, but one of gru's.
_WANTED = {
    "lstm": ("x0", "x1", "x2", "x3", "x8"),
    "gru": ("x0", "x1", "x2", "x5", "x6"),
    "tanh": ("x0",),
    "relu": ("x0",),
}


def columns(array: Any, count: int) -> list[Any]:
    """Returns an array's columns in so many equal parts."""
    size = array.shape[1] // count
    return [array[:, n * size : (n + 1) * size] for n in range(count)]


@lru_cache(maxsize=128)
def step_of(cell: Cell, dtype: Any) -> Pointwise:
    """Returns the kernel of a step: from gates and the state before to the state."""
    return Pointwise(cell.text(), name=f"{cell.kind}_cell", result_type=dtype)


@lru_cache(maxsize=32)
def cell_gradient(kind: str, dtype: Any) -> Pointwise:
    """Returns the gradient of a step, as a kernel that writes where it is told to.

    Its arrays are those of the step, the gradient of the state from the step behind, that of the
    output, and with a memory that of it. It returns gradients of the gates of the input, then of
    the memory; of gru of the gates of the state as well, and of the state itself.
    """
    forward = Pointwise(CELLS[kind].text(), name=f"{kind}_cell", gradient=_BY_HAND.get(kind))
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
