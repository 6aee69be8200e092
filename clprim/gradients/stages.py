"""The kernels of a gradient: what each is given, what it makes, and how its strings are joined."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl.array as cl_array

from clprim.dtypes import complex_dtype
from clprim.gradients.kernels import make
from clprim.gradients.request import is_array
from clprim.language.definition import ReductionDefinition
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.derive import Derivation
from clprim.plan.strides import broadcast_shapes, memory_order

#: dtypes of real operands.
REAL = {"float": np.float32, "double": np.float64}
#: A reduction that adds up.
SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}


@dataclass(frozen=True)
class GradientStage:
    """One kernel of a call."""

    operator: Any
    operands: tuple[str, ...]
    options: Mapping[str, Any]
    results: tuple[tuple[str, tuple[int, ...] | None], ...]

    def run(self, values: dict[str, Any], out: Any = None) -> tuple[tuple[int, ...], ...]:
        """Launches the kernel on some of the values, and adds what it made to them."""
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
    """Makes kernels of derived strings, each once."""

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
    ) -> GradientStage:
        """Returns the kernel that makes the gradients of some arguments."""
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
        part = np.dtype(REAL[derivation.real])
        dtypes = tuple(
            values[n].dtype
            if is_array(values.get(n))
            else complex_dtype(part)
            if isinstance(values.get(n), complex | np.complexfloating)
            else part
            for n in wrt
        )
        shapes = [values[n].shape if is_array(values.get(n)) else () for n in wrt]
        operator, operands = kernel_of(
            self._operators,
            (derivation, bool(axes), *dtypes, None, *written.items()),
            derivation,
            values,
            names,
            self.saves,
            arrays=arrays,
            written=written,
            summed=bool(axes),
            result_type=dtypes,
            name="gradient",
        )
        options = {"axis": axes, "keepdims": True} if axes else {"shape": whole}
        results = tuple(zip(names, shapes, strict=True))
        return GradientStage(operator, operands, options, results)

    def summed(
        self,
        derivation: Derivation | HandWritten,
        values: Mapping[str, Any],
        places: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
        written: Mapping[str, str] | None = None,
    ) -> list[GradientStage]:
        """Returns a kernel for all gradients of one shape that are summed along the same axes."""
        together: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
        for name, place in places.items():
            together.setdefault(place, []).append(name)
        return [
            self.stage(derivation, values, whole, axes, names, written)
            for (whole, axes), names in together.items()
        ]


def kernel_of(
    operators: dict[Any, Any],
    key: tuple[Any, ...],
    derivation: Derivation | HandWritten,
    values: Mapping[str, Any],
    names: Sequence[str],
    saves: tuple[str, ...] = (),
    *,
    arrays: Sequence[str] | None = None,
    written: Mapping[str, str] | None = None,
    summed: bool = False,
    **options: Any,
) -> tuple[Any, tuple[str, ...]]:
    """Returns the kernel of some terms, which is made once, and the names of what it is given."""
    used = {*derivation.uses(names, saves)}
    if arrays is None:
        arrays = [n for n in values if n in used and is_array(values[n])]
    scalars = [n for n in values if n in used and not is_array(values[n])]
    key = (*key, None, *names, None, *arrays, None, *scalars)
    if key not in operators:
        renamed = {n: f"x{k}" for k, n in enumerate(arrays)}
        renamed |= {n: f"w{k}" for k, n in enumerate(scalars)} | dict(written or {})
        results = [(f"y{k}", name) for k, name in enumerate(names)]
        text = derivation.snippet(results, lambda n: renamed.get(n, n), saves)
        text = "".join(f"(void){renamed[n]};\n" for n in arrays if n not in used) + text
        if summed:
            count = range(len(names))
            options["init"] = " ".join(f"reduce_y{n} = 0;" for n in count)
            options["step"] = " ".join(f"reduce_y{n} += y{n};" for n in count)
        kind = "Reduction" if "init" in options else "Pointwise"
        preamble = derivation.helpers(names, saves)
        operators[key] = make(kind, text, preamble=preamble, **options)
    return operators[key], (*arrays, *scalars)


def own_reduction(
    definition: ReductionDefinition,
    real: str,
    types: Sequence[Any] = (),
    pairs: Container[int] = (),
    *,
    whole: bool = False,
) -> Any:
    """Returns the operator of a definition with its partials, or results; ``pairs`` are complex."""
    finalize = definition.finalize if whole else None
    read = frozenset[str]().union(
        *(s.used for s in definition.snippets if s is not definition.finalize)
    )
    names = [f"x{n}" for n in range(definition.inputs)]
    names += [f"w{n}" for n in range(definition.scalars)]  # of which none may be left out
    part = np.dtype(REAL[real])
    numbers = [
        complex_dtype(part) if n in pairs else part
        for n in range(max(definition.partials, definition.results))
    ]
    partials = tuple(types) or tuple(
        np.dtype(np.int64) if n in definition.positions else numbers[n]
        for n in range(definition.partials)
    )
    return make(
        "Reduction",
        definition.expr.body + "".join(f" (void){n};" for n in names if n not in read),
        init=definition.init.text,
        step=definition.step.text,
        combine=definition.combine.text,
        finalize=None if finalize is None else finalize.text,
        result_type=tuple(numbers[: definition.results]) if whole else partials,
        preamble=definition.preamble,
        name="gradient_partials",
    )


@lru_cache(maxsize=1)
def addition() -> Any:
    """Returns the sum of two arrays."""
    return make("Pointwise", "y0 = x0 + x1;", name="gradient_sum")


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
