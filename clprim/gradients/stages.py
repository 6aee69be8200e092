"""The kernels of a gradient: what each is given, what it makes, and how its strings are joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.gradients.arguments import is_array
from clprim.gradients.kernels import make
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.derive import Derivation
from clprim.plan.strides import broadcast_shapes, memory_order

#: dtypes of real operands.
REAL = {"float": np.float32, "double": np.float64}


@dataclass(frozen=True)
class Stage:
    """One kernel of a call.

    Attributes:
        operator: A `Pointwise`, a `Reduction` or a `Grouped`.
        operands: Names of what it is given: ``x0``, ``gy0``, ``w0``.
        options: ``shape=``, ``axis=``, ``keepdims=``, ``keep=``.
        results: Names of what it makes, and shapes; None for the shape that it has.
    """

    operator: Any
    operands: tuple[str, ...]
    options: Mapping[str, Any]
    results: tuple[tuple[str, tuple[int, ...] | None], ...]

    def run(self, values: dict[str, Any], out: Any = None) -> tuple[tuple[int, ...], ...]:
        """Launches the kernel on some of the values, and adds what it made to them.

        Args:
            values: By name.
            out: Where the result goes, if anywhere.

        Returns:
            The shapes that the operator gave its results.
        """
        taken = [values[name] for name in self.operands]
        into = {} if out is None else {"out": out}
        made = self.operator(*taken, **self.options, **into)
        made = made if isinstance(made, tuple) else (made,)
        for (name, shape), array in zip(self.results, made, strict=True):
            same = shape is None or array.shape == shape
            values[name] = array if same else array.reshape(shape)
        return tuple([array.shape for array in made])

    def source(self, values: Mapping[str, Any]) -> str:
        """The OpenCL C that it would run."""
        text: str = self.operator.source(*(values[n] for n in self.operands), **self.options)
        return text


@dataclass
class StageMaker:
    """Makes kernels of derived strings, each once.

    Attributes:
        saves: Results that are at hand.
    """

    saves: tuple[str, ...] = ()
    _operators: dict[Any, Any] = field(default_factory=dict)

    def stage(
        self,
        derivation: Derivation | HandWritten,
        values: Mapping[str, Any],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
        wrt: Sequence[str],
        written: Mapping[str, str] | None = None,
    ) -> Stage:
        """Returns the kernel that makes the gradients of some arguments.

        Args:
            derivation: Where their terms are.
            values: Arrays and numbers, by name.
            whole: The shape that arrays broadcast to.
            axes: Along which the gradients are summed; none for a map.
            wrt: Names of the arguments.
            written: What names that are no operands are called in a kernel: ``reduce_item``.
        """
        written = written or {}
        names = [f"g{name}" for name in wrt]
        used = derivation.uses(names, self.saves)
        arrays = [name for name in values if name in used and is_array(values[name])]
        if axes and not covers(whole, [values[name].shape for name in arrays]):
            # Some for their shape alone.
            arrays = [name for name in values if is_array(values[name])]
            arrays = [n for n in arrays if n[0] in "xg" or n in used]
        elif not axes and lies_otherwise(whole, values.get(wrt[0]), [values[n] for n in arrays]):
            arrays.insert(0, wrt[0])  # for its memory format alone
        scalars = [name for name in values if name in used and not is_array(values[name])]
        real = np.dtype(REAL[derivation.real])
        dtypes = tuple(values[n].dtype if is_array(values.get(n)) else real for n in wrt)
        shapes = [values[n].shape if is_array(values.get(n)) else () for n in wrt]
        key = (derivation, *arrays, None, *scalars, None, *names, bool(axes), *dtypes)
        key = (*key, *written.items())
        operator = self._operators.get(key)
        if operator is None:
            operator = self._operator(
                derivation, arrays, scalars, names, bool(axes), dtypes, written
            )
            self._operators[key] = operator
        options = {"axis": axes, "keepdims": True} if axes else {"shape": whole}
        results = tuple(zip(names, shapes, strict=True))
        return Stage(operator, (*arrays, *scalars), options, results)

    def _operator(
        self,
        derivation: Derivation | HandWritten,
        arrays: Sequence[str],
        scalars: Sequence[str],
        names: Sequence[str],
        summed: bool,
        dtypes: tuple[Any, ...],
        written: Mapping[str, str],
    ) -> Any:
        """Defines a kernel."""
        renamed = {name: f"x{n}" for n, name in enumerate(arrays)}
        renamed |= {name: f"w{n}" for n, name in enumerate(scalars)}
        renamed |= written
        results = [(f"y{n}", name) for n, name in enumerate(names)]
        text = derivation.snippet(results, lambda name: renamed.get(name, name), self.saves)
        used = {*derivation.uses(names, self.saves)}
        text = "".join(f"(void){renamed[name]};\n" for name in arrays if name not in used) + text
        options = {
            "preamble": derivation.helpers(names, self.saves),
            "result_type": dtypes,
            "name": "gradient",
        }
        if not summed:
            return make("Pointwise", text, **options)
        count = range(len(names))
        return make(
            "Reduction",
            text,
            init=" ".join(f"reduce_y{n} = 0;" for n in count),
            step=" ".join(f"reduce_y{n} += y{n};" for n in count),
            **options,
        )


def lies_otherwise(whole: tuple[int, ...], argument: Any, operands: Sequence[Any]) -> bool:
    """Whether a map of these operands would not have the memory format of its argument."""
    if not isinstance(argument, cl_array.Array) or any(a is argument for a in operands):
        return False
    if argument.shape != whole:
        return False
    known = [a for a in operands if isinstance(a, cl_array.Array) and a.shape == whole]
    order = memory_order(whole, [argument.strides])
    return order != memory_order(whole, [a.strides for a in known])


def covers(whole: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether arrays of these shapes broadcast to the whole one."""
    return bool(shapes) and broadcast_shapes("", list(shapes)) == whole
