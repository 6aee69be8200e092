"""`Grouped`: a kernel from strings that reduces groups of elements, then maps every element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clprim import dtypes
from clprim.arrays.array import Array, new_array
from clprim.arrays.memory import Described, operand_of
from clprim.call.arguments import (
    as_results,
    check_aliases,
    check_array,
    check_arrays,
    check_once,
    check_out,
    result_dtypes,
)
from clprim.call.call import Call, bind
from clprim.call.scalars import as_numbers, scalar_dtypes, split_arguments, weaken
from clprim.call.signature import Calls, told_apart
from clprim.errors import DTypeError, ShapeError, quoted, shorten, titled
from clprim.gradients.kernels import register
from clprim.language.definition import texts
from clprim.language.grouped import define_grouped
from clprim.plan.grouped.planner import plan_groups
from clprim.plan.grouped.problem import Groups
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
    reduced_axes,
)
from clprim.runtime.device import Device, current_device
from clprim.runtime.source_cache import source_of

if TYPE_CHECKING:
    from clprim.gradients.grouped import GroupedGradient


@dataclass(frozen=True, slots=True)
class _Request:
    """What a user asked for in one call."""

    args: tuple[Any, ...]
    axis: Any
    out: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    trusted: bool


class Grouped:
    """A kernel that reduces groups of elements and maps each element with what came of its group.

    Normalisations and softmax are such kernels. Where the elements of a group lie side by side and
    fit a near cache, memory is read once; else a reduction, a map of the groups' values and a map
    of the elements follow one another. Results are the same but for rounding.

    Args:
        expr: As in `clprim.Reduction`: computes ``y0``, … of one element from arrays and numbers.
        init: Likewise: assigns ``reduce_y0``, …, a neutral start.
        step: Likewise: takes one element into ``reduce_y0``, ….
        combine: Likewise: merges ``other_y0``, … into ``reduce_y0``, ….
        finalize: Assigns the group's values ``group_y0``, … from ``reduce_yN``, ``wN``, ``count``
            (the number of its elements), and ``xN`` of size 1 along the axes. Left out, the
            partials are the values.
        each: Assigns the results ``y0``, … of an element from ``xN``, ``wN`` and ``group_yN``; it
            may use ``index``, ``coord(d)`` and ``size(d)``.
        result_type: dtype of the results, or one for each. By default the promotion of arrays and
            numbers.
        partial_type: dtype of partials and of the groups' values. By default that of everything
            together, float32 at least.
        preamble: OpenCL C functions, types and macros for the snippets.
        name: Of the kernel, in profiles.
        near: Snippets that do the same for a group that a near cache holds, where what is dear, as
            an exponential, need be computed but once an element. They take the place of ``expr``,
            ``step`` and ``each`` there: ``first`` takes ``xN`` into those ``reduce_yN`` that
            results depend on (left out where there are none); then ``begin`` assigns the results
            ``y0``, … as far as can be, from ``xN``, ``wN`` and what ``first`` found; ``step`` takes
            these ``yN`` into the other ``reduce_yN``; and ``finish`` makes of them, with
            ``group_yN``, the results. Until then they are kept, unrounded, near the core.

    Raises:
        DefinitionError: A snippet is wrong, or ``combine`` cannot be derived; the message shows
            the line with a caret.

    Example:
        >>> import numpy as np, clprim as cp
        >>> share = cp.Grouped(
        ...     "y0 = x0;",
        ...     init="reduce_y0 = 0;",
        ...     step="reduce_y0 += y0;",
        ...     each="y0 = x0 / group_y0;",
        ... )
        >>> x = cp.asarray(np.float32([[1, 3], [2, 6]]))
        >>> share(x, axis=1).get()
        array([[0.25, 0.75],
               [0.25, 0.75]], dtype=float32)
        >>> y, total = share(x, axis=1, keep=[True])
        >>> total.get()
        array([[4.],
               [8.]], dtype=float32)
    """

    def __init__(
        self,
        expr: str,
        *,
        init: str,
        step: str,
        combine: str | None = None,
        finalize: str | None = None,
        each: str,
        result_type: Any = None,
        partial_type: Any = None,
        preamble: str = "",
        name: str | None = None,
        near: Mapping[str, str] | None = None,
    ) -> None:
        self.definition = define_grouped(
            expr,
            init=init,
            step=step,
            combine=combine,
            finalize=finalize,
            each=each,
            name=name,
            preamble=preamble,
            near=near,
        )
        self._inputs = self.definition.inputs
        self._text = f"Grouped {shorten(each)!r}"
        self._what = titled(self._text, name)
        self._result_type = result_dtypes(self._what, result_type, self.definition.results)
        self._partial_type = None if partial_type is None else dtypes.as_dtype(partial_type)
        self._calls: Calls[Call] = Calls()

    def __repr__(self) -> str:
        return f"<clprim.{self._text}>"

    def __call__(
        self, *args: Any, axis: Any = -1, out: Any = None, keep: Sequence[Any] = ()
    ) -> Array:
        """Computes the results.

        Args:
            args: The arrays x0, x1, …, which broadcast together, then the numbers w0, w1, ….
            axis: The axis or axes that a group extends along; None for all.
            out: An array (for several results a tuple of them) to write to. It may be an input.
            keep: Which of the values ``group_y0``, … are wanted as well, with size 1 along the
                axes: True, or an array to write one to.

        Returns:
            The results, then the kept values: an array, or a tuple of arrays.

        Raises:
            ShapeError: Wrong number of arguments, shapes that do not broadcast, an axis out of
                range, an array of ``finalize`` that changes along the axes, ``out`` of another
                shape or overlapping an input in part.
            DTypeError: An argument that is no array or no number, a dtype the device lacks.
            DeviceError: An array of another context.
            BuildError: The OpenCL compiler refused a snippet.
        """
        outs = None if out is None else as_results(self._what, out, self.definition.results)
        request = _Request(args, axis, outs, self._listed(keep), trusted=False)
        return self._run(request)  # type: ignore[no-any-return] # several are a tuple of arrays

    def apply(self, *args: Any, axis: tuple[int, ...], out: Any, keep: Sequence[Any] = ()) -> Any:
        """Does the same for an operator that has checked where its arrays overlap.

        Groups may then depend on views of what ``out`` overwrites, if only of their own elements.
        """
        return self._run(
            _Request(args, axis, None if out is None else (out,), tuple(keep), trusted=True)
        )

    def _run(self, request: _Request) -> Any:
        device = current_device()
        args = as_numbers(request.args, self._inputs)
        arrays, scalars = args[: self._inputs], args[self._inputs :]
        into = [k for k in request.keep if k is not None and not isinstance(k, bool)]
        outs = [*(request.out or ()), *into]
        flags = tuple(k if isinstance(k, bool) else k is not None for k in request.keep)
        axis = told_apart(request.axis)
        options = (axis, flags, len(into), request.out is None, request.trusted)
        call, signature = self._calls.look_up(device, arrays, outs, scalars, options)
        if call is None:
            call = self._prepare(device, request)
            self._calls.remember(signature, call)
        given: list[Any] = list(request.out or (None,) * self.definition.results)
        given += [None if k is True else k for k, f in zip(request.keep, flags, strict=True) if f]
        results = tuple(
            new_array(device, *described) if array is None else array
            for array, described in zip(given, call.results, strict=True)
        )
        try:
            call.run(device, (*results, *arrays), scalars)
        except DTypeError:
            self._prepare(device, request)  # says what is wrong with which number
            raise
        return results[0] if len(results) == 1 else results

    def gradient(self, wrt: Any = None, *, saves: Any = ()) -> GroupedGradient:
        """Returns the operator's gradient, whose strings are derived from its own.

        It is one kernel of the same kind: sums over a group, and a map of its elements. Steps are
        understood as in `Reduction.gradient`; means and variances also where ``finalize`` makes
        them of other sums. What was broadcast is summed behind it.

        Args:
            wrt: Names of the arguments that gradients are wanted of, such as ``("x0", "w1")``;
                every array of a floating dtype by default, in order.
            saves: Results ``"y0"`` and values ``"group_y0"`` that a call will be given as
                ``saved=``, so that they need not be computed again.

        Returns:
            What is called with the operator's arguments, ``axis=`` and ``grad=``, and prints as
            its strings.

        Raises:
            DefinitionError: A gradient would pass something that has none, or a step that is not
                understood; with line and caret.

        Example:
            >>> import numpy as np, clprim as cp
            >>> share = cp.Grouped(
            ...     "y0 = x0;",
            ...     init="reduce_y0 = 0;",
            ...     step="reduce_y0 += y0;",
            ...     each="y0 = x0 / group_y0;",
            ... )
            >>> g = share.gradient(saves=("y0", "group_y0"))
            >>> print(g)
            // added up over a group
            sum0 = gy0 * y0;
            // once a group
            typeof_part0 t0 = 1 / group_y0;
            part0 = t0;
            part1 = -(sum0 * t0);
            // of every element
            gx0 = gy0 * part0 + part1;
            >>> x = cp.asarray(np.float32([[1, 3], [2, 6]]))
            >>> grad = cp.asarray(np.float32([[1, 0], [0, 8]]))
            >>> g(x, axis=1, grad=grad, saved=share(x, axis=1, keep=[True])).get()
            array([[ 0.1875, -0.0625],
                   [-0.75  ,  0.25  ]], dtype=float32)
        """
        # Derivatives are loaded when first asked for, as they are a fifth of the import.
        from clprim.gradients.grouped import GroupedGradient

        return GroupedGradient(self.definition, self._what, wrt=wrt, saves=saves)

    def source(self, *args: Any, axis: Any = -1, out: Any = None, keep: Sequence[Any] = ()) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        outs = None if out is None else as_results(self._what, out, self.definition.results)
        request = _Request(args, axis, outs, self._listed(keep), trusted=False)
        device = current_device()
        plan = plan_groups(self._problem(device, request)[0], device.traits)
        if not plan.stages:
            return "// no elements: nothing runs\n"
        return "\n".join(source_of(stage.template, stage.code) for stage in plan.stages)

    def _prepare(self, device: Device, request: _Request) -> Call:
        """Checks and plans a call of a new signature, and builds its kernels."""
        problem, results = self._problem(device, request)
        plan = plan_groups(problem, device.traits)
        return bind(device, self._what, plan, problem.names, results, texts(self.definition))

    def _problem(self, device: Device, request: _Request) -> tuple[Groups, tuple[Described, ...]]:
        what, definition = self._what, self.definition
        arrays, scalars = split_arguments(what, request.args, self._inputs, definition.scalars)
        check_arrays(what, arrays, request.out or (), device)
        inputs = [operand_of(a) for a in arrays]
        shape = broadcast_shapes(what, [a.shape for a in inputs])
        axes = reduced_axes(what, request.axis, len(shape))
        check_once(what, definition.finalized, [a.shape for a in inputs], len(shape), axes)
        array_types = [a.dtype for a in inputs]
        scalar_types = scalar_dtypes(what, scalars, array_types)
        result_types = self._result_type or (
            (dtypes.promote([*array_types, *scalar_types]),) * definition.results
        )
        scalar_types = weaken(
            scalars, scalar_types, array_types, list(result_types), device.traits.fp64
        )
        everything = [*array_types, *scalar_types, *result_types]
        value = self._partial_type or dtypes.promote(everything)
        dtypes.require_supported([*everything, value], device.traits, str(device))
        value = dtypes.value_dtype(value, [value])
        order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
        results = [
            Operand(shape, dense_strides(shape, d.itemsize, order), 0, d)
            if request.out is None
            else operand_of(request.out[n])
            for n, d in enumerate(result_types)
        ]
        kept = self._kept(device, request.keep, shape, axes, order, value)
        if request.out is not None:
            for n, (o, dtype) in enumerate(zip(request.out, result_types, strict=True)):
                check_out(what, n, o, shape, dtype)
        if not request.trusted:
            self._check_memory(request, arrays)
        problem = Groups(
            definition,
            shape,
            axes,
            value,
            tuple(inputs),
            tuple(scalar_types),
            tuple(results),
            kept,
        )
        written = (*results, *(k for k in kept if k is not None))
        described = tuple((o.shape, o.dtype, o.strides, o.size) for o in written)
        return problem, described

    def _listed(self, keep: Any) -> tuple[Any, ...]:
        if not isinstance(keep, list | tuple):
            given = quoted(keep)
            raise ShapeError(f"{self._what}: keep={given}: expected a list of flags and arrays")
        return tuple(keep)

    def _kept(
        self,
        device: Device,
        keep: tuple[Any, ...],
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        order: Sequence[int],
        value: Any,
    ) -> tuple[Operand | None, ...]:
        """Returns where values of groups go."""
        what, count = self._what, self.definition.group_values
        if len(keep) > count:
            raise ShapeError(f"{what}: keep= names {len(keep)} values, a group has {count}")
        one_each = tuple(1 if d in axes else size for d, size in enumerate(shape))
        found: list[Operand | None] = []
        for n, wanted in enumerate((*keep, *(False,) * (count - len(keep)))):
            if wanted is None or wanted is False:
                found.append(None)
            elif wanted is True:
                strides = dense_strides(one_each, value.itemsize, order)
                found.append(Operand(one_each, strides, 0, value))
            else:
                check_array(what, f"keep= of group_y{n}", wanted, device)
                check_out(what, n, wanted, one_each, value)
                found.append(operand_of(wanted))
        return tuple(found)

    def _check_memory(self, request: _Request, arrays: tuple[Any, ...]) -> None:
        """Refuses results where another element, or group, is still to be read."""
        what, outs = self._what, request.out or ()
        kept = [k for k in request.keep if k is not None and not isinstance(k, bool)]
        once = self.definition.finalized - self.definition.reduced - self.definition.mapped
        check_aliases(what, [*outs, *kept], ())
        check_aliases(what, outs, [a for n, a in enumerate(arrays) if n not in once])
        check_aliases(what, outs, [arrays[n] for n in sorted(once)], same_allowed=False)
        check_aliases(what, kept, [arrays[n] for n in sorted(once)])
        rest = [a for n, a in enumerate(arrays) if n not in once]
        check_aliases(what, kept, rest, same_allowed=False)


register("Grouped", Grouped)
