"""The gradient of a `Reduction`: partials once more where needed, then a map of the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.creation import full
from clprim.arrays.validation import flag
from clprim.call.arguments import check_once
from clprim.errors import ShapeError
from clprim.gradients.operator import OperatorGradient
from clprim.gradients.partials import PartialStages
from clprim.gradients.request import (
    Given,
    as_names,
    asked_of,
    is_array,
    kind_of,
    sum_axes,
)
from clprim.gradients.second import SecondGradient
from clprim.gradients.stages import REAL, GradientStage, StageMaker
from clprim.language.complex_numbers import ComplexOperands, complex_operands
from clprim.language.definition import ReductionDefinition
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.complex_run import pairs_in
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.fold import Folded, derive_reduction
from clprim.language.gradient.terms import Terms
from clprim.plan.strides import broadcast_shapes, reduced_axes


class ReductionGradient(OperatorGradient):
    """Gradients of a `Reduction` in its arrays; see `Reduction.gradient`.

    Printed, it is the derived strings: what every result hands on, and what every element takes.
    """

    def __init__(
        self,
        definition: ReductionDefinition,
        what: str,
        *,
        wrt: Any = None,
        saves: Sequence[str] = (),
        partial_types: Sequence[Any] | None = None,
        result_types: Sequence[Any] | None = None,
        by_hand: str | None = None,
    ) -> None:
        self.definition = definition
        self._result_types = result_types
        counts = (definition.inputs, definition.scalars, definition.results)
        known = [f"y{n}" for n in range(definition.results)]
        super().__init__(counts, what, wrt, saves, known)
        self._partial_types = partial_types
        self._maker = StageMaker(self._saves)
        self._derived = lru_cache(maxsize=64)(self._derive)
        self._partial_stages = PartialStages(definition, self._saves, partial_types, self._maker)
        if by_hand is not None:
            self._hand = HandWritten("Reduction", by_hand, None, definition.preamble)
            names = tuple(name[1:] for name in self._hand.gradients)
            as_names(f"{self._what} by hand", names, *self._counts[:2])
        self._definite()  # what cannot be derived is refused now

    def __str__(self) -> str:
        if self._hand is not None:
            return self._hand.text
        folded, names = self._definite()
        parts = []
        for title, derivation, wanted in (
            ("// of every result", folded.outputs, list(folded.outputs.gradients)),
            ("// of every element", folded.elements, list(names)),
        ):
            results = [(name, name) for name in wanted]
            if results:
                real = f"typeof_{wanted[0]}"
                text = derivation.snippet(results, saves=self._saves, real_name=real)
                parts.append(f"{title}\n{derivation.helpers(wanted, self._saves)}{text}")
        return "\n".join(parts)

    def gradient(self, wrt: Any = None) -> SecondGradient:
        """Returns the gradient of this gradient.

        It is called with the arrays of the operator, the gradients that ``grad=`` held, and the
        scalars; ``grad=`` takes one gradient for each that this one returns. Where the former are
        left out, they are 1.
        """
        first = self
        if self._saves:  # what was saved depends on the arguments, too
            first = ReductionGradient(
                self.definition,
                self._what.removeprefix("gradient of "),
                wrt=self._wrt,
                partial_types=self._partial_types,
                result_types=self._result_types,
                by_hand=None if self._hand is None else self._hand.text,
            )
        return SecondGradient(first, first._definite()[1], wrt)

    def _definite(self) -> tuple[Folded, tuple[str, ...]]:
        """The derivation for float arrays, and the gradients in order."""
        inputs, _, results = self._counts
        wrt = self._wrt or asked_of(self._hand, self._names[:inputs])
        pairs = pairs_in(self.definition.expr) | pairs_in(self.definition.step)
        ctypes = tuple((name, "float2" if name in pairs else "float") for name in self._names)
        folded = self._derived("float", ctypes, ("array",) * results, wrt, True)
        return folded, tuple(f"g{n}" for n in wrt)

    @property
    def reduces(self) -> bool:
        """Whether the operator's own reduction runs once more."""
        folded, names = self._definite()
        used = folded.elements.uses(names, self._saves)
        used += folded.outputs.uses([*folded.outputs.gradients], self._saves)
        return any(n.startswith("reduce_y") or (n[0] == "y" and n not in self._saves) for n in used)

    def _derive(
        self,
        real: str,
        ctypes: tuple[tuple[str, str], ...],
        kinds: tuple[str, ...],
        wrt: tuple[str, ...],
        lenient: bool = False,
    ) -> Folded:
        definition = self.definition
        if self._hand is not None:
            self._hand.require(wrt)
            nothing = Derivation(Terms(real), {}, {}, {}, definition.expr.preamble)
            return Folded([], nothing, self._hand.typed(real, kinds), nothing)
        pairs = self._pairs(ctypes)
        return derive_reduction(
            definition, real, dict(ctypes), kinds, wrt, lenient=lenient, pairs=pairs
        )

    def _pairs(self, ctypes: Sequence[tuple[str, str]]) -> ComplexOperands:
        """Which values, partials and results are complex."""
        own = self.definition
        found = complex_operands(own, tuple(kind for _, kind in ctypes))
        named = pairs_in(own.expr)
        values = found.values | {n for n in range(own.values) if f"y{n}" in named}
        results, partials = found.results, found.partials | _of_pairs(self._partial_types)
        if self._result_types is not None:
            results = _of_pairs(self._result_types)
        if own.finalize is None:
            partials = results = partials | results
        return ComplexOperands(values, partials, results)

    @property
    def complex_numbers(self) -> bool:  # type: ignore[override]
        """See `OperatorGradient`: none by hand."""
        return self._hand is None

    def __call__(
        self,
        *args: Any,
        grad: Any = None,
        axis: Any = None,
        keepdims: bool = False,
        saved: Any = (),
    ) -> Any:
        """Computes the gradients."""
        return self._run(*self._staged(args, grad, saved, axis, keepdims, False), None)

    def source(
        self,
        *args: Any,
        grad: Any = None,
        axis: Any = None,
        keepdims: bool = False,
        saved: Any = (),
    ) -> str:
        """Returns the OpenCL C that these arguments run, stage by stage; all but the last run."""
        stages, _, values = self._staged(args, grad, saved, axis, keepdims, False)
        return self._run_for_sources(stages, values)

    def apart(
        self, args: tuple[Any, ...], grad: Any, axis: Any = None, keepdims: bool = False
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], dict[str, Any]]:
        """The kernels of a call, each of which has a gradient; see `_staged`."""
        return self._staged(args, grad, (), axis, keepdims, True)

    def _values(
        self,
        arrays: Any,
        scalars: Any,
        grads: Any,
        extra: Any,
        spread: tuple[tuple[int, ...], Any],
    ) -> dict[str, Any]:
        """Arguments by name; what has the shape of results gets reduced axes of size 1."""
        kept, dtype = spread
        values = {f"x{n}": a for n, a in enumerate(arrays)}
        values |= {f"w{n}": w for n, w in enumerate(scalars)}
        of_results = {f"gy{n}": g for n, g in enumerate(grads)}
        of_results |= dict(zip(self._saves, extra, strict=True))
        for name, value in of_results.items():
            whole = is_array(value) and value.shape != kept
            values[name] = value.reshape(kept) if whole else value
            if dtype is not None and value is not None and not is_array(value):
                values[name] = full(kept, value, dtype)
        shape = broadcast_shapes(self._what, [a.shape for a in arrays])
        values["count"] = max(1, math.prod(shape)) // max(1, math.prod(kept))
        return values

    def _prepare(
        self, given: Given, extra: Sequence[Any], axis: Any, keepdims: bool, apart: bool
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], tuple[tuple[int, ...], Any]]:
        what, wrt = self._what, self._asked(given)
        pairs = self._pairs(given.ctypes)
        self._check_pairs(given, pairs.results)
        whole = broadcast_shapes(what, [a.shape for a in given.arrays])
        axes = reduced_axes(what, axis, len(whole))
        shapes = [a.shape for a in given.arrays]
        check_once(what, self.definition.finalized, shapes, len(whole), axes)
        kept = tuple(1 if d in axes else size for d, size in enumerate(whole))
        keepdims = flag(what, "keepdims", keepdims)
        shape = kept if keepdims else tuple(s for d, s in enumerate(whole) if d not in axes)
        labels = [f"grad= of y{n}" for n in range(len(given.grads))]
        labels += [f"saved= of {name}" for name in self._saves]
        for label, value in zip(labels, (*given.grads, *extra), strict=True):
            if is_array(value) and value.shape != shape:
                raise ShapeError(
                    f"{what}: {label} has shape {value.shape}, expected {shape}, the result's"
                )
        kinds = tuple(kind_of(g) for g in given.grads)
        folded = self._derived(given.real, given.ctypes, kinds, wrt)
        spread = kept, REAL[given.real] if folded.late else None
        values = self._values(given.arrays, given.scalars, given.grads, extra, spread)
        order = tuple(f"g{name}" for name in wrt)
        if not apart:
            near = self._partial_stages.near(folded, values, whole, axes, wrt)
            if near is not None:
                return (near,), order, spread
        stages = self._partial_stages.before(folded, values, kept, axes, given.real, pairs)
        places = {
            name: (whole, sum_axes(self._shape_of(name, given), whole))
            for name in wrt
            if name not in folded.late_alone
        }
        written = {"reduce_item": _position(axes)}
        stages += self._maker.summed(folded.elements, values, places, written)
        if folded.late:
            stages += self._partial_stages.late(folded, values, kept)
        return tuple(stages), order, spread


def _of_pairs(types: Sequence[Any] | None) -> frozenset[int]:
    return frozenset(n for n, dtype in enumerate(types or ()) if dtype.kind == "c")


def _position(axes: tuple[int, ...]) -> str:
    """The position in the reduced space, of coordinates."""
    text = "0"
    for axis in axes:
        text = f"coord({axis})" if text == "0" else f"({text}) * size({axis}) + coord({axis})"
    return f"({text})"
