"""What the gradients of all operators share: what they are asked for, and how a call begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from clprim.call.scalars import as_numbers
from clprim.call.signature import Calls, told_apart
from clprim.dtypes import complex_dtype, real_dtype
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.gradients.request import (
    Given,
    as_names,
    as_tuple,
    asked_of,
    given_names,
    is_array,
    is_smooth,
    kind_of,
    read_arguments,
)
from clprim.gradients.stages import GradientStage
from clprim.language.gradient.by_hand import HandWritten
from clprim.runtime.device import current_device


class OperatorGradient(ABC):
    """Gradients of an operator in its arguments."""

    complex_numbers = False  # whether it has gradients of them
    _nothing = "no results"  # what ``saved=`` holds where nothing is saved

    def __init__(
        self,
        counts: tuple[int, int, int],
        what: str,
        wrt: Any,
        saves: Any,
        known: Sequence[str],
        meaning: str = "the results are",
    ) -> None:
        self._what = f"gradient of {what}"
        self._counts = counts
        self._names = [f"x{n}" for n in range(counts[0])] + [f"w{n}" for n in range(counts[1])]
        self._wrt = as_names(self._what, wrt, *counts[:2])
        self._saves = given_names(saves)
        for name in self._saves:
            if not isinstance(name, str) or name not in known:
                raise DefinitionError(f"{self._what}: saves={quoted(saves)}; {meaning} {known}")
        self._hand: HandWritten | None = None
        self._calls: Calls[tuple[tuple[GradientStage, ...], tuple[str, ...], Any]] = Calls()

    def __repr__(self) -> str:
        return f"<clprim.{self._what}>"

    @abstractmethod
    def _prepare(
        self, given: Given, extra: Sequence[Any], *options: Any
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], Any]:
        """Checks a call and makes its kernels."""

    def _values(
        self, arrays: Any, scalars: Any, grads: Any, extra: Any, kept: Any
    ) -> dict[str, Any]:
        """The arguments of a call by name."""
        del kept  # what is reduced has sizes of its own
        values = {f"x{n}": a for n, a in enumerate(arrays)}
        values |= {f"w{n}": w for n, w in enumerate(scalars)}
        values |= {f"gy{n}": g for n, g in enumerate(grads)}
        return values | dict(zip(self._saves, extra, strict=True))

    def _staged(
        self, args: tuple[Any, ...], grad: Any, saved: Any, *options: Any
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], dict[str, Any]]:
        """The kernels of a call, made for a new signature, and its arguments by name."""
        device = current_device()
        args = tuple(as_numbers(args, self._counts[0]))
        grads, extra = as_tuple(grad), as_tuple(saved)
        arrays, scalars = args[: self._counts[0]], args[self._counts[0] :]
        kinds = tuple([kind_of(g) for g in grads])
        operands = (*arrays, *extra, *[g for g in grads if is_array(g)])
        told = (kinds, *map(told_apart, options))
        found, signature = self._calls.look_up(device, operands, (), scalars, told)
        if found is None:
            paired = self.complex_numbers
            given = read_arguments(
                self._what, args, self._counts, grad, device, extra, paired=paired
            )
            if len(extra) != len(self._saves):
                raise ShapeError(
                    f"{self._what}: saved= holds {len(extra)} arrays, expected those of "
                    f"{', '.join(self._saves) or self._nothing}"
                )
            found = self._prepare(given, extra, *options)
            self._calls.remember(signature, found)
        stages, order, kept = found
        return stages, order, self._values(arrays, scalars, grads, extra, kept)

    def _asked(self, given: Given) -> tuple[str, ...]:
        """Names of what the gradients of a call are of."""
        if self._wrt is not None:
            return self._wrt
        floating = [f"x{n}" for n, a in enumerate(given.arrays) if is_smooth(a.dtype)]
        wrt = asked_of(self._hand, floating)
        if not wrt:
            raise DTypeError(f"{self._what}: no argument is an array of a floating dtype")
        return wrt

    def _shape_of(self, name: str, given: Given) -> tuple[int, ...]:
        """The shape of an argument that has a gradient."""
        if name[0] == "w":
            return ()
        array = given.arrays[int(name[1:])]
        if not is_smooth(array.dtype):
            raise DTypeError(f"{self._what}: {name} is {array.dtype}, which has no gradient")
        return tuple(array.shape)

    def _run(
        self,
        stages: tuple[GradientStage, ...],
        order: tuple[str, ...],
        values: dict[str, Any],
        out: Any,
    ) -> Any:
        """Runs the kernels; the last one may have a place where its result goes."""
        if out is not None and (len(order) > 1 or "keepdims" in stages[-1].options):
            raise ShapeError(f"{self._what}: out= is for one gradient, of what is not summed")
        for stage in stages:
            stage.run(values, out if stage is stages[-1] else None)
        results = tuple([values[name] for name in order])
        return results[0] if len(results) == 1 else results

    def _check_pairs(self, given: Given, pairs: frozenset[int]) -> None:
        """Refuses a gradient of a complex result that is not, and the other way round."""
        for n, g in enumerate(given.grads):
            if is_array(g) and (g.dtype.kind == "c") is not (n in pairs):
                other = complex_dtype if n in pairs else real_dtype
                raise DTypeError(
                    f"{self._what}: grad= of y{n} is {g.dtype}, expected {other(g.dtype)}"
                )

    @staticmethod
    def _run_for_sources(stages: tuple[GradientStage, ...], values: dict[str, Any]) -> str:
        """The OpenCL C of kernels one after another; all but the last run, for what they make."""
        texts = []
        for stage in stages:
            texts.append(stage.source(values))
            stage.run(values)
        return "\n".join(texts)
