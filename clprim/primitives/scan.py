"""`Scan`: a kernel from strings that gives every partial result along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.arrays.validation import flag
from clprim.call.arguments import check_aliases, check_array, check_out, result_dtypes
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target, run, sources
from clprim.call.scalars import check_count, scalar_dtypes, weaken
from clprim.call.signature import outputs_of, told_apart
from clprim.errors import ShapeError, quoted
from clprim.language.definition import ReductionDefinition, define_reduction, texts
from clprim.language.segmented import segmented
from clprim.options import current_options
from clprim.plan.scan.family import SCANS
from clprim.plan.scan.planner import Scanned
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
    normalize_axis,
)
from clprim.primitives.partials import default_partials, default_results
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.strings import Tabled
from clprim.runtime.device import Device, current_device


class Options(NamedTuple):
    """What a call is told beside arrays and numbers."""

    axis: Any
    exclusive: Any
    reverse: Any
    marked: bool


class Scan(Tabled):
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

    family = SCANS
    complex_numbers = True

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
        definition = define_reduction(
            expr,
            init=init,
            step=step,
            combine=combine,
            finalize=finalize,
            name=name,
            preamble=preamble,
            scan=True,
        )
        super().__init__(expr or step, name, definition)
        self._result_type = result_dtypes(self.what, result_type, definition.results)
        self._partial_type = result_dtypes(self.what, partial_type, definition.partials)
        self._segmented: dict[bool, ReductionDefinition] = {}

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
        arrays, numbers, options = self._told(args, axis, exclusive, reverse, segments)
        tune = current_options().tune
        key = (told_apart(axis, exclusive), told_apart(reverse), options.marked, tune)
        found: Any = run(self, arrays, numbers, outputs_of(out), options, key)
        return found[0] if len(found) == 1 else found  # type: ignore[no-any-return] # or a tuple

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
        arrays, numbers, options = self._told(args, axis, exclusive, reverse, segments)
        return sources(self, arrays, numbers, outputs_of(out), options)

    def _told(
        self, args: tuple[Any, ...], axis: Any, exclusive: Any, reverse: Any, segments: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], Options]:
        """Returns arrays, numbers and options of a call."""
        arrays, numbers = args[: self.inputs], args[self.inputs :]
        if segments is not None:
            check_count(self.what, len(args), self.inputs, self.scalars)
            arrays = (*arrays, self._marks(arrays, axis, bool(reverse), segments))
        return arrays, numbers, Options(axis, exclusive, reverse, segments is not None)

    def _marks(self, arrays: Sequence[Any], axis: Any, reverse: bool, keys: Any) -> Array:
        """Where segments begin, as bool of the keys' shape."""
        what, device = self.what, current_device()
        for label, array in [*((f"x{n}", a) for n, a in enumerate(arrays)), ("segments", keys)]:
            check_array(what, label, array, device)
        shape = broadcast_shapes(what, [a.shape for a in arrays])
        fitting = zip(reversed(keys.shape), reversed(shape), strict=False)
        if keys.ndim > len(shape) or any(own not in (1, size) for own, size in fitting):
            raise ShapeError(
                f"{what}: segments has shape {keys.shape}, expected {shape} or one that "
                "broadcasts to it"
            )
        d = self._axis(axis, len(shape)) - len(shape) + keys.ndim
        if d < 0 or d >= keys.ndim or keys.shape[d] == 1:  # one key for a whole line
            return zeros((1,) * keys.ndim, bool)
        return _beginnings(keys.ndim, d, reverse)(keys)

    def _axis(self, axis: Any, ndim: int) -> int:
        if axis is None or isinstance(axis, tuple | list):
            raise ShapeError(f"{self.what}: axis={quoted(axis)}: a scan goes along one axis")
        # As in NumPy and PyTorch, a number by itself is a line of one element.
        return normalize_axis(self.what, axis, ndim or 1)

    def _segments(self, exclusive: bool) -> ReductionDefinition:
        """The definition that takes marks beside its arrays; see `segmented`."""
        if exclusive not in self._segmented:
            self._segmented[exclusive] = segmented(self.definition, exclusive=exclusive)
        return self._segmented[exclusive]

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Options,
    ) -> None:
        """See `clprim.primitives.strings.Strings.check`; marks are no array of the strings."""
        super().check(device, arrays[: len(arrays) - options.marked], numbers, outs, options)

    def problem(self, request: Request, target: Target) -> Scanned:
        """See `clprim.call.primitive.Primitive.problem`."""
        options: Options = request.options
        what, definition, outs = self.what, self.definition, request.outs
        exclusive = flag(what, "exclusive", options.exclusive)
        reverse = flag(what, "reverse", options.reverse)
        inputs = request.operands[: len(request.operands) - options.marked]
        marks = request.operands[len(inputs) :]
        shape = broadcast_shapes(what, [a.shape for a in inputs])
        axis = self._axis(options.axis, len(shape))

        array_dtypes = [a.dtype for a in inputs]
        scalar_types = scalar_dtypes(what, request.numbers, array_dtypes)
        given = [*array_dtypes, *scalar_types]
        result_types = self._result_type or default_results(definition, given)
        for n, (o, dtype) in enumerate(zip(outs, result_types, strict=False)):
            check_out(what, n, o, shape, dtype)
        check_aliases(what, outs, inputs)
        order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
        results = outs or tuple(
            Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in result_types
        )
        stored = [r.dtype for r in results]
        partials = self._partial_type or default_partials(definition, given, stored)
        everything = [*partials, *stored]
        traits = target.traits
        scalar_types = weaken(request.numbers, scalar_types, array_dtypes, everything, traits.fp64)
        dtypes.require_supported([*array_dtypes, *scalar_types, *everything], traits, str(target))
        if marks:
            definition = self._segments(exclusive)
            partials = (*partials, np.dtype(np.int32))
        return Scanned(
            definition,
            shape,
            axis,
            results,
            (*inputs, *marks),
            tuple(scalar_types),
            tuple(partials),
            exclusive,
            reverse,
        )

    def snippets(self, problem: Scanned) -> Mapping[str, str]:
        """The strings, of pairs where there are segments."""
        return texts(problem.definition)


@lru_cache(maxsize=64)
def _beginnings(ndim: int, axis: int, reverse: bool) -> Pointwise:
    """Where a key differs from the one that is scanned before it."""
    step, other = ("+ 1", f"size({axis}) - 1") if reverse else ("- 1", "0")
    before = ", ".join(f"coord({d}) {step if d == axis else ''}".strip() for d in range(ndim))
    text = f"y0 = coord({axis}) != {other} && x0 != at_x0({before});"
    return Pointwise(text, result_type=bool, name="segments")


register_form("Scan", Scan, Options)
