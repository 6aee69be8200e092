"""`Reduction`: a kernel from three strings that takes arrays in and sums along any axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.validation import flag
from clprim.call.arguments import check_aliases, check_once, check_out, result_dtypes
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target, run, sources
from clprim.call.scalars import scalar_dtypes, weaken
from clprim.call.signature import outputs_of, told_apart
from clprim.errors import ShapeError, quoted
from clprim.gradients.kernels import make, register
from clprim.language.definition import define_reduction
from clprim.options import current_options
from clprim.plan.reduction.family import REDUCTIONS
from clprim.plan.reduction.problem import Reduced
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
    reduced_axes,
)
from clprim.primitives.partials import default_partials, default_results
from clprim.primitives.scaling import scale_numbers, scale_results, scale_signature
from clprim.primitives.strings import Tabled
from clprim.runtime.device import Device

if TYPE_CHECKING:
    from clprim.gradients.reduction import ReductionGradient

Axis = int | Sequence[int] | None


class Options(NamedTuple):
    """What a call is told beside arrays and numbers."""

    axis: Axis
    keepdims: Any = False
    alpha: Any = 1
    beta: Any = 0


class Reduction(Tabled):
    """A kernel that takes elements one after another into a few partial results.

    Args:
        expr: OpenCL C statements that compute ``y0``, ``y1``, … of one element from arrays ``x0``,
            … and run-time scalars ``w0``, ….
        init: Assigns ``reduce_y0``, …: a *neutral* start, as every partial begins with it. A start
            value proper goes through ``beta`` and ``out``.
        step: Takes one element into ``reduce_y0``, …. May use ``yN``, ``xN``, ``wN``,
            ``reduce_item`` (position in the reduced space, in C order over the reduced axes),
            ``index``, ``coord(d)`` and ``size(d)``.
        combine: Merges another partial, ``other_y0``, …, into ``reduce_y0``, …. Left out, it is
            derived from ``step`` where its form allows (sums, products, bit operations, minima and
            maxima, with the position of the winner), and asked for otherwise.
        finalize: Assigns the results ``y0``, … from ``reduce_yN``, ``wN`` and ``count``, the
            number of elements reduced, and from arrays of size 1 along the reduced axes. Left
            out, the partials are the results.
        result_type: dtype of the results, or one for each. By default the promotion of arrays and
            scalars; as in NumPy, sums and products of integers shorter than 64 bits are int64 or
            uint64; positions are int64.
        partial_type: dtype of the partials, or one for each. By default that of their result, with
            float16 and bfloat16 as float32.
        preamble: OpenCL C functions, types and macros for the snippets.
        name: Of the kernel, in profiles.
        gradient: The gradient by hand, where it cannot be derived: statements for every element
            that assign ``gx0``, ``gw0``, … from ``xN``, ``wN``, ``reduce_item``, and from the
            partials ``reduce_yN``, results ``yN``, their gradients ``gyN``, and ``count``.
        check: Whether ``gradient`` is held to central differences now, of random numbers.

    Raises:
        DefinitionError: A snippet is wrong, or ``combine`` cannot be derived; the message shows
            the line with a caret.

    In ``init``, ``lowest_reduce_y0`` and ``highest_reduce_y0`` are the least and greatest value of
    the partial's type.

    Example:
        >>> import numpy as np, clprim as cp
        >>> sums = cp.Reduction(
        ...     "y0 = x0; y1 = x0 * x0;",
        ...     init="reduce_y0 = 0; reduce_y1 = 0;",
        ...     step="reduce_y0 += y0; reduce_y1 += y1;",
        ... )
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> s, s2 = sums(x, axis=0)
        >>> s.get(), s2.get()
        (array([3., 5., 7.], dtype=float32), array([ 9., 17., 29.], dtype=float32))
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
        gradient: str | None = None,
        check: bool = False,
    ) -> None:
        definition = define_reduction(
            expr,
            init=init,
            step=step,
            combine=combine,
            finalize=finalize,
            name=name,
            preamble=preamble,
        )
        super().__init__(expr or step, name, definition)
        check = flag(self.what, "check", check)
        self._result_type = result_dtypes(self.what, result_type, definition.results)
        self._partial_type = result_dtypes(self.what, partial_type, definition.partials)
        self._gradient = gradient
        if gradient is not None:
            self.gradient()
            if check:
                make("check", self)

    def __call__(
        self,
        *args: Any,
        axis: Axis = None,
        keepdims: bool = False,
        out: Any = None,
        alpha: Any = 1,
        beta: Any = 0,
    ) -> Array:
        """Computes ``y = alpha * reduced + beta * y_old``.

        Args:
            args: The arrays x0, x1, …, which broadcast together, then the scalars w0, w1, ….
            axis: The axis or axes to reduce; all by default.
            keepdims: Whether reduced axes stay, with size 1.
            out: An array (for several results a tuple of them) to write to.
            alpha: A number, or one for each result.
            beta: Likewise; where it is 0 the old value is not read.

        Returns:
            An array, or a tuple of arrays; ``out`` where given.

        Raises:
            ShapeError: Wrong number of arguments, shapes that do not broadcast, an axis out of
                range, an array of ``finalize`` that changes along the axes, ``out`` of another
                shape or overlapping an input, beta without out.
            DTypeError: An argument that is no array or no number, a dtype the device lacks.
            DeviceError: An array of another context.
            BuildError: The OpenCL compiler refused a snippet.
        """
        arrays, numbers = args, ()
        if len(args) > self.inputs:
            arrays, numbers = args[: self.inputs], args[self.inputs :]
        outs = () if out is None else (out,) if out.__class__ is Array else outputs_of(out)
        plain = alpha == 1 and beta == 0 if alpha.__class__ is beta.__class__ is int else False
        key = told_apart(axis, keepdims)
        if current_options().tune:
            key = (key, "tuned")
        if not plain:
            key = (key, scale_signature(alpha, beta))
            numbers += scale_numbers(self.what, alpha, beta, self.definition.results)
        found: Any = run(self, arrays, numbers, outs, (axis, keepdims, alpha, beta), key)
        return found[0] if len(found) == 1 else found  # type: ignore[no-any-return] # or a tuple

    def gradient(self, wrt: Any = None, *, saves: Any = ()) -> ReductionGradient:
        """Returns the operator's gradient, whose strings are derived from its own.

        Steps may add up, multiply, or keep the greatest or least element (equal ones share), or
        keep a running mean, variance or sum of exponentials; ``finalize`` is any expression.

        Args:
            wrt: Names of the arguments that gradients are wanted of, such as ``("x0", "w1")``;
                every array of a floating dtype by default, in order.
            saves: Results, such as ``"y0"``, that a call will be given as ``saved=``, so that they
                need not be computed again.

        Returns:
            What is called with the operator's arguments, ``axis=``, ``keepdims=`` and ``grad=``,
            and prints as its strings.

        Raises:
            DefinitionError: A gradient would pass something that has none, or a step that is not
                understood; with line and caret.

        Example:
            >>> import numpy as np, clprim as cp
            >>> norm = cp.Reduction(
            ...     "y0 = x0 * x0;",
            ...     init="reduce_y0 = 0;",
            ...     step="reduce_y0 += y0;",
            ...     finalize="y0 = sqrt(reduce_y0);",
            ... )
            >>> g = norm.gradient()
            >>> print(g)
            // of every result
            ay0 = 0.5 * gy0 / sqrt(reduce_y0);
            // of every element
            gx0 = 2 * (ay0 * x0);
            >>> x = cp.asarray(np.array([[3, 4], [6, 8]], np.float32))
            >>> g(x, axis=1, grad=cp.full(2, 1.0)).get()
            array([[0.6, 0.8],
                   [0.6, 0.8]], dtype=float32)
        """
        # Derivatives are loaded when first asked for, as they are a fifth of the import.
        from clprim.gradients.reduction import ReductionGradient

        return ReductionGradient(
            self.definition,
            self.what,
            wrt=wrt,
            saves=saves,
            partial_types=self._partial_type,
            result_types=self._result_type,
            by_hand=self._gradient,
        )

    def source(
        self,
        *args: Any,
        axis: Axis = None,
        keepdims: bool = False,
        out: Any = None,
        alpha: Any = 1,
        beta: Any = 0,
    ) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        arrays, numbers = args[: self.inputs], args[self.inputs :]
        numbers += scale_numbers(self.what, alpha, beta, self.definition.results)
        options = axis, keepdims, alpha, beta
        return sources(self, arrays, numbers, outputs_of(out), options)

    complex_numbers = True
    nothing = "// no outputs: nothing runs\n"
    family = REDUCTIONS

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: tuple[Any, ...],
    ) -> None:
        """See `clprim.primitives.strings.Strings.check`; numbers of alpha and beta come last."""
        super().check(device, arrays, self._own(numbers, Options(*options)), outs, options)

    def _own(self, numbers: Sequence[Any], options: Options) -> Sequence[Any]:
        """The numbers w0, …, without those of alpha and beta."""
        scales = scale_numbers(self.what, options.alpha, options.beta, self.definition.results)
        return numbers[: len(numbers) - len(scales)]

    def problem(self, request: Request, target: Target) -> Reduced:
        """See `clprim.call.primitive.Primitive.problem`."""
        options = Options(*request.options)
        what, definition, traits = self.what, self.definition, target.traits
        inputs, outs, scalars = request.operands, request.outs, self._own(request.numbers, options)
        keepdims = flag(what, "keepdims", options.keepdims)
        shape = broadcast_shapes(what, [a.shape for a in inputs])
        axes = reduced_axes(what, options.axis, len(shape))
        check_once(what, definition.finalized, [a.shape for a in inputs], len(shape), axes)
        kept = tuple(1 if d in axes else size for d, size in enumerate(shape))
        result_shape = kept if keepdims else _without(kept, axes)

        array_dtypes = [a.dtype for a in inputs]
        scalar_types = scalar_dtypes(what, scalars, array_dtypes)
        given = [*array_dtypes, *scalar_types]
        result_types = self._result_type or default_results(definition, given)
        results = outs
        if outs:
            for n, (o, dtype) in enumerate(zip(outs, result_types, strict=True)):
                check_out(what, n, o, result_shape, dtype)
            check_aliases(what, outs, inputs, same_allowed=math.prod(kept) == math.prod(shape))
            operands = tuple(keep_axes(o, axes, keepdims=keepdims) for o in outs)
        else:
            order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
            operands = tuple(
                Operand(kept, dense_strides(kept, d.itemsize, order), 0, d) for d in result_types
            )
            results = (
                operands
                if keepdims
                else tuple(
                    Operand(result_shape, _without(o.strides, axes), 0, o.dtype) for o in operands
                )
            )
        stored = [o.dtype for o in results]
        scaling = scale_results(what, options.alpha, options.beta, stored, traits)
        if not outs and any(s.kind == "accumulate" for s in scaling):
            beta = quoted(options.beta)
            raise ShapeError(f"{what}: beta={beta} needs out=, whose old value it scales")
        partials = self._partial_type or default_partials(definition, given, stored)
        everything = [*partials, *stored]
        scalar_types = weaken(scalars, scalar_types, array_dtypes, everything, traits.fp64)
        dtypes.require_supported([*array_dtypes, *scalar_types, *everything], traits, str(target))
        return Reduced(
            definition,
            shape,
            axes,
            operands,
            inputs,
            tuple(scalar_types),
            tuple(partials),
            tuple(scaling),
            results,
        )

    def launches(self, problem: Reduced) -> bool:
        """Whether there are results, be it of nothing."""
        return all(o.size for o in problem.operands)


def _without(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes, or strides, of the axes that are left."""
    return tuple(n for d, n in enumerate(sizes) if d not in axes)


def keep_axes(operand: Operand, axes: tuple[int, ...], *, keepdims: bool) -> Operand:
    """Gives a result back the reduced axes, with size 1."""
    if keepdims:
        return operand
    shape, strides = list(operand.shape), list(operand.strides)
    for axis in axes:
        shape.insert(axis, 1)
        strides.insert(axis, 0)
    return replace(operand, shape=tuple(shape), strides=tuple(strides))


register("Reduction", Reduction)
register_form("Reduction", Reduction, Options)
