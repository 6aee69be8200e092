"""The primitive of an inverted residual: three convolutions as one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clprim.arrays.formats import order_like
from clprim.call.arguments import check_array
from clprim.call.forms import register_form
from clprim.call.primitive import NoPlanError, Primitive, Request, Target
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.conv.operands import (
    Shape4,
    bias_place,
    check_shapes,
    place_of,
    placed,
    result_of,
)
from clprim.ops.conv.problem import FORWARD
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.epilogue import check_epilogue
from clprim.ops.shared.window import Numbers, axes, numbers
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.problem import Axis, Convolution
from clprim.plan.depthwise.problem import depthwise_of
from clprim.plan.epilogue import Epilogue, Read
from clprim.plan.fused.family import RESIDUALS
from clprim.plan.fused.residual_tiles import InvertedResidual
from clprim.plan.kernel import Plan
from clprim.plan.place import Place
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.block import NAME, Settings
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits

ADD = "y0 = y0 + x0;"
# Of a core's own cache: weights that are there again for the next rows, beside what these take.
_NEAR = 1 / 8
_WHAT = NAME
_ALGORITHMS = ("fused", "separate")


@dataclass(frozen=True)
class _Problem:
    """What a call computes."""

    settings: Settings
    x: Operand
    weights: tuple[Operand | None, Operand, Operand | None]
    biases: tuple[Operand | None, ...]
    place: Place
    result: Operand
    middle: Shape4
    after: Shape4
    found: tuple[Axis, ...]
    added: bool
    stages: _Stages
    read: Epilogue[Read]


def adds(x: Sequence[int], y: Sequence[int], stride: Numbers) -> bool:
    """Whether a block can add its input to its result, by their shapes."""
    steps = numbers(_WHAT, "stride", stride, 2, 1)
    return tuple(x) == tuple(y) and set(steps) == {1}


def _arrays(
    settings: Settings, given: Sequence[Any]
) -> tuple[Any, tuple[Any, Any, Any], tuple[Any, ...]]:
    """Returns the input, weights and biases of a call."""
    there = iter(given)
    x = next(there)
    expand, taps = next(there) if settings.expands else None, next(there)
    weights = expand, taps, next(there) if settings.projects else None
    return x, weights, tuple(next(there) if bias else None for bias in settings[1:4])


class _Block(Primitive):
    """Three convolutions as one kernel."""

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Settings,
    ) -> None:
        """See `Primitive.check`."""
        del numbers
        if options.algorithm not in ("auto", *_ALGORITHMS):
            raise DefinitionError(
                f"{_WHAT}: algorithm={quoted(options.algorithm)}: expected 'auto' or one of "
                f"{', '.join(_ALGORITHMS)}"
            )
        if options.b_expand and not options.expands:
            raise ShapeError(f"{_WHAT}: b_expand= without w_expand, which it is added to")
        x, weights, biases = _arrays(options, arrays)
        labels = ("expand", "depthwise", "project")
        named = {"x": x, **{f"w_{n}": w for n, w in zip(labels, weights, strict=True)}}
        named |= {f"b_{n}": b for n, b in zip(labels, biases, strict=True)}
        for label, array in named.items():
            if array is not None:
                check_array(_WHAT, label, array, device)
        for array in outs:
            check_array(_WHAT, "out=", array, device)

    def problem(self, request: Request, target: Target) -> _Problem:
        """See `Primitive.problem`."""
        told: Settings = request.options
        x, weights, biases = _arrays(told, request.operands)
        out = request.outs[0] if request.outs else None
        expand, taps, project = weights
        every = {"w_expand": expand, "w_depthwise": taps, "w_project": project}
        named = {name: w for name, w in every.items() if w is not None}
        check_operands(_WHAT, target, x=x, **named)
        for name, w in named.items():
            if w.ndim != 4 or (name != "w_depthwise" and w.shape[2:] != (1, 1)):
                form = "(M, 1, KH, KW)" if name == "w_depthwise" else "(O, C, 1, 1)"
                raise ShapeError(f"{_WHAT}: {name} has shape {w.shape}, expected {form}")
        if expand is not None:
            check_shapes(f"{_WHAT}, w_expand", x.shape, expand.shape, 1)
        middle = (x.shape[0], x.shape[1] if expand is None else expand.shape[0], *x.shape[2:])
        check_shapes(f"{_WHAT}, w_depthwise", middle, taps.shape, middle[1])
        if taps.shape[0] != middle[1]:
            raise ShapeError(
                f"{_WHAT}: w_depthwise of shape {taps.shape}, expected one kernel for each of "
                f"{middle[1]} channels"
            )
        steps = told.stride, told.padding, told.dilation
        found = axes(_WHAT, x.shape[2:], taps.shape[2:], *steps)
        after = (*middle[:2], *(axis.windows for axis in found))
        shape = after
        if project is not None:
            check_shapes(f"{_WHAT}, w_project", after, project.shape, 1)
            shape = (after[0], project.shape[0], *after[2:])
        same = adds(x.shape, shape, told.stride)
        if told.residual and not same:
            raise ShapeError(
                f"{_WHAT}: residual=True adds x of shape {x.shape} to a result of shape {shape} "
                f"with stride={quoted(told.stride)}; expected the same shape, and a stride of 1"
            )
        added = same if told.residual is None else bool(told.residual)

        stages = _Stages(target, told.activations)
        dtype = x.dtype
        if expand is not None:
            dtype = stages.stage("b_expand", dtype, expand, biases[0], middle)
        dtype = stages.stage("b_depthwise", dtype, taps, biases[1], after)
        if project is not None:
            dtype = stages.stage("b_project", dtype, project, biases[2], shape, last=True)
        text, extras = told.epilogue, request.operands[len(request.operands) - told.extras :]
        if text is None:
            text, extras = (ADD, (x,)) if added else (None, ())
        read = check_epilogue(_WHAT, target, text, extras, shape, stages.values[-1])
        kept = [a for a in (x, *weights, *biases, *extras) if a is not None]
        check_result(_WHAT, out, target, shape, dtype, inputs=kept, extras=(), beta=0)
        place, result = result_of("y", out, shape, dtype, order_like(x))
        middles = middle, after
        return _Problem(
            told, x, weights, biases, place, result, *middles, found, added, stages, read
        )

    def outputs(self, problem: _Problem) -> tuple[Operand, ...]:
        """The only result."""
        return (problem.result,)

    def names(self, problem: _Problem) -> Sequence[str]:
        """The result, then what is read; the input comes again as what is added."""
        told = problem.settings
        names = ["y0", "x", *(["w_expand"] if told.expands else []), "w_depthwise"]
        names += ["w_project"] if told.projects else []
        parts = ("expand_bias", "taps_bias", "bias")
        names += [n for n, bias in zip(parts, told[1:4], strict=True) if bias]
        return [*names, *(f"x{n}" for n in range(told.extras))]

    def snippets(self, problem: _Problem) -> Mapping[str, str]:
        """The activations."""
        return {k: v for a in problem.stages.activations for k, v in a.texts.items()}

    def plan(self, problem: _Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        x, stages = problem.x, problem.stages
        algorithm = problem.settings.algorithm
        if algorithm == "separate" or not problem.result.size or not math.prod(problem.middle):
            raise NoPlanError
        if algorithm == "auto" and not _pays(problem, traits):
            raise NoPlanError
        # Of the middle, which is nowhere.
        somewhere = any(a.arrays or a.sizes for a in stages.activations)
        fused = None
        if len(set(stages.values)) == 1 and not somewhere:
            fused = RESIDUALS.ruled(_block(problem), traits)
        if fused is not None:
            return fused
        if algorithm == "fused":
            raise DefinitionError(
                f"{_WHAT}: algorithm='fused' needs rows of x without gaps between them, one dtype "
                f"of sums, and {traits.local_memory:,} bytes of local memory to hold some rows of "
                f"{problem.middle[1]} channels; got x of shape {x.shape}, strides {x.strides}, and "
                f"sums of {', '.join(map(str, stages.values))}"
            )
        raise NoPlanError


def _pays(problem: _Problem, traits: DeviceTraits) -> bool:
    """Whether one kernel takes less time, on CPUs, than those that it stands for."""
    x, (expand, _, project) = problem.x, problem.weights
    itemsize = x.dtype.itemsize
    if not traits.is_cpu or expand is None or x.strides[1] != itemsize:
        return False  # planes, and what comes first, would be copied
    caches = (traits.cores or traits.compute_units) * traits.l2_bytes
    if project is None and math.prod(problem.middle) * itemsize <= caches:
        return False  # what lies between stays near
    weights = sum(w.size for w in problem.weights if w is not None)
    return weights * itemsize <= _NEAR * traits.l2_bytes


BLOCK = _Block(_WHAT)
register_form(_WHAT, lambda: BLOCK, Settings)


def _block(problem: _Problem) -> InvertedResidual:
    """Returns the three convolutions."""
    x, (expand, taps, project), stages = problem.x, problem.weights, problem.stages
    value = stages.values[-1]
    wide, narrow = (_never_there(size, value) for size in (problem.middle, problem.after))
    pixels = axes(_WHAT, x.shape[2:], (1, 1), 1, 0, 1)
    last = axes(_WHAT, problem.after[2:], (1, 1), 1, 0, 1)

    def product(
        source: Place, w: Operand, along: tuple[Axis, ...], result: Place, n: int
    ) -> Convolution:
        """The convolution number ``n``; the last one is the third."""
        images, channels, outputs = x.shape[0], w.shape[1], w.shape[0]
        first = 0 if expand is not None else 1
        return Convolution(
            name=FORWARD,
            direction="forward",
            images=images,
            channels=outputs if n == 1 else channels,
            outputs=outputs,
            groups=outputs if n == 1 else 1,
            rows=along[0],
            columns=along[1],
            value=value,
            x=source,
            w=place_of("w", w),
            y=result,
            epilogue=placed(
                problem.read if n == 2 else stages.activations[n - first],
                stages.biases[n - first],
                problem.result.shape,
            ),
        )

    first = place_of("x", x)
    source = first if expand is None else wide
    end = problem.place if project is None else narrow
    planes = depthwise_of(product(source, taps, problem.found, end, 1))
    assert planes is not None  # a channel each
    return InvertedResidual(
        None if expand is None else forward(product(first, expand, pixels, wide, 0)),
        planes,
        None if project is None else forward(product(narrow, project, last, problem.place, 2)),
    )


class _Stages:
    """Collects what the three convolutions calculate with."""

    def __init__(self, target: Target, activations: tuple[str | None, str | None]) -> None:
        self._target = target
        self._texts = activations
        self.values: list[AnyDType] = []
        self.biases: list[list[Place]] = []
        self.activations: list[Epilogue[Read]] = []

    def stage(
        self,
        bias_name: str,
        dtype: AnyDType,
        w: Any,
        bias: Any,
        shape: Shape4,
        *,
        last: bool = False,
    ) -> AnyDType:
        """Checks one convolution, whose input has a dtype, and returns its result's dtype."""
        result, value = product_dtypes(_WHAT, self._target, dtype, w.dtype)
        self.values.append(value)
        self.biases.append(bias_place(f"{_WHAT}, {bias_name}", self._target, bias, shape, value))
        if not last:
            text = self._texts[bias_name == "b_depthwise"]
            found = check_epilogue(f"{_WHAT}, activation", self._target, text, (), shape, value)
            self.activations.append(found)
        return result


def _never_there(shape: Shape4, dtype: AnyDType) -> Place:
    """A tensor of channels-last images between two convolutions."""
    strides = dense_strides(shape, dtype.itemsize, (0, 2, 3, 1))
    return Place.of("y", Operand(shape, strides, 0, dtype), shape)
