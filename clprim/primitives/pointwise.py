"""`Pointwise`: a kernel from one string, computed element by element with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.arrays.validation import flag
from clprim.call.arguments import as_shape, check_aliases, check_out, result_dtypes
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target, run, sources
from clprim.call.scalars import scalar_dtypes, weaken
from clprim.call.signature import outputs_of
from clprim.errors import ShapeError
from clprim.gradients.kernels import make, register
from clprim.language.definition import define_pointwise
from clprim.plan.kernel import Plan
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.pointwise.planner import Mapped
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    broadcasts_to,
    dense_strides,
    memory_order,
)
from clprim.primitives.partials import default_types
from clprim.primitives.strings import Strings
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.gradients.pointwise import PointwiseGradient


class Pointwise(Strings):
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

    complex_numbers = True

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
        definition = define_pointwise(expr, name=name, preamble=preamble)
        super().__init__(expr, name, definition)
        check = flag(self.what, "check", check)
        self._result_type = result_dtypes(self.what, result_type, definition.results)
        self._gradient = gradient
        if gradient is not None:
            self.gradient()
            if check:
                make("check", self)

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
        outs = () if out is None else (out,) if out.__class__ is Array else outputs_of(out)
        if shape is not None:
            shape = as_shape(self.what, shape)
        found: Any = run(self, args[: self.inputs], args[self.inputs :], outs, shape)
        return found[0] if len(found) == 1 else found  # type: ignore[no-any-return] # or a tuple

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
            self.what,
            wrt=wrt,
            saves=saves,
            result_types=self._result_type,
            by_hand=self._gradient,
        )

    def source(self, *args: Any, out: Any = None, shape: Sequence[int] | None = None) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        options = None if shape is None else as_shape(self.what, shape)
        arrays, numbers = args[: self.inputs], args[self.inputs :]
        return sources(self, arrays, numbers, outputs_of(out), options)

    def problem(self, request: Request, target: Target) -> Mapped:
        """See `clprim.call.primitive.Primitive.problem`; options are the shape, or None."""
        what, inputs, wanted, outs = self.what, request.operands, request.options, request.outs
        broadcast = self.definition.broadcast
        if not broadcast and not outs and wanted is None:
            raise ShapeError(
                f"{what}: no array broadcasts; give shape= or out= for the shape of the results"
            )
        shape = broadcast_shapes(what, [inputs[n].shape for n in broadcast])
        if wanted is not None:
            if not broadcasts_to(shape, wanted):
                raise ShapeError(f"{what}: arrays of shape {shape} do not broadcast to {wanted}")
            shape = wanted
        elif outs and broadcasts_to(shape, outs[0].shape):
            shape = outs[0].shape  # as in NumPy, inputs broadcast to a larger out=
        array_dtypes = [a.dtype for a in inputs] or [o.dtype for o in outs]
        scalar_types = scalar_dtypes(what, request.numbers, array_dtypes)
        dtypes_ = self._result_type or default_types(
            self.definition,
            [*(a.dtype for a in inputs), *scalar_types],
            dtypes.promote([*array_dtypes, *scalar_types]),
        )
        in_place = False
        results = outs
        if outs:
            for n, (o, dtype) in enumerate(zip(outs, dtypes_, strict=True)):
                check_out(what, n, o, shape, dtype if inputs else o.dtype)
            elsewhere = {k.array for k in self.definition.expr.lookups if k.function == "at"}
            in_place = check_aliases(what, outs, inputs, elsewhere=elsewhere)
        else:
            # One that is read at coordinates need not have the result's sizes, so that even where
            # it has one element, its stride says how its dimensions follow each other.
            guides = [
                broadcast_strides(a, shape) if n in broadcast else a.strides
                for n, a in enumerate(inputs)
                if n in broadcast or len(a.shape) == len(shape)
            ]
            order = memory_order(shape, guides)
            results = tuple(
                Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in dtypes_
            )
        stored = [r.dtype for r in results]
        traits = target.traits
        scalar_types = weaken(request.numbers, scalar_types, array_dtypes, stored, traits.fp64)
        everything = [*(a.dtype for a in inputs), *stored, *scalar_types]
        dtypes.require_supported(everything, traits, str(target))
        given = self.definition, shape, results, inputs
        return Mapped(*given, tuple(scalar_types), in_place)

    def has_kernels(self, problem: Mapped) -> bool:
        """See `clprim.call.primitive.Primitive.has_kernels`."""
        expr = self.definition.expr
        if expr.draws or expr.lookups or expr.dims or not math.prod(problem.shape):
            return False
        for operand in (*problem.results, *problem.inputs):
            size = operand.dtype.itemsize
            if operand.dtype.kind == "c":
                return False  # a string may have no meaning of complex numbers
            if size == 1 or math.gcd(size, operand.offset, *operand.strides) != size:
                return False
        return True

    def plan(self, problem: Mapped, traits: DeviceTraits) -> Plan | None:
        """See `clprim.call.primitive.Primitive.plan`."""
        return POINTWISE.plan(problem, traits) if math.prod(problem.shape) else None


register("Pointwise", Pointwise)
register_form("Pointwise", Pointwise)
