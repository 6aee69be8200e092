"""`Scan`: a kernel from strings that gives every partial result along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.arrays.memory import Described, operand_of
from clprim.call.arguments import (
    as_results,
    check_aliases,
    check_array,
    check_arrays,
    check_out,
    result_dtypes,
)
from clprim.call.call import Call, bind_strings
from clprim.call.door import flag
from clprim.call.partials import default_partials, default_results
from clprim.call.scalars import as_numbers, scalar_dtypes, split_arguments, weaken
from clprim.call.signature import Calls, outputs_of, told_apart
from clprim.errors import DTypeError, ShapeError, quoted, shorten, titled
from clprim.language.definition import ReductionDefinition, define_reduction
from clprim.language.segmented import segmented
from clprim.plan.scan.planner import ScanPlan, plan_scan
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
    normalize_axis,
)
from clprim.pointwise import Pointwise
from clprim.runtime.device import Device, current_device
from clprim.runtime.source_cache import source_of


@dataclass(frozen=True, slots=True)
class _Request:
    """What a user asked for in one call."""

    args: tuple[Any, ...]
    axis: Any
    exclusive: bool
    reverse: bool
    out: Any
    segments: Any


class Scan:
    """A kernel that takes elements along an axis one after another, and keeps what each step gives.

    It is a `Reduction` whose partial results on the way are the results: the same strings, with
    partials called ``scan_y0``, ….

    Args:
        expr: OpenCL C statements that compute ``y0``, ``y1``, … of one element from arrays ``x0``,
            … and run-time scalars ``w0``, ….
        init: Assigns ``scan_y0``, …: a *neutral* start, as every partial begins with it.
        step: Takes one element into ``scan_y0``, …. May use ``yN``, ``xN``, ``wN``, ``scan_item``
            (position along the axis), ``index``, ``coord(d)`` and ``size(d)``.
        combine: Merges ``other_y0``, …, the partial of *later* elements, into ``scan_y0``, …. It
            must be associative, and need not commute. Left out, it is derived from ``step`` where
            its form allows, as in a `Reduction`, and asked for otherwise.
        finalize: Assigns the results ``y0``, … from ``scan_yN``, ``xN``, ``wN`` and positions.
            Left out, the partials are the results.
        result_type: dtype of the results, or one for each. By default the promotion of arrays and
            scalars; as in NumPy, sums and products of integers shorter than 64 bits are int64 or
            uint64; positions are int64.
        partial_type: dtype of the partials, or one for each. By default that of their result, with
            float16 and bfloat16 as float32.
        preamble: OpenCL C functions, types and macros for the snippets.
        name: Of the kernel, in profiles.

    Raises:
        DefinitionError: A snippet is wrong, or ``combine`` cannot be derived; the message shows
            the line with a caret.

    Lines are cut in blocks, and blocks summed up by themselves first, so errors of sums grow with
    the length of a block and the number of blocks, and not with the length of the line.

    With ``segments=`` a scan begins anew wherever a key differs from the one before it, as Thrust's
    ``inclusive_scan_by_key`` does.

    Example:
        >>> import numpy as np, clprim as cp
        >>> scan = cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")
        >>> x = cp.asarray(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
        >>> scan(x).get()
        array([[ 1.,  3.,  6.],
               [ 4.,  9., 15.]], dtype=float32)
        >>> scan(x, axis=0, exclusive=True).get()
        array([[0., 0., 0.],
               [1., 2., 3.]], dtype=float32)
        >>> keys = cp.asarray(np.array([7, 7, 4]))
        >>> scan(x, segments=keys).get()
        array([[1., 3., 3.],
               [4., 9., 6.]], dtype=float32)
    """

    def __init__(
        self,
        expr: str,
        *,
        init: str,
        step: str,
        combine: str | None = None,
        finalize: str | None = None,
        result_type: Any = None,
        partial_type: Any = None,
        preamble: str = "",
        name: str | None = None,
    ) -> None:
        self.definition = define_reduction(
            expr,
            init=init,
            step=step,
            combine=combine,
            finalize=finalize,
            name=name,
            preamble=preamble,
            scan=True,
        )
        self._inputs = self.definition.inputs
        self._scalars = self.definition.scalars
        self._text = f"Scan {shorten(expr or step)!r}"
        self._what = titled(self._text, name)
        self._result_type = result_dtypes(self._what, result_type, self.definition.results)
        self._partial_type = result_dtypes(self._what, partial_type, self.definition.partials)
        self._calls: Calls[Call] = Calls()
        self._segmented: dict[bool, ReductionDefinition] = {}

    def __repr__(self) -> str:
        return f"<clprim.{self._text}>"

    def __call__(
        self,
        *args: Any,
        axis: int = -1,
        exclusive: bool = False,
        reverse: bool = False,
        segments: Any = None,
        out: Any = None,
    ) -> Array:
        """Computes every partial result along an axis.

        Args:
            args: The arrays x0, x1, …, which broadcast together, then the scalars w0, w1, ….
            axis: Along which axis; the last one by default.
            exclusive: Whether an element's result is what came before it: the first one's is the
                neutral start.
            reverse: Whether to begin at the end of the axis.
            segments: Keys, an array of any dtype that broadcasts to the inputs' shape: neighbours
                along the axis that have equal keys are a segment, and each is scanned by itself.
                A key that comes back begins another segment. ``scan_item`` counts on. Of flags that
                are 1 where segments begin, ``ops.cumsum`` makes such keys.
            out: An array (for several results a tuple of them) to write to. It may be an input.

        Returns:
            An array of the inputs' common shape, or a tuple of arrays; ``out`` where given.

        Raises:
            ShapeError: Wrong number of arguments, shapes that do not broadcast, an axis out of
                range, keys of another shape, ``out`` of another shape or overlapping an input in
                part.
            DTypeError: An argument that is no array or no number, a dtype the device lacks.
            DeviceError: An array of another context.
            BuildError: The OpenCL compiler refused a snippet.
        """
        device = current_device()
        args = as_numbers(args, self._inputs)
        arrays, scalars = args[: self._inputs], args[self._inputs :]
        outs = outputs_of(out)
        request = _Request(args, axis, exclusive, reverse, out, segments)
        if segments is not None:
            arrays = (*arrays, self._marks(device, request))
        options = (told_apart(axis, exclusive), told_apart(reverse), segments is None)
        call, signature = self._calls.look_up(device, arrays, outs, scalars, options)
        if call is None:
            call = self._prepare(device, request, arrays)
            self._calls.remember(signature, call)
        results = call.allocate(device) if out is None else outs
        try:
            call.run(device, (*results, *arrays), scalars)
        except DTypeError:
            self._prepare(device, request, arrays)  # says what is wrong with which number
            raise
        found: Any = results[0] if len(results) == 1 else results
        return found  # type: ignore[no-any-return] # several are a tuple of arrays

    def source(
        self,
        *args: Any,
        axis: int = -1,
        exclusive: bool = False,
        reverse: bool = False,
        segments: Any = None,
        out: Any = None,
    ) -> str:
        """Returns the OpenCL C that these arguments would run, without building it."""
        device, arrays = current_device(), args[: self._inputs]
        request = _Request(args, axis, exclusive, reverse, out, segments)
        if segments is not None:
            arrays = (*arrays, self._marks(device, request))
        plan, _ = self._plan(device, request, arrays)
        if plan is None:
            return "// no elements: nothing runs\n"
        return "\n".join(source_of(stage.template, stage.code) for stage in plan.stages)

    def _marks(self, device: Device, request: _Request) -> Array:
        """Where segments begin, as bool of the keys' shape."""
        what, keys = self._what, request.segments
        arrays, _ = split_arguments(what, request.args, self._inputs, self._scalars)
        for label, array in [*((f"x{n}", a) for n, a in enumerate(arrays)), ("segments", keys)]:
            check_array(what, label, array, device)
        shape = broadcast_shapes(what, [a.shape for a in arrays])
        fitting = zip(reversed(keys.shape), reversed(shape), strict=False)
        if keys.ndim > len(shape) or any(own not in (1, size) for own, size in fitting):
            raise ShapeError(
                f"{what}: segments has shape {keys.shape}, expected {shape} or one that "
                "broadcasts to it"
            )
        axis = self._axis(request.axis, len(shape)) - len(shape) + keys.ndim
        if axis < 0 or axis >= keys.ndim or keys.shape[axis] == 1:  # one key for a whole line
            return zeros((1,) * keys.ndim, bool)
        return _beginnings(keys.ndim, axis, bool(request.reverse))(keys)

    def _axis(self, axis: Any, ndim: int) -> int:
        if axis is None or isinstance(axis, tuple | list):
            raise ShapeError(f"{self._what}: axis={quoted(axis)}: a scan goes along one axis")
        # As in NumPy and PyTorch, a number by itself is a line of one element.
        return normalize_axis(self._what, axis, ndim or 1)

    def _segments(self, exclusive: bool) -> ReductionDefinition:
        """The definition that takes marks beside its arrays; see `segmented`."""
        if exclusive not in self._segmented:
            self._segmented[exclusive] = segmented(self.definition, exclusive=exclusive)
        return self._segmented[exclusive]

    def _prepare(self, device: Device, request: _Request, arrays: Sequence[Any]) -> Call:
        """Checks and plans a call of a new signature, and builds its kernels."""
        plan, results = self._plan(device, request, arrays)
        definition = self.definition
        if request.segments is not None:
            definition = self._segments(bool(request.exclusive))
        return bind_strings(device, self._what, definition, plan, results, len(arrays))

    def _plan(
        self, device: Device, request: _Request, marked: Sequence[Any]
    ) -> tuple[ScanPlan | None, tuple[Described, ...]]:
        what, definition = self._what, self.definition
        arrays, scalars = split_arguments(what, request.args, self._inputs, self._scalars)
        outs = None if request.out is None else as_results(what, request.out, definition.results)
        check_arrays(what, arrays, outs or (), device)
        inputs = [operand_of(a) for a in arrays]
        shape = broadcast_shapes(what, [a.shape for a in inputs])
        axis = self._axis(request.axis, len(shape))

        array_dtypes = [a.dtype for a in inputs]
        scalar_types = scalar_dtypes(what, scalars, array_dtypes)
        given = [*array_dtypes, *scalar_types]
        result_types = self._result_type or default_results(definition, given)
        if outs is not None:
            for n, (o, dtype) in enumerate(zip(outs, result_types, strict=True)):
                check_out(what, n, o, shape, dtype)
            check_aliases(what, outs, arrays)
            results = [operand_of(o) for o in outs]
        else:
            order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
            results = [
                Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in result_types
            ]
        partials = self._partial_type or default_partials(
            definition, given, [r.dtype for r in results]
        )
        everything = [*partials, *(r.dtype for r in results)]
        scalar_types = weaken(scalars, scalar_types, array_dtypes, everything, device.traits.fp64)
        dtypes.require_supported(
            [*array_dtypes, *scalar_types, *everything], device.traits, str(device)
        )
        described = tuple((r.shape, r.dtype, r.strides, r.size) for r in results)
        if not math.prod(shape):
            return None, described
        if request.segments is not None:
            definition = self._segments(bool(request.exclusive))
            inputs.append(operand_of(marked[-1]))
            partials = (*partials, np.dtype(np.int32))
        plan = plan_scan(
            definition,
            shape,
            axis,
            results,
            inputs,
            scalar_types,
            partials,
            exclusive=flag(what, "exclusive", request.exclusive),
            reverse=flag(what, "reverse", request.reverse),
            traits=device.traits,
        )
        return plan, described


@lru_cache(maxsize=64)
def _beginnings(ndim: int, axis: int, reverse: bool) -> Pointwise:
    """Where a key differs from the one that is scanned before it."""
    step, other = ("+ 1", f"size({axis}) - 1") if reverse else ("- 1", "0")
    before = ", ".join(f"coord({d}) {step if d == axis else ''}".strip() for d in range(ndim))
    text = f"y0 = coord({axis}) != {other} && x0 != at_x0({before});"
    return Pointwise(text, result_type=bool, name="segments")
