"""`Pointwise`: a kernel from one string, computed element by element with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.memory import Described, operand_of
from clprim.call.arguments import (
    as_results,
    as_shape,
    check_aliases,
    check_arrays,
    check_out,
    result_dtypes,
)
from clprim.call.call import Call, bind_strings
from clprim.call.door import flag
from clprim.call.scalars import as_numbers, scalar_dtypes, split_arguments, weaken
from clprim.call.signature import Calls, outputs_of
from clprim.errors import DTypeError, ShapeError, shorten, titled
from clprim.gradients.kernels import make, register
from clprim.language.definition import define_pointwise
from clprim.plan.kernel import KernelPlan, Plan
from clprim.plan.pointwise.planner import plan_pointwise
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    broadcasts_to,
    dense_strides,
    memory_order,
)
from clprim.runtime.device import Device, current_device
from clprim.runtime.source_cache import source_of

if TYPE_CHECKING:
    from clprim.gradients.pointwise import PointwiseGradient


class Pointwise:
    """A kernel that computes every element of its results by itself.

    Args:
        expr: OpenCL C statements that assign ``y0``, ``y1``, … from arrays ``x0``, ``x1``, … and
            run-time scalars ``w0``, ``w1``, …. They may declare locals, use ``if`` and loops,
            ``index`` (flat position in the broadcast shape), ``coord(d)``, ``size(d)``,
            ``typeof_x0``, ``typeof_y0`` and OpenCL C's functions. ``at_x1(i, j)`` reads ``x1`` at
            any coordinates, ``inside_x1(i, j)`` says whether there is such an element and
            ``size_x1(d)`` how long a dimension is; an array that is read in no other way takes no
            part in broadcasting. The last semicolon may be left out.
        result_type: dtype of the results, or one for each; NumPy's promotion of arrays and scalars
            by default.
        preamble: OpenCL C functions, types and macros for the snippet.
        name: Of the kernel, in profiles.
        gradient: The gradient by hand, where it cannot be derived: statements that assign ``gx0``,
            ``gw0``, … from ``xN``, ``wN``, results ``yN`` and their gradients ``gyN``.
        check: Whether ``gradient`` is held to central differences now, of random numbers.

    Raises:
        DefinitionError: The snippet is wrong; the message shows its line with a caret.

    Example:
        >>> import numpy as np, clprim as cp
        >>> axpb = cp.Pointwise("y0 = x0 * w0 + x1;")
        >>> x = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> b = cp.asarray(np.array([10, 20, 30], np.float32))
        >>> axpb(x, b, 2.0).get()
        array([[10., 22., 34.],
               [16., 28., 40.]], dtype=float32)
    """

    def __init__(
        self,
        expr: str,
        *,
        result_type: Any = None,
        preamble: str = "",
        name: str | None = None,
        gradient: str | None = None,
        check: bool = False,
    ) -> None:
        self.definition = define_pointwise(expr, name=name, preamble=preamble)
        self._inputs = self.definition.inputs
        self._scalars = self.definition.scalars
        self._text = f"Pointwise {shorten(expr)!r}"
        self._what = titled(self._text, name)
        check = flag(self._what, "check", check)
        self._result_type = result_dtypes(self._what, result_type, self.definition.results)
        self._gradient = gradient
        self._calls: Calls[Call] = Calls()
        if gradient is not None:
            self.gradient()
            if check:
                make("check", self)

    def __repr__(self) -> str:
        return f"<clprim.{self._text}>"

    def __call__(self, *args: Any, out: Any = None, shape: Sequence[int] | None = None) -> Array:
        """Computes the results.

        Args:
            args: The arrays x0, x1, …, then the scalars w0, w1, ….
            out: An array (for several results a tuple of them) to write to. It may be an input,
                but none that is read at coordinates.
            shape: Of the results; what the arrays broadcast to by default. They broadcast to it.

        Returns:
            An array, or a tuple of arrays; ``out`` where given. Results are laid out in memory as
            the first array with all dimensions is, or the first one of as many dimensions that is
            read at coordinates.

        Raises:
            ShapeError: Wrong number of arguments, shapes that do not broadcast, ``out`` of another
                shape or overlapping an input in part; a shape that is missing, as nothing
                broadcasts, or that the arrays do not broadcast to.
            DTypeError: An argument that is no array or no number, a dtype the device lacks.
            DeviceError: An array of another context.
            BuildError: The OpenCL compiler refused the snippet.
        """
        device = current_device()
        arrays, scalars = args[: self._inputs], args[self._inputs :]
        outs = () if out is None else (out,) if out.__class__ is Array else outputs_of(out)
        if shape is not None:
            shape = as_shape(self._what, shape)
        call, signature = self._calls.look_up(device, arrays, outs, scalars, shape)
        if call is None:
            numbers = as_numbers(args, self._inputs)
            if numbers is not args:
                return self(*numbers, out=out, shape=shape)
            call = self._prepare(device, args, out, shape)
            self._calls.remember(signature, call)
        results = call.allocate(device) if out is None else outs
        try:
            call.run(device, (*results, *arrays), scalars)
        except DTypeError:
            self._prepare(device, args, out, shape)  # says what is wrong with which number
            raise
        found: Any = results[0] if len(results) == 1 else results
        return found  # type: ignore[no-any-return] # several are a tuple of arrays

    def gradient(self, wrt: Any = None, *, saves: Any = ()) -> PointwiseGradient:
        """Returns the operator's gradient, whose strings are derived from its own.

        Args:
            wrt: Names of the arguments that gradients are wanted of, such as ``("x0", "w1")``;
                every array of a floating dtype by default, in order.
            saves: Results, such as ``"y0"``, that a call will be given as ``saved=``, so that they
                need not be computed again.

        Returns:
            What is called with the operator's arguments and ``grad=``, and prints as its strings.

        Raises:
            DefinitionError: A gradient would pass something that has none; with line and caret.

        Example:
            >>> import numpy as np, clprim as cp
            >>> g = cp.Pointwise("y0 = x0 * w0 + tanh(x1);").gradient()
            >>> print(g)
            typeof_gx0 t0 = tanh(x1);
            gx0 = gy0 * w0;
            gx1 = gy0 * (1 - t0 * t0);
            >>> x, b = cp.full((2, 3), 1.0), cp.zeros(3)
            >>> gx, gb = g(x, b, 2.0, grad=cp.full((2, 3), 1.0))
            >>> gx.get(), gb.get()
            (array([[2., 2., 2.],
                   [2., 2., 2.]], dtype=float32), array([2., 2., 2.], dtype=float32))
        """
        # Derivatives are loaded when first asked for, as they are a fifth of the import.
        from clprim.gradients.pointwise import PointwiseGradient

        return PointwiseGradient(
            self.definition,
            self._what,
            wrt=wrt,
            saves=saves,
            result_types=self._result_type,
            by_hand=self._gradient,
        )

    def source(self, *args: Any, out: Any = None, shape: Sequence[int] | None = None) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        device = current_device()
        plan, _ = self._plan(
            device, args, out, None if shape is None else as_shape(self._what, shape)
        )
        if plan is None:
            return "// no elements: nothing runs\n"
        return source_of(plan.template, plan.code)

    def _prepare(
        self, device: Device, args: tuple[Any, ...], out: Any, shape: tuple[int, ...] | None
    ) -> Call:
        """Checks and plans a call of a new signature, and builds its kernel."""
        plan, results = self._plan(device, args, out, shape)
        kernels = None if plan is None else Plan((plan,))
        return bind_strings(device, self._what, self.definition, kernels, results, self._inputs)

    def _plan(
        self, device: Device, args: tuple[Any, ...], out: Any, wanted: tuple[int, ...] | None = None
    ) -> tuple[KernelPlan | None, tuple[Described, ...]]:
        what = self._what
        arrays, scalars = split_arguments(what, args, self._inputs, self._scalars)
        outs = None if out is None else as_results(what, out, self.definition.results)
        check_arrays(what, arrays, outs or (), device)
        inputs = [operand_of(a) for a in arrays]
        broadcast = self.definition.broadcast
        if not broadcast and outs is None and wanted is None:
            raise ShapeError(
                f"{what}: no array broadcasts; give shape= or out= for the shape of the results"
            )
        shape = broadcast_shapes(what, [inputs[n].shape for n in broadcast])
        if wanted is not None:
            if not broadcasts_to(shape, wanted):
                raise ShapeError(f"{what}: arrays of shape {shape} do not broadcast to {wanted}")
            shape = wanted
        elif outs is not None and broadcasts_to(shape, outs[0].shape):
            shape = outs[0].shape  # as in NumPy, inputs broadcast to a larger out=
        array_dtypes = [a.dtype for a in inputs] or [o.dtype for o in outs or ()]
        scalar_types = scalar_dtypes(what, scalars, array_dtypes)
        dtypes_ = self._result_type or (
            (dtypes.promote([*array_dtypes, *scalar_types]),) * self.definition.results
        )
        in_place = False
        if outs is not None:
            for n, (o, dtype) in enumerate(zip(outs, dtypes_, strict=True)):
                check_out(what, n, o, shape, dtype if inputs else o.dtype)
            elsewhere = {k.array for k in self.definition.expr.lookups if k.function == "at"}
            in_place = check_aliases(what, outs, arrays, elsewhere=elsewhere)
            results = [operand_of(o) for o in outs]
        else:
            # One that is read at coordinates need not have the result's sizes, so that even where
            # it has one element, its stride says how its dimensions follow each other.
            guides = [
                broadcast_strides(a, shape) if n in broadcast else a.strides
                for n, a in enumerate(inputs)
                if n in broadcast or len(a.shape) == len(shape)
            ]
            results = _allocate(shape, dtypes_, guides)
        scalar_types = weaken(
            scalars, scalar_types, array_dtypes, [r.dtype for r in results], device.traits.fp64
        )
        everything = [*(a.dtype for a in (*inputs, *results)), *scalar_types]
        dtypes.require_supported(everything, device.traits, str(device))
        described = tuple((r.shape, r.dtype, r.strides, r.size) for r in results)
        if not math.prod(shape):
            return None, described
        plan = plan_pointwise(
            self.definition,
            shape,
            results,
            inputs,
            scalar_types,
            device.traits,
            in_place=in_place,
        )
        return plan, described


def _allocate(
    shape: tuple[int, ...], dtypes_: Sequence[Any], strides: Sequence[tuple[int, ...]]
) -> list[Operand]:
    order = memory_order(shape, strides)
    return [Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in dtypes_]


register("Pointwise", Pointwise)
