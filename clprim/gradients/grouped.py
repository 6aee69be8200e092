"""The gradient of a `Grouped`: one kernel of the same kind, and sums of what was broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_once
from clprim.errors import ShapeError
from clprim.gradients.fused import GroupCall, GroupStages, inner_axes
from clprim.gradients.operator import OperatorGradient
from clprim.gradients.request import (
    Given,
    is_array,
    kind_of,
    not_derived,
    sum_axes,
)
from clprim.gradients.second import SecondGradient
from clprim.gradients.stages import GradientStage
from clprim.language.gradient.groups import Grouping, derive_groups
from clprim.language.grouped_definition import GroupedDefinition
from clprim.plan.strides import broadcast_shapes, broadcast_strides, reduced_axes


class GroupedGradient(OperatorGradient):
    """Gradients of a `Grouped` in its arguments; see `Grouped.gradient`.

    Printed, it is the derived strings: what is added up, what is computed once a group, and what
    every element takes.
    """

    _nothing = "nothing"

    def __init__(
        self, definition: GroupedDefinition, what: str, *, wrt: Any = None, saves: Any = ()
    ) -> None:
        self.definition = definition
        counts = (definition.inputs, definition.scalars, definition.results)
        known = [f"y{n}" for n in range(definition.results)]
        known += [f"group_y{n}" for n in range(definition.group_values)]
        super().__init__(counts, what, wrt, saves, known, "results and values are")
        if definition.mentions_complex:
            raise not_derived(self._what)
        self._derived = lru_cache(maxsize=64)(self._derive)
        self._stages = GroupStages(definition)
        self._definite()  # what cannot be derived is refused now

    def __str__(self) -> str:
        return self._stages.text(self._definite())

    def gradient(self, wrt: Any = None) -> SecondGradient:
        """Returns the gradient of this gradient.

        It is called with the arrays of the operator, the gradients that ``grad=`` held, and the
        scalars, and with its ``axis=``; ``grad=`` takes one gradient for each that this one
        returns. Where the former are left out, they are 1.
        """
        first = self
        if self._saves:  # what was saved depends on the arguments, too
            what = self._what.removeprefix("gradient of ")
            first = GroupedGradient(self.definition, what, wrt=self._wrt)
        wanted = first._wrt or first._names[: first._counts[0]]
        return SecondGradient(first, tuple(f"g{n}" for n in wanted), wrt)

    def reads(self, name: str, pairs: frozenset[str] = frozenset()) -> bool:
        """Whether the gradients depend on an argument, something saved or a gradient.

        Arguments in ``pairs`` are complex.
        """
        if pairs:
            raise not_derived(self._what)
        return self._stages.reads(self._definite(), name)

    def _definite(self) -> Grouping:
        """The derivation for float arrays."""
        inputs, _, results = self._counts
        ctypes = tuple((name, "float") for name in self._names)
        wrt = self._wrt or tuple(self._names[:inputs])
        return self._derived("float", ctypes, ("array",) * results, wrt, False, (), True)

    def _derive(
        self,
        real: str,
        ctypes: tuple[tuple[str, str], ...],
        kinds: tuple[str, ...],
        wrt: tuple[str, ...],
        ahead: bool,
        once: tuple[str, ...],
        lenient: bool = False,
    ) -> Grouping:
        saves = self._saves
        return derive_groups(
            self.definition, real, dict(ctypes), kinds, wrt, saves, ahead, once, lenient=lenient
        )

    def __call__(
        self, *args: Any, grad: Any = None, axis: Any = -1, saved: Any = (), out: Any = None
    ) -> Any:
        """Computes the gradients."""
        return self._run(*self._staged(args, grad, saved, axis, False), out)

    def source(self, *args: Any, grad: Any = None, axis: Any = -1, saved: Any = ()) -> str:
        """Returns the OpenCL C that these arguments run, stage by stage; all but the last run."""
        stages, _, values = self._staged(args, grad, saved, axis, False)
        return self._run_for_sources(stages, values)

    def strings(
        self, names: Mapping[str, str], once: Iterable[str] = (), real: str = "float"
    ) -> dict[str, Any]:
        """Returns the strings of one `Grouped` that computes the gradients, to add to them.

        Its results are the gradients of what differs within a group, in order; the first values of
        its groups are those of what is one value a group.
        """
        inputs, _, results = self._counts
        ctypes = tuple((name, real) for name in self._names)
        wrt, kinds = self._wrt or tuple(self._names[:inputs]), ("array",) * results
        grouping = self._derived(real, ctypes, kinds, wrt, False, tuple(sorted(once)))
        return self._stages.strings(grouping, names)

    def apart(
        self, args: tuple[Any, ...], grad: Any, axis: Any = -1
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], dict[str, Any]]:
        """The kernels of a call with sums and maps apart; see `_staged`."""
        return self._staged(args, grad, (), axis, True)

    def _values(
        self, arrays: Any, scalars: Any, grads: Any, extra: Any, count: int
    ) -> dict[str, Any]:
        values = super()._values(arrays, scalars, grads, extra, count)
        values["count"] = float(count)  # 1 / count is no whole number
        return values

    def _prepare(
        self, given: Given, extra: Sequence[Any], axis: Any, apart: bool
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], int]:
        """Checks a call and makes its kernels; see `_staged`."""
        if any(is_array(a) and a.dtype.kind == "c" for a in (*given.grads, *extra)):
            raise not_derived(self._what)
        what, wrt = self._what, self._asked(given)
        whole = broadcast_shapes(what, [a.shape for a in given.arrays])
        axes = reduced_axes(what, axis, len(whole))
        kept = tuple(1 if d in axes else size for d, size in enumerate(whole))
        self._check_shapes(given, extra, whole, kept, axes)
        count = math.prod(whole[d] for d in axes)
        values = self._values(given.arrays, given.scalars, given.grads, extra, max(1, count))
        once = {f"x{n}" for n in self.definition.finalized}
        if count > 1:
            long = {d for d in axes if whole[d] > 1}
            once |= {
                f"x{n}" for n, a in enumerate(given.arrays) if long <= {*sum_axes(a.shape, whole)}
            }
        summed: dict[str, tuple[int, ...]] = {}
        for name in wrt:
            shape = self._shape_of(name, given)
            of_group = name[0] == "w" or name in once
            summed[name] = sum_axes(shape, kept if of_group else whole)
        # Values of groups are wanted before a map of elements, or sums of parts of groups.
        along = [summed[n] for n in wrt if n[0] == "x" and n not in once]
        ahead = all(along)
        full = [values[n] for n in wrt if n[0] == "x" and n not in once and not summed[n]]
        strides = broadcast_strides(operand_of(full[0]), whole) if full else None
        repeated = [
            sum_axes(a.shape, whole) for n, a in enumerate(given.arrays) if f"x{n}" not in once
        ]
        inner = () if apart else inner_axes(whole, axes, [a for a in repeated if a], strides)
        ahead = ahead or apart or bool(inner)
        kinds = tuple(kind_of(g) for g in given.grads)
        grouping = self._derived(given.real, given.ctypes, kinds, wrt, ahead, tuple(sorted(once)))
        call = GroupCall(grouping, values, whole, axes, summed)
        stages = self._stages.made(call, inner, apart=apart)
        return tuple(stages), tuple(f"g{name}" for name in wrt), max(1, count)

    def _check_shapes(
        self,
        given: Given,
        extra: Sequence[Any],
        whole: tuple[int, ...],
        kept: tuple[int, ...],
        axes: tuple[int, ...],
    ) -> None:
        """Refuses gradients and saved arrays of other shapes than results and values have."""
        expected = [(f"grad= of y{n}", g, whole) for n, g in enumerate(given.grads)]
        for name, array in zip(self._saves, extra, strict=True):
            expected.append((f"saved= of {name}", array, whole if name[0] == "y" else kept))
        for label, array, shape in expected:
            if is_array(array) and array.shape != shape:
                raise ShapeError(f"{self._what}: {label} has shape {array.shape}, expected {shape}")
        shapes = [a.shape for a in given.arrays]
        check_once(self._what, self.definition.finalized, shapes, len(whole), axes)
