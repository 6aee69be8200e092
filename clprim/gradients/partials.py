"""The kernels of a `Reduction`'s gradient before and behind its map of elements.

Partials are computed again where the map needs them, and what results hand on to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.gradients.kernels import make
from clprim.gradients.request import Standing, is_array, sum_axes
from clprim.gradients.stages import (
    REAL,
    GradientStage,
    StageMaker,
    addition,
    kernel_of,
    own_reduction,
)
from clprim.language.complex_numbers import ComplexOperands
from clprim.language.definition import ReductionDefinition
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.complex_run import ComplexDerivation
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.fold import Folded

_TIES = {
    "max": (
        "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
        "reduce_y1 = y0 > reduce_y0 ? 1 : y0 == reduce_y0 ? reduce_y1 + 1 : reduce_y1; "
        "reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;",
        "reduce_y1 = other_y0 > reduce_y0 ? other_y1 : "
        "other_y0 == reduce_y0 ? reduce_y1 + other_y1 : reduce_y1; "
        "reduce_y0 = other_y0 > reduce_y0 ? other_y0 : reduce_y0;",
    ),
}
_TIES["min"] = tuple(  # type: ignore[assignment]
    text.replace(">", "<").replace("lowest", "highest") for text in _TIES["max"]
)
_PRODUCT = (
    "reduce_y0 = 1; reduce_y1 = 0; reduce_y2 = 0;",
    "reduce_y0 *= y0 == 0 ? (typeof_y0)1 : y0; reduce_y1 += y0 == 0 ? (typeof_y0)1 : 0; "
    "reduce_y2 += y0 == 0 ? y0 : 0;",
    None,
)


class PartialStages:
    """Makes these kernels, each once."""

    def __init__(
        self,
        definition: ReductionDefinition,
        saves: tuple[str, ...],
        partial_types: Sequence[Any] | None,
        maker: StageMaker,
    ) -> None:
        self.definition = definition
        self._saves = saves
        self._counts = (definition.inputs, definition.scalars, definition.results)
        self._partial_types = partial_types
        self._maker = maker
        self._operators: dict[Any, Any] = {}

    def before(
        self,
        folded: Folded,
        values: dict[str, Any],
        kept: tuple[int, ...],
        axes: tuple[int, ...],
        real: str,
        pairs: ComplexOperands,
    ) -> list[GradientStage]:
        """The kernels before the map: partials, ties, zeros, and what results hand on.

        What they will make stands in for itself among the values, for its shape and dtype.
        """
        stages: list[GradientStage] = []
        dtype = np.dtype(REAL[real])
        standing = Standing(kept, dtype)
        names = {*folded.elements.uses(list(folded.elements.gradients), self._saves)}
        names |= {*folded.outputs.uses(list(folded.outputs.gradients), self._saves)}
        options = {"axis": axes, "keepdims": True}
        made: set[str] = set()
        every = [f"x{n}" for n in range(self._counts[0])]
        every += [f"w{n}" for n in range(self._counts[1])]
        for name in folded.taken.gradients:
            n = int(name[1:])
            kind = folded.kept[n].kind
            texts = _PRODUCT if kind == "product" else _TIES[kind]
            families = ("rest", "zeros", "nulls") if kind == "product" else ("reduce_y", "ties")
            operator, operands = self._folding(folded, values, name, texts, dtype)
            made_here = tuple((f"{family}{n}", None) for family in families)
            stages.append(GradientStage(operator, operands, options, made_here))
            made |= {result for result, _ in made_here}
        wanted = sorted(n for n in names if n.startswith("reduce_y") and n not in made)
        if wanted:
            operator = self._partials(real, pairs)
            results = tuple(f"reduce_y{n}" for n in range(self.definition.partials))
            shown = tuple((r if r not in made else f"again_{r}", None) for r in results)
            stages.append(GradientStage(operator, tuple(every), options, shown))
            made |= {*results}
        fresh = [f"y{n}" for n in range(self._counts[2])]
        if any(name in names and name not in self._saves for name in fresh):
            shown = tuple((f"again_{r}" if r in self._saves else r, None) for r in fresh)
            operator = self._partials(real, pairs, whole=True)
            stages.append(GradientStage(operator, tuple(every), options, shown))
            made |= {name for name in fresh if name not in self._saves}
        values |= dict.fromkeys(sorted(made), standing)  # the text must not depend on hashes
        handed = [name for name in folded.outputs.gradients if name[0] != "g"]
        if handed:
            stages.append(self._handing(folded, values, handed, kept, dtype))
            values |= dict.fromkeys(handed, standing)
        return stages

    def near(
        self,
        folded: Folded,
        values: Mapping[str, Any],
        whole: tuple[int, ...],
        axes: tuple[int, ...],
        wrt: Sequence[str],
    ) -> GradientStage | None:
        """One kernel for all: a `Grouped`, which finds the elements in a near cache again."""
        outputs, elements, own = folded.outputs, folded.elements, self.definition
        if isinstance(elements, HandWritten | ComplexDerivation):
            return None
        if folded.late or folded.taken.gradients:
            return None
        real = np.dtype(REAL[elements.real])
        if own.positions or any(t != real for t in self._partial_types or ()):
            return None
        arguments = [values[name] for name in wrt]
        if any(not is_array(a) or sum_axes(a.shape, whole) for a in arguments):
            return None
        handed = [name for name in outputs.gradients if name[0] != "g"]
        names = [f"g{name}" for name in wrt]
        mapped = elements.uses(names, self._saves)
        used = {*mapped, *outputs.uses(handed, self._saves)}
        again = [name for name in mapped if name.startswith("reduce_y")]
        if not any(name.startswith("reduce_y") for name in used):
            return None
        if any(name == "reduce_item" or name[0] == "y" for name in used):
            return None
        arrays = [f"x{n}" for n in range(self._counts[0])]
        arrays += [n for n in values if n in used and n not in arrays and is_array(values[n])]
        scalars = [f"w{n}" for n in range(self._counts[1])]
        scalars += [
            n for n in values if n in mapped and n not in scalars and not is_array(values[n])
        ]
        scalars += [n for n in values if n in used and n[:2] == "gy" and n not in scalars + arrays]
        key = (folded, "near", *names, None, *arrays, None, *scalars, *(a.dtype for a in arguments))
        if key not in self._operators:
            kept = {name: f"group_y{k}" for k, name in enumerate([*handed, *again])}
            strings = self._near(folded, names, arrays, scalars, kept, used)
            dtypes = tuple(a.dtype for a in arguments)
            types: dict[str, Any] = {"result_type": dtypes, "partial_type": real}
            self._operators[key] = make("Grouped", **strings, **types, name="gradient")
        shown = tuple((name, a.shape) for name, a in zip(names, arguments, strict=True))
        operands = (*arrays, *scalars)
        return GradientStage(self._operators[key], operands, {"axis": axes}, shown)

    def _near(
        self,
        folded: Folded,
        names: Sequence[str],
        arrays: Sequence[str],
        scalars: Sequence[str],
        kept: Mapping[str, str],
        used: set[str],
    ) -> dict[str, Any]:
        """The strings of that kernel, of whose groups these values are kept."""
        outputs, elements, own = folded.outputs, folded.elements, self.definition
        assert isinstance(elements, Derivation)
        written = {n: f"x{k}" for k, n in enumerate(arrays)}
        written |= {n: f"w{k}" for k, n in enumerate(scalars)}
        handed = [name for name in kept if name in outputs.gradients]
        finalize = "".join(f"{kept[n]} = {n};\n" for n in kept if n not in outputs.gradients)
        if handed:
            once, results = written | {"count": "count"}, [(kept[name], name) for name in handed]
            real = f"typeof_{kept[handed[0]]}"
            finalize += outputs.snippet(results, lambda n: once.get(n, n), self._saves, real)
        results = [(f"y{n}", name) for n, name in enumerate(names)]
        each = elements.snippet(results, lambda n: (written | dict(kept)).get(n, n), self._saves)
        read = used.union(*(s.used for s in (own.expr, own.init, own.step, own.combine)))
        both = replace(elements, gradients={**outputs.gradients, **elements.gradients})
        return {
            "expr": own.expr.body,
            "init": own.init.text,
            "step": own.step.text,
            "combine": own.combine.text,
            "finalize": finalize,
            "each": "".join(f"(void){n};\n" for m, n in written.items() if m not in read) + each,
            "preamble": both.helpers([*handed, *names], self._saves),
        }

    def _folding(
        self,
        folded: Folded,
        values: Mapping[str, Any],
        name: str,
        texts: Sequence[str | None],
        dtype: Any,
    ) -> tuple[Any, tuple[str, ...]]:
        """A reduction of what a partial takes of every element, by other strings."""
        used = folded.taken.uses([name])
        arrays = [n for n in values if n in used and is_array(values[n])]
        for n in values:  # for the shape alone
            if n[0] == "x" and is_array(values[n]) and n not in arrays:
                arrays.append(n)
        init, step, combine = texts
        return kernel_of(
            self._operators,
            (folded, "taken"),
            folded.taken,
            values,
            [name],
            arrays=arrays,
            init=init,
            step=step,
            combine=combine,
            result_type=dtype,
            name="gradient_partials",
        )

    def _partials(self, real: str, pairs: ComplexOperands, *, whole: bool = False) -> Any:
        """The operator itself, with what makes results of its partials, or without."""
        key = (real, pairs, whole)
        if key not in self._operators:
            types = self._partial_types or ()
            own = self.definition, real, types, pairs.results if whole else pairs.partials
            self._operators[key] = own_reduction(*own, whole=whole)
        return self._operators[key]

    def _handing(
        self,
        folded: Folded,
        values: Mapping[str, Any],
        names: Sequence[str],
        kept: tuple[int, ...],
        dtype: Any,
    ) -> GradientStage:
        """The map of results."""
        made = (self._operators, (folded, "outputs"), folded.outputs, values, names, self._saves)
        operator, operands = kernel_of(*made, result_type=dtype, name="gradient_results")
        shown = tuple((name, None) for name in names)
        return GradientStage(operator, operands, {"shape": kept}, shown)

    def late(
        self, folded: Folded, values: Mapping[str, Any], kept: tuple[int, ...]
    ) -> list[GradientStage]:
        """Adds to gradients what ``finalize`` has to do with their arguments.

        Every ``gyN`` among the values is an array.
        """
        stages: list[GradientStage] = []
        alone = folded.late_alone
        for name in folded.late:
            shape = values[name].shape if is_array(values[name]) else ()
            axes = sum_axes(shape, kept)
            stage = self._maker.stage(folded.outputs, values, kept, axes, [name])
            if name in alone:
                stages.append(stage)
                continue
            stages.append(replace(stage, results=((f"late_{name}", shape),)))
            operands = (f"g{name}", f"late_{name}")
            stages.append(GradientStage(addition(), operands, {}, ((f"g{name}", shape),)))
        return stages
