"""The kernels of a `Reduction`'s gradient before and behind its map of elements.

Partials are computed again where the map needs them, and what results hand on to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.gradients.arguments import Standing, is_array, sum_axes
from clprim.gradients.kernels import make
from clprim.gradients.stages import REAL, GradientStage, StageMaker, kernel_of
from clprim.language.definition import ReductionDefinition
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
            operator = self._partials(real)
            operands = tuple(f"x{n}" for n in range(self._counts[0]))
            operands += tuple(f"w{n}" for n in range(self._counts[1]))
            results = tuple(f"reduce_y{n}" for n in range(self.definition.partials))
            shown = tuple((r if r not in made else f"again_{r}", None) for r in results)
            stages.append(GradientStage(operator, operands, options, shown))
            made |= {*results}
        fresh = [f"y{n}" for n in range(self._counts[2])]
        if any(name in names and name not in self._saves for name in fresh):
            operands = tuple(f"x{n}" for n in range(self._counts[0]))
            operands += tuple(f"w{n}" for n in range(self._counts[1]))
            shown = tuple((f"again_{r}" if r in self._saves else r, None) for r in fresh)
            stages.append(GradientStage(self._partials(real, whole=True), operands, options, shown))
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
        if not isinstance(elements, Derivation) or folded.late or folded.taken.gradients:
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
        operator = self._operators.get(key)
        if operator is None:
            written = {n: f"x{k}" for k, n in enumerate(arrays)}
            written |= {n: f"w{k}" for k, n in enumerate(scalars)}
            kept = {name: f"group_y{k}" for k, name in enumerate([*handed, *again])}
            once = written | {"count": "count"}
            finalize = "".join(f"{kept[name]} = {name};\n" for name in again)
            if handed:
                results = [(kept[name], name) for name in handed]
                finalize += outputs.snippet(
                    results, lambda n: once.get(n, n), self._saves, f"typeof_{kept[handed[0]]}"
                )
            both = {**outputs.gradients, **elements.gradients}
            whole_text = replace(elements, gradients=both)
            each = elements.snippet(
                [(f"y{n}", name) for n, name in enumerate(names)],
                lambda n: (written | kept).get(n, n),
                self._saves,
            )
            texts = (own.expr, own.init, own.step, own.combine)
            read = frozenset[str]().union(*(s.used for s in texts)) | used
            each = (
                "".join(f"(void){n};\n" for name, n in written.items() if name not in read) + each
            )
            operator = self._operators[key] = make(
                "Grouped",
                own.expr.body,
                init=own.init.text,
                step=own.step.text,
                combine=own.combine.text,
                finalize=finalize,
                each=each,
                result_type=tuple(a.dtype for a in arguments),
                partial_type=real,
                preamble=whole_text.helpers([*handed, *names], self._saves),
                name="gradient",
            )
        shown = tuple((name, a.shape) for name, a in zip(names, arguments, strict=True))
        return GradientStage(operator, (*arrays, *scalars), {"axis": axes}, shown)

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

    def _partials(self, real: str, *, whole: bool = False) -> Any:
        """The operator itself, with what makes results of its partials, or without."""
        operator = self._operators.get((real, whole))
        if operator is None:
            definition = self.definition
            dtypes = [
                np.dtype(np.int64) if n in definition.positions else np.dtype(REAL[real])
                for n in range(definition.partials)
            ]
            operator = self._operators[real, whole] = make(
                "Reduction",
                definition.expr.body + self._mentions(),
                init=definition.init.text,
                step=definition.step.text,
                combine=definition.combine.text,
                finalize=definition.finalize.text if whole and definition.finalize else None,
                result_type=np.dtype(REAL[real]) if whole else tuple(self._partial_types or dtypes),
                preamble=definition.preamble,
                name="gradient_partials",
            )
        return operator

    def _mentions(self) -> str:
        """Mentions arguments that only ``finalize`` uses: none may be left out."""
        parts = (s for s in self.definition.snippets if s is not self.definition.finalize)
        used = frozenset[str]().union(*(s.used for s in parts))
        names = [f"x{n}" for n in range(self._counts[0])]
        names += [f"w{n}" for n in range(self._counts[1])]
        return "".join(f" (void){name};" for name in names if name not in used)

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
            stages.append(GradientStage(self._add(), operands, {}, ((f"g{name}", shape),)))
        return stages

    def _add(self) -> Any:
        """The sum of two arrays."""
        if "add" not in self._operators:
            self._operators["add"] = make("Pointwise", "y0 = x0 + x1;")
        return self._operators["add"]
