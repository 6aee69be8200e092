"""The gradient of a `Reduction`'s or a `Grouped`'s gradient: its kernels, walked backwards.

A gradient is a list of kernels, each a `Pointwise` or a `Reduction` that has a gradient itself.
They run once more, and then every one hands the gradients of its results to its operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clprim.arrays.creation import full, zeros
from clprim.errors import DefinitionError, DTypeError, ShapeError
from clprim.gradients.request import (
    as_names,
    as_tuple,
    is_array,
    is_floating,
    read_arguments,
)
from clprim.gradients.stages import REAL, GradientStage, addition
from clprim.runtime.device import current_device

if TYPE_CHECKING:
    from clprim.gradients.grouped import GroupedGradient
    from clprim.gradients.reduction import ReductionGradient


@dataclass(frozen=True)
class _Step:
    """A kernel that ran: what it took, and the shapes of what it made."""

    stage: GradientStage
    taken: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]


class SecondGradient:
    """Gradients of a gradient; see `ReductionGradient.gradient`."""

    def __init__(
        self, first: ReductionGradient | GroupedGradient, names: tuple[str, ...], wrt: Any
    ) -> None:
        self._first, self._names = first, names
        self._what = f"gradient of {first._what}"
        self._counts = first._counts
        inputs, scalars, results = self._counts
        self._wrt = as_names(self._what, wrt, inputs + results, scalars)
        self._gradients: dict[tuple[Any, tuple[str, ...]], Any] = {}

    def __repr__(self) -> str:
        return f"<clprim.{self._what}>"

    def __str__(self) -> str:
        return f"// the kernels of these strings, backwards\n{self._first}"

    def __call__(self, *args: Any, grad: Any = None, **how: Any) -> Any:
        """Computes the gradients; ``axis=`` and ``keepdims=`` are those of the operator's call."""
        return self._run(args, grad, how, None)

    def source(self, *args: Any, grad: Any = None, **how: Any) -> str:
        """Returns the OpenCL C that these arguments run, kernel by kernel."""
        texts: list[str] = []
        self._run(args, grad, how, texts)
        return "\n".join(texts)

    def gradient(self, wrt: Any = None) -> Any:
        """Refuses a third derivative."""
        del wrt
        raise DefinitionError(f"{self._what}: a third derivative is not known")

    def _run(
        self, args: tuple[Any, ...], grad: Any, how: dict[str, Any], texts: list[str] | None
    ) -> Any:
        inputs, scalars, results = self._counts
        plain = len(args) == inputs + scalars
        first_grads = (1.0,) * results if plain else args[inputs : inputs + results]
        given = read_arguments(
            self._what,
            args,
            (inputs if plain else inputs + results, scalars, len(self._names)),
            grad,
            current_device(),
        )
        wanted = self._wanted(given.arrays)
        handed = first_grads if results > 1 else first_grads[0]
        stages, order, values = self._first.apart(
            (*given.arrays[:inputs], *given.scalars), handed, **how
        )
        named = {f"x{inputs + n}": f"gy{n}" for n in range(results)}
        wrt = tuple(named.get(name, name) for name in wanted)
        steps = []
        for stage in stages:
            taken = tuple(values[name] for name in stage.operands)
            if texts is not None:
                texts.append(stage.source(values))
            steps.append(_Step(stage, taken, stage.run(values)))
        start = {
            name: self._started(name, values[name], g)
            for name, g in zip(order, given.grads, strict=True)
            if g is not None
        }
        found = self._backwards(steps, start, {*wrt}, texts)
        made = []
        for name, own in zip(wrt, wanted, strict=True):
            argument = given.arrays[int(own[1:])] if own[0] == "x" else None
            shape = () if argument is None else argument.shape
            dtype = np.dtype(REAL[given.real]) if argument is None else argument.dtype
            result = found.get(name)
            made.append(zeros(shape, dtype) if result is None else _as_shape(result, shape))
        return made[0] if len(made) == 1 else tuple(made)

    def _wanted(self, arrays: tuple[Any, ...]) -> tuple[str, ...]:
        """Names of the arguments that gradients are of."""
        if self._wrt is None:
            found = tuple(f"x{n}" for n, a in enumerate(arrays) if is_floating(a.dtype))
            if not found:
                raise DTypeError(f"{self._what}: no argument is an array of a floating dtype")
            return found
        for name in self._wrt:
            if name[0] == "x" and int(name[1:]) >= len(arrays):
                raise ShapeError(f"{self._what}: wrt= names {name}, which is left out of the call")
            if name[0] == "x" and not is_floating(arrays[int(name[1:])].dtype):
                dtype = arrays[int(name[1:])].dtype
                raise DTypeError(f"{self._what}: {name} is {dtype}, which has no gradient")
        return self._wrt

    def _started(self, name: str, result: Any, grad: Any) -> Any:
        """The gradient of a result of the first gradient, as an array."""
        if not is_array(grad):
            return full(result.shape, grad, result.dtype)
        if grad.shape != result.shape:
            raise ShapeError(
                f"{self._what}: grad= of {name} has shape {grad.shape}, expected {result.shape}"
            )
        return grad

    def _backwards(
        self,
        steps: list[_Step],
        grads: dict[str, Any],
        wrt: set[str],
        texts: list[str] | None,
    ) -> Mapping[str, Any]:
        """Hands gradients from the last kernel to the first; returns those of all names."""
        live = set(wrt)
        passing: list[tuple[str, ...]] = []
        for step in steps:
            active = tuple(name for name in dict.fromkeys(step.stage.operands) if name in live)
            passing.append(active)
            results = {name for name, _ in step.stage.results}
            live = live | results if active else live - results
        for step, active in zip(reversed(steps), reversed(passing), strict=True):
            own = [grads.pop(name, None) for name, _ in step.stage.results]
            if not active or all(g is None for g in own):
                continue
            for name, part in self._step(step, active, own, texts).items():
                old = grads.get(name)
                grads[name] = part if old is None else addition()(old, _as_shape(part, old.shape))
        return grads

    def _step(
        self, step: _Step, active: tuple[str, ...], own: list[Any], texts: list[str] | None
    ) -> dict[str, Any]:
        """The gradients of a kernel's operands."""
        operator = step.stage.operator
        arrays = operator.definition.inputs
        places = [step.stage.operands.index(name) for name in active]
        wrt = tuple(f"x{k}" if k < arrays else f"w{k - arrays}" for k in places)
        gradient = self._gradients.get((operator, wrt))
        if gradient is None:
            gradient = self._gradients[operator, wrt] = operator.gradient(wrt)
        shaped = [
            None if g is None else _as_shape(g, shape)
            for g, shape in zip(own, step.shapes, strict=True)
        ]
        grad = tuple(shaped) if len(shaped) > 1 else shaped[0]
        options = {k: v for k, v in step.stage.options.items() if k != "shape"}
        if texts is not None:
            texts.append(gradient.source(*step.taken, grad=grad, **options))
        found = as_tuple(gradient(*step.taken, grad=grad, **options))
        return dict(zip(active, found, strict=True))


def _as_shape(array: Any, shape: tuple[int, ...]) -> Any:
    """An array as it is where it has the shape: its memory format stays."""
    return array if array.shape == shape else array.reshape(shape)
