"""The primitives of attention: its result, that of few queries, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from clprim.call.forms import register_form
from clprim.call.primitive import Primitive, Request, Target, planned_by
from clprim.plan.fused.attention_few import FewQueries
from clprim.plan.fused.attention_gradient import HeadGradients
from clprim.plan.fused.family import (
    ATTENTION_FEW,
    ATTENTION_GRADIENTS,
    ATTENTION_UNIT_GRADIENTS,
    ATTENTIONS,
)
from clprim.plan.fused.heads import Heads
from clprim.plan.fused.score import Score
from clprim.plan.kernel import Plan
from clprim.plan.strategy import Family
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

_READ = ("q", "k", "v", "grad", "sums", "delta")
_WRITTEN = ("dq", "dk", "dv", "dmask")


class Problem(NamedTuple):
    """What a call computes: of arrays a mask, or lengths and a bias, and a string's come last."""

    results: tuple[Operand, ...]
    arrays: tuple[Operand, ...]
    options: Options


class Options(NamedTuple):
    """What attention is told."""

    causal: bool = False
    rows: int = 0  # Queries of a call that draws
    score: Score | None = None
    shared: int = 1  # Heads that share the mask's gradient
    slices: int = 1  # Of keys


class _Written(Primitive):
    """A primitive whose results are all given."""

    def __init__(
        self,
        what: str,
        family: Family[Any],
        heads: Callable[[Problem, dict[str, Operand]], Heads],
        written: tuple[str, ...] = ("y", "sums"),
        read: tuple[str, ...] = ("q", "k", "v"),
    ) -> None:
        super().__init__(what)
        self._family, self._heads = family, heads
        self._written, self._read = written, read

    def problem(self, request: Request, target: Target) -> Problem:
        """See `Primitive.problem`."""
        del target
        return Problem(request.outs, request.operands, request.options)

    def plan(self, problem: Problem, traits: DeviceTraits) -> Plan | None:
        """See `Primitive.plan`."""
        given = zip(self.names(problem), (*problem.results, *problem.arrays), strict=True)
        named = dict(given)
        # As kernels take them: what is read, what is written, then a mask and its gradient.
        order = (*self._read, *self._written[:3], "mask", "dmask", "length", "bias")
        arrays = {name: named[name] for name in order if name in named}
        arrays |= {name: named[name] for name in named if name[0] == "x"}
        return planned_by(self._family, self._heads(problem, arrays), traits)

    def names(self, problem: Problem) -> Sequence[str]:
        """The results, queries, keys, values, the mask or lengths and the bias, and a string's."""
        score = problem.options.score
        scored = score.counts[0] if score else 0
        count = len(problem.arrays) - scored
        cached = any(a.dtype.kind == "i" for a in problem.arrays[3:count][:1])
        last = ("length", "bias") if cached else ("mask",)
        read = (*self._read, *last)[:count] + tuple(f"x{n}" for n in range(scored))
        return *self._written[: len(problem.results)], *read

    def snippets(self, problem: Problem) -> Mapping[str, str]:
        """See `Primitive.snippets`."""
        score = problem.options.score
        return {"score": score.text, "score_slope": score.slope} if score else {}


def _few(problem: Problem, arrays: dict[str, Operand]) -> FewQueries:
    """Of slices the first one's results."""
    slices, steps = problem.options.slices, (0, 0)
    if slices > 1:
        y, sums = problem.results
        steps = y.strides[0], sums.strides[0]
        arrays |= {"y": _first(y), "sums": _first(sums)}
    return FewQueries(arrays, score=problem.options.score, slices=slices, steps=steps)


def _first(operand: Operand) -> Operand:
    """The first of some arrays that lie one after another."""
    shape, strides = operand.shape[1:], operand.strides[1:]
    return Operand(shape, strides, operand.offset, operand.dtype)


#: Attention, and the logarithm of each query's sum; that of few queries; gradients, by matrix
#: units of what is stored, too.
ATTENTION = _Written("attention", ATTENTIONS, lambda p, arrays: Heads(arrays, *p.options[:3]))
FEW_QUERIES = _Written("attention of few queries", ATTENTION_FEW, _few)
GRADIENT, UNIT_GRADIENT = (
    _Written(what, family, lambda p, arrays: HeadGradients(arrays, *p.options[:4]), _WRITTEN, _READ)
    for what, family in (
        ("gradient of attention", ATTENTION_GRADIENTS),
        ("gradient of attention by units", ATTENTION_UNIT_GRADIENTS),
    )
)
for _each in (ATTENTION, FEW_QUERIES, GRADIENT, UNIT_GRADIENT):
    register_form(_each.what, lambda found=_each: found, Options, Score)
