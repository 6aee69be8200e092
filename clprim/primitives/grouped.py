"""`Grouped`: a kernel from strings that reduces groups of elements, then maps every element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.call.arguments import (
    check_aliases,
    check_array,
    check_once,
    check_out,
    result_dtypes,
)
from clprim.call.forms import Form, register_form
from clprim.call.primitive import Request, Target, run, sources
from clprim.call.scalars import scalar_dtypes, weaken
from clprim.call.signature import outputs_of, told_apart
from clprim.errors import ShapeError, quoted
from clprim.gradients.kernels import register
from clprim.language.grouped_definition import define_grouped
from clprim.options import current_options
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
    reduced_axes,
)
from clprim.primitives.strings import Tabled
from clprim.runtime.device import Device

if TYPE_CHECKING:
    from clprim.gradients.grouped import GroupedGradient


class Options(NamedTuple):
    """What a call is told beside arrays and numbers."""

    axis: Any
    out: bool
    keep: tuple[bool | None, ...]
    trusted: bool


class Grouped(Tabled):
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
        partial_type: dtype of partials and of the groups' values, or of the parts of complex ones.
            By default that of everything together, float32 at least.
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

    complex_numbers = True
    family = GROUPS

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
        definition = define_grouped(
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
        self._near = near
        super().__init__(each, name, definition)
        self._result_type = result_dtypes(self.what, result_type, definition.results)
        self._partial_type = None if partial_type is None else dtypes.as_dtype(partial_type)

    @property
    def form(self) -> Form:
        """See `Primitive.form`."""
        kind, told = super().form
        return Form(kind, {**told, "near": self._near and dict(self._near)})

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
        outs, options = self._told(axis, out, keep, trusted=False)
        return self._run(args, outs, options)  # type: ignore[no-any-return] # or a tuple of arrays

    def apply(self, *args: Any, axis: tuple[int, ...], out: Any, keep: Sequence[Any] = ()) -> Any:
        """Does the same for an operator that has checked where its arrays overlap.

        Groups may then depend on views of what ``out`` overwrites, if only of their own elements.
        """
        return self._run(args, *self._told(axis, out, keep, trusted=True))

    def _told(
        self, axis: Any, out: Any, keep: Any, *, trusted: bool
    ) -> tuple[tuple[Any, ...], Options]:
        """Returns the arrays that are given to write to, and the options."""
        if not isinstance(keep, list | tuple):
            given = quoted(keep)
            raise ShapeError(f"{self.what}: keep={given}: expected a list of flags and arrays")
        outs = outputs_of(out)
        into = [k for k in keep if k is not None and not isinstance(k, bool)]
        kept = tuple(None if k is None or k is False else k is not True for k in keep)
        return (*outs, *into), Options(axis, out is not None, kept, trusted)

    def _run(self, args: tuple[Any, ...], outs: tuple[Any, ...], options: Options) -> Any:
        key = (told_apart(options.axis), *options[1:], current_options().tune)
        found = run(self, args[: self.inputs], args[self.inputs :], outs, options, key)
        return found[0] if len(found) == 1 else found

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

        return GroupedGradient(self.definition, self.what, wrt=wrt, saves=saves)

    def source(self, *args: Any, axis: Any = -1, out: Any = None, keep: Sequence[Any] = ()) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        outs, options = self._told(axis, out, keep, trusted=False)
        return sources(self, args[: self.inputs], args[self.inputs :], outs, options)

    def check(
        self,
        device: Device,
        arrays: Sequence[Any],
        numbers: Sequence[Any],
        outs: Sequence[Any],
        options: Options,
    ) -> None:
        """See `Strings.check` in `clprim.primitives.strings`; values of groups come last."""
        kept = [n for n, given in enumerate(options.keep) if given]
        own = len(outs) - len(kept)
        super().check(device, arrays, numbers, outs[:own], options)
        for n, array in zip(kept, outs[own:], strict=True):
            check_array(self.what, f"keep= of group_y{n}", array, device)

    def problem(self, request: Request, target: Target) -> Groups:
        """See `clprim.call.primitive.Primitive.problem`."""
        options: Options = request.options
        what, definition, traits = self.what, self.definition, target.traits
        inputs = request.operands
        keep, wanted = options.keep, [k is not None for k in options.keep]
        if len(request.outs) == definition.results + sum(wanted):
            keep = tuple(k or None for k in wanted)  # of a graph's node, which has places for all
        given = len(request.outs) - sum(map(bool, keep))
        outs, into = request.outs[:given], request.outs[given:]
        shape = broadcast_shapes(what, [a.shape for a in inputs])
        axes = reduced_axes(what, options.axis, len(shape))
        check_once(what, definition.finalized, [a.shape for a in inputs], len(shape), axes)
        array_types = [a.dtype for a in inputs]
        scalar_types = scalar_dtypes(what, request.numbers, array_types)
        given_types = [*array_types, *scalar_types]
        kinds, own = (
            tuple(dtypes.stored_type(dtypes.value_dtype(d, given_types)).value for d in some)
            for some in (given_types, self._result_type or ())
        )
        pairs = definition.complex_operands(kinds, own)
        common = dtypes.promote(given_types)
        result_types = self._result_type or tuple(
            dtypes.paired_dtype(common, n in pairs.results) for n in range(definition.results)
        )
        scalar_types = weaken(
            request.numbers, scalar_types, array_types, list(result_types), traits.fp64
        )
        everything = [*array_types, *scalar_types, *result_types]
        value = self._partial_type or dtypes.promote(everything)
        dtypes.require_supported([*everything, value], traits, str(target))
        value = dtypes.real_dtype(dtypes.value_dtype(value, [value]))
        order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
        results = outs or tuple(
            Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in result_types
        )
        of_groups = [
            dtypes.paired_dtype(value, n in pairs.values) for n in range(definition.group_values)
        ]
        kept = self._kept(keep, into, shape, axes, order, of_groups)
        for n, (o, dtype) in enumerate(zip(outs, result_types, strict=False)):
            check_out(what, n, o, shape, dtype)
        if not options.trusted:
            self._check_memory(outs, into, inputs)
        numbers = tuple(scalar_types)
        return Groups(definition, shape, axes, value, inputs, numbers, results, kept, pairs)

    def outputs(self, problem: Groups) -> tuple[Operand, ...]:
        """The results, then the values of groups that are wanted."""
        return (*problem.results, *(k for k in problem.kept if k is not None))

    def names(self, problem: Groups) -> Sequence[str]:
        """See `Groups`."""
        return problem.names

    def launches(self, problem: Groups) -> bool:
        """Whether there are groups, be it of nothing."""
        del problem
        return True

    def _kept(
        self,
        keep: tuple[bool | None, ...],
        into: tuple[Operand, ...],
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        order: Sequence[int],
        values: Sequence[Any],
    ) -> tuple[Operand | None, ...]:
        """Returns where values of groups go."""
        what, count = self.what, self.definition.group_values
        if len(keep) > count:
            raise ShapeError(f"{what}: keep= names {len(keep)} values, a group has {count}")
        one_each = tuple(1 if d in axes else size for d, size in enumerate(shape))
        given = iter(into)
        found: list[Operand | None] = [None] * count
        for n, wanted in enumerate(keep):
            if wanted:
                found[n] = next(given)
                check_out(what, n, found[n], one_each, values[n])
            elif wanted is not None:
                value = values[n]
                strides = dense_strides(one_each, value.itemsize, order)
                found[n] = Operand(one_each, strides, 0, value)
        return tuple(found)

    def _check_memory(
        self, outs: Sequence[Operand], into: Sequence[Operand], inputs: Sequence[Operand]
    ) -> None:
        """Refuses results where another element, or group, is still to be read."""
        what = self.what
        once = self.definition.finalized - self.definition.reduced - self.definition.mapped
        apart = [inputs[n] for n in sorted(once)]
        rest = [a for n, a in enumerate(inputs) if n not in once]
        check_aliases(what, [*outs, *into], ())
        check_aliases(what, outs, rest)
        check_aliases(what, outs, apart, same_allowed=False)
        check_aliases(what, into, apart)
        check_aliases(what, into, rest, same_allowed=False)


register("Grouped", Grouped)
register_form("Grouped", Grouped, Options)
