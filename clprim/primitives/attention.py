"""The primitives of attention: its result, that of few queries, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clprim.call.forms import register_form
from clprim.call.primitive import NoPlanError, Primitive, Request, Target
from clprim.plan.fused.attention import plan_attention
from clprim.plan.fused.attention_few import plan_attention_few
from clprim.plan.fused.attention_gradient import plan_attention_gradient, tiles_of
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

_READ = ("q", "k", "v", "grad", "sums", "delta")
_WRITTEN = ("dq", "dk", "dv", "dmask")


class Problem(NamedTuple):
    """What a call computes: results from arrays, of which a mask is the last one."""

    results: tuple[Operand, ...]
    arrays: tuple[Operand, ...]
    options: Any


class _Written(Primitive):
    """A primitive whose results are all given."""

    def problem(self, request: Request, target: Target) -> Problem:
        """See `Primitive.problem`."""
        del target
        return Problem(request.outs, request.operands, request.options)

    def names(self, problem: Problem) -> Sequence[str]:
        """The result and the sums, then queries, keys, values and the mask."""
        return ("y", "sums", "q", "k", "v", "mask")[: 2 + len(problem.arrays)]


class Causal(NamedTuple):
    """What attention is told."""

    causal: bool
    rows: int


class _Attention(_Written):
    """Attention, and the logarithm of each query's sum; see `plan_attention`."""

    def plan(self, problem: Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        (y, sums), (q, k, v, *mask), (causal, rows), *_ = problem
        seen = mask[0] if mask else None
        return _there(plan_attention(q, k, v, y, sums, seen, causal, rows, traits))


class _Few(_Written):
    """Attention of few queries; see `plan_attention_few`. Its option is how many slices of keys."""

    def plan(self, problem: Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        slices, (q, k, v, *mask) = problem.options, problem.arrays
        steps = (0, 0)
        y, sums = problem.results
        if slices > 1:
            steps = y.strides[0], sums.strides[0]
            y, sums = map(_first, problem.results)
        seen = mask[0] if mask else None
        return _there(plan_attention_few(q, k, v, y, sums, seen, steps, slices, traits))


class Shared(NamedTuple):
    """What gradients are told: as `Causal`, and how many heads share the mask's gradient."""

    causal: bool
    rows: int
    shared: int


class _Gradient(_Written):
    """The gradients of attention; see `plan_attention_gradient`."""

    def plan(self, problem: Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        causal, rows, shared = problem.options
        arrays = (*problem.results, *problem.arrays)
        named = dict(zip(self.names(problem), arrays, strict=True))
        order = (*_READ, *_WRITTEN[:3], "mask", "dmask")  # as the kernel takes them
        operands = {name: named[name] for name in order if name in named}
        query, keys, features = operands["q"], *operands["v"].shape[-2:]
        tiles = tiles_of(query.shape, keys, features, query.dtype.itemsize, traits, shared)
        if tiles is None:
            raise NoPlanError
        return _there(plan_attention_gradient(operands, tiles, causal, rows, traits, shared))

    def names(self, problem: Problem) -> Sequence[str]:
        """The gradients, then what is read."""
        read = (*_READ, "mask")[: len(problem.arrays)]
        return *_WRITTEN[: len(problem.results)], *read


def _first(operand: Operand) -> Operand:
    """The first of some arrays that lie one after another."""
    shape, strides = operand.shape[1:], operand.strides[1:]
    return Operand(shape, strides, operand.offset, operand.dtype)


def _there(plan: Plan | None) -> Plan:
    """Returns a plan that is there."""
    if plan is None:
        raise NoPlanError
    return plan


ATTENTION, FEW_QUERIES = _Attention("attention"), _Few("attention of few queries")
GRADIENT = _Gradient("gradient of attention")
for _each in (ATTENTION, FEW_QUERIES, GRADIENT):
    register_form(_each.what, lambda found=_each: found, Causal, Shared)
