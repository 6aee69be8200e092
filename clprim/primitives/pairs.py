"""`Pairs`: a reduction over pairs of rows and columns, of which no memory holds all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clprim import dtypes
from clprim.arrays.array import Array
from clprim.call.arguments import check_aliases, check_out, check_side
from clprim.call.primitive import Request, Target, run, sources
from clprim.call.scalars import scalar_dtypes
from clprim.call.signature import outputs_of
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.gradients.kernels import register
from clprim.language.pairs_definition import define_pairs
from clprim.plan.kernel import Plan
from clprim.plan.reduction.nested import plan_nested
from clprim.plan.reduction.nested_code import Nested
from clprim.plan.reduction.nested_units import plan_by_units
from clprim.plan.strides import Operand, broadcast_shapes, broadcast_strides, dense_strides
from clprim.primitives.partials import default_results
from clprim.primitives.reduction import Reduction
from clprim.primitives.strings import Strings
from clprim.traits import DeviceTraits

if TYPE_CHECKING:
    from clprim.gradients.pairwise import PairsGradient


class Options(NamedTuple):
    """What a call is told beside arrays and numbers."""

    axis: Any = -1


class Pairs(Strings):
    """A reduction over pairs: a reduction in every pair, a map of it, a reduction of the values.

    Nothing of the size of all pairs is stored: memory is that of the operands.

    Args:
        inner: The reduction in every pair, along the last axis of its arrays; without it pairs
            have no axis of their own.
        expr: OpenCL C statements that compute ``y0``, … of a pair from the results ``d`` (or
            ``d0``, ``d1``, …) of ``inner``, further arrays and numbers.
        outer: The reduction over pairs. Its first arrays are ``y0``, … of ``expr``; further ones
            give results an axis of their own.
        preamble: OpenCL C functions for ``expr``.
        name: Of the kernel, in profiles.

    Arrays are numbered on: ``inner`` has x0, …, ``expr`` the next ones, then come those of
    ``outer`` behind its values. ``w0``, … are the same numbers in all strings. Everything but
    positions is computed in float32, or in float64 where an array has it.

    Raises:
        DefinitionError: Strings that do not fit together.

    Example:
        >>> import numpy as np, clprim as cp
        >>> squares = cp.Reduction(
        ...     "y0 = (x0 - x1) * (x0 - x1);", init="reduce_y0 = 0;", step="reduce_y0 += y0;"
        ... )
        >>> total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
        >>> gauss = cp.Pairs(inner=squares, expr="y0 = exp(-d * w0) * x2;", outer=total)
        >>> x = cp.asarray(np.float32([[0, 0], [3, 4]]))
        >>> y, b = cp.asarray(np.float32([[0, 0]])), cp.asarray(np.float32([2]))
        >>> gauss(x[:, None], y[None], b, 0.01).get()
        array([2.       , 1.5576016], dtype=float32)
    """

    def __init__(
        self,
        *,
        inner: Reduction | None = None,
        expr: str,
        outer: Reduction,
        preamble: str = "",
        name: str | None = None,
    ) -> None:
        for word, part in (("inner", inner), ("outer", outer)):
            if not isinstance(part, Reduction) and (part is not None or word == "outer"):
                raise DefinitionError(
                    f"Pairs {word}={quoted(part)}: expected a Reduction, got {type(part).__name__}"
                )
        definition = define_pairs(
            None if inner is None else inner.definition,
            expr,
            outer.definition,
            preamble=preamble,
            name=name,
        )
        self.inner, self.outer = inner, outer
        self.expr = expr
        super().__init__(expr, name, definition)

    def __call__(self, *args: Any, axis: int = -1, out: Any = None) -> Array:
        """Computes the reduction.

        Args:
            args: The arrays x0, x1, …: of ``inner`` such as broadcast to (…, M, N, K), of ``expr``
                to (…, M, N), of ``outer`` to (…, M, N, E), then the numbers w0, w1, …. No array
                but those of ``expr`` may have both M and N.
            axis: Of (…, M, N) the one that is reduced, the last or the last but one.
            out: An array, or a tuple for several results, to write to.

        Returns:
            An array of shape (…, M), or (…, M, E) where ``outer`` has arrays; N in the place of M
            where that is reduced. A tuple for several results.

        Raises:
            ShapeError: Wrong number of arguments, shapes that do not broadcast or vary with rows
                and columns, an axis that is neither of the two, ``out`` of another shape.
            DTypeError: An argument that is no array or no number; no floating-point numbers.
            DeviceError: An array of another context.
            BuildError: The OpenCL compiler refused a string.
        """
        arrays, numbers = args[: self.inputs], args[self.inputs :]
        found: Any = run(self, arrays, numbers, outputs_of(out), (axis,), axis)
        return found[0] if len(found) == 1 else found  # type: ignore[no-any-return] # or a tuple

    def gradient(self, wrt: Any = None) -> PairsGradient:
        """Returns the operator's gradient: further `Pairs`, or parts' gradients in blocks of rows.

        Args:
            wrt: Names of the arrays that gradients are wanted of; all by default.

        Returns:
            What is called with the operator's arguments, ``axis=`` and ``grad=``.

        Raises:
            DefinitionError: A gradient would pass something that has none or is not known.
        """
        # Derivatives are loaded when first asked for, as they are a fifth of the import.
        from clprim.gradients.pairwise import PairsGradient

        return PairsGradient(self, wrt)

    def source(self, *args: Any, axis: int = -1, out: Any = None) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        arrays, numbers = args[: self.inputs], args[self.inputs :]
        return sources(self, arrays, numbers, outputs_of(out), (axis,))

    nothing = "// no outputs: nothing runs\n"

    def problem(self, request: Request, target: Target) -> Nested:
        """See `clprim.call.primitive.Primitive.problem`."""
        what, definition = self.what, self.definition
        inputs, axis = request.operands, Options(*request.options).axis
        check_side(what, axis)
        own, shared = definition.own, definition.shared
        pairs = self.shape_of([a.shape for a in inputs])
        depth = broadcast_shapes(what, [a.shape[-1:] for a in inputs[:own]])[0] if own else 1
        ends = [a.shape[-1:] for a in inputs[shared:]]
        spread = broadcast_shapes(what, ends)[0] if ends else 1
        last = (depth, spread)
        strides = [self._steps(k, a, pairs, last[k >= own], axis) for k, a in enumerate(inputs)]
        shape = pairs if axis == -1 else (*pairs[:-2], pairs[-1], pairs[-2])
        self._refuse_crossed(shape, strides, inputs)
        result_shape = shape[:-1] + ((spread,) if definition.spread else ())
        dtypes_given = [a.dtype for a in inputs]
        common = dtypes.promote(dtypes_given)
        if common.kind not in "fV":
            raise DTypeError(f"{what}: arrays have dtype {common}; expected floating-point numbers")
        scalar_dtypes(what, request.numbers, dtypes_given)
        real = dtypes.value_dtype(common, [common])
        int64 = np.dtype(np.int64)
        outer = definition.outer
        held = [int64 if n in outer.positions else real for n in range(outer.partials)]
        partials = tuple(self.outer._partial_type or held)
        natural = self.outer._result_type or default_results(outer, [common])
        results = self._results(request.outs, result_shape, natural, inputs)
        dtypes.require_supported(
            [*dtypes_given, real, *(r.dtype for r in results)], target.traits, str(target)
        )
        own_axis = (0,) * (not definition.spread)
        result_strides = [(*broadcast_strides(r, result_shape), *own_axis) for r in results]
        return Nested(
            definition,
            shape,
            depth,
            spread,
            inputs,
            tuple(strides),
            results,
            tuple(result_strides),
            tuple(real for _ in request.numbers),
            real,
            partials,
        )

    def _steps(
        self, k: int, array: Operand, pairs: tuple[int, ...], last: int, axis: int
    ) -> tuple[int, ...]:
        """The strides of an array over rows, columns and an axis of its own, or 0."""
        own, shared = self.definition.own, self.definition.shared
        mapped = own <= k < shared
        steps = broadcast_strides(array, pairs if mapped else (*pairs, last))
        steps = (*steps, 0) if mapped else steps
        if axis == -2:
            steps = (*steps[:-3], steps[-2], steps[-3], steps[-1])
        if steps[-3] and steps[-2] and not mapped:
            raise ShapeError(
                f"{self.what}: x{k} has shape {array.shape}, which varies with rows and columns; "
                "only arrays of expr may"
            )
        return steps

    def _results(
        self, outs: Sequence[Operand], shape: tuple[int, ...], natural: Any, inputs: Any
    ) -> tuple[Operand, ...]:
        """The results, checked where they are given."""
        if not outs:
            order = range(len(shape))
            return tuple(
                Operand(shape, dense_strides(shape, d.itemsize, order), 0, d) for d in natural
            )
        for n, (o, dtype) in enumerate(zip(outs, natural, strict=True)):
            check_out(self.what, n, o, shape, dtype)
        check_aliases(self.what, outs, inputs, same_allowed=False)
        return tuple(outs)

    def shape_of(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Returns (…, M, N) of arrays of these shapes, refused where they do not fit."""
        what, own, shared = self.what, self.definition.own, self.definition.shared
        spaces = []
        for k, shape in enumerate(shapes):
            further = k < own or k >= shared  # has an axis of its own
            if further and not shape:
                raise ShapeError(f"{what}: x{k} has no dimensions; expected an axis of pairs")
            spaces.append(shape[:-1] if further else shape)
        pairs = broadcast_shapes(what, spaces)
        if len(pairs) < 2:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(f"{what}: shapes {listed}: expected (…, M, 1, K) with (…, 1, N, K)")
        return pairs

    def snippets(self, problem: Any) -> Mapping[str, str]:
        """The strings, each by the reduction that it is of."""
        definition = self.definition
        sides = {"inner": definition.inner, "outer": definition.outer}
        found = {"expr": definition.expr.text, "preamble": definition.preamble}
        for side, part in sides.items():
            if part is not None:
                found |= {f"{side}_{s.rules.part}": s.text for s in part.snippets}
        if (online := definition.online) is not None:
            found["exponent"] = online.exponent.text
            found |= {f"factor_{n}": f.text for n, f in enumerate(online.factors) if f is not None}
        return found | {p.part: p.text for s in definition.snippets for p in s.pieces}

    def _refuse_crossed(
        self, shape: Sequence[int], strides: Sequence[tuple[int, ...]], inputs: Sequence[Operand]
    ) -> None:
        """Refuses batches of columns that are not one loop: their panels could not be packed."""
        definition = self.definition
        for k, steps in enumerate(strides):
            if definition.own <= k < definition.shared or not steps[-2]:
                continue
            moves = [(n, s) for n, s in zip(shape[:-2], steps[:-3], strict=True) if s and n > 1]
            for (_, before), (n, s) in itertools.pairwise(moves):
                if before != s * n:
                    raise ShapeError(
                        f"{self.what}: x{k} has shape {inputs[k].shape} and strides "
                        f"{inputs[k].strides}; expected batches that follow each other evenly"
                    )

    def plan(self, problem: Nested, traits: DeviceTraits) -> Plan | None:
        """See `clprim.call.primitive.Primitive.plan`."""
        return plan_by_units(problem, traits) or plan_nested(problem, traits)


register("Pairs", Pairs)
