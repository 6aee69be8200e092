"""What a user defined as a `Pairs`: reductions in pairs, a map of them, a reduction of pairs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from clprim.errors import DefinitionError
from clprim.language.check_snippet import check
from clprim.language.componentwise import is_componentwise
from clprim.language.definition import (
    ReductionDefinition,
    count_operands,
    kernel_name,
    require_assigned,
)
from clprim.language.online_softmax import OnlineSoftmax, online_softmax
from clprim.language.preamble import read_preamble
from clprim.language.snippet import Rules, Snippet

_RESULT = re.compile(r"(?<![\w.])(typeof_)?d(\d*)(?!\w)")


@dataclass(frozen=True)
class PairsDefinition:
    """A checked `Pairs`."""

    name: str
    inner: ReductionDefinition | None
    expr: Snippet
    outer: ReductionDefinition
    preamble: str
    inputs: int
    scalars: int
    values: int
    shared: int

    @property
    def results(self) -> int:
        """How many results there are."""
        return self.outer.results

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Every snippet of the definition."""
        inner = () if self.inner is None else self.inner.snippets
        return (*inner, self.expr, *self.outer.snippets)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers; it does not."""
        return False

    @property
    def own(self) -> int:
        """How many arrays the inner reduction has: the first ones."""
        return 0 if self.inner is None else self.inner.inputs

    @property
    def spread(self) -> bool:
        """Whether results have an axis of their own, along which the last arrays lie."""
        return self.inputs > self.shared

    @cached_property
    def online(self) -> OnlineSoftmax | None:
        """What is known of an outer reduction along results' own axis that is a softmax."""
        return online_softmax(self.outer, self.values) if self.spread else None

    @cached_property
    def componentwise(self) -> bool:
        """Whether what makes pairs computes on vectors what it computes on scalars."""
        inner = self.inner
        found = is_componentwise(self.expr)
        if inner is not None:
            found = found and inner.componentwise and inner.combine_componentwise
            found = found and (inner.finalize is None or is_componentwise(inner.finalize))
        return found


def define_pairs(
    inner: ReductionDefinition | None,
    expr: str,
    outer: ReductionDefinition,
    *,
    preamble: str,
    name: str | None,
) -> PairsDefinition:
    """Checks how the strings of a `Pairs` fit together; see there for the arguments."""
    owner = "Pairs"
    if not isinstance(expr, str):
        raise DefinitionError(f"{owner} expr: expected a string, got {type(expr).__name__}")
    together = {d.preamble: None for d in (inner, outer) if d is not None and d.preamble}
    together |= {preamble: None} if preamble else {}
    helpers = read_preamble(owner, "\n".join(together))
    reads = frozenset(["x", "w", "reduce_y"])
    text = _RESULT.sub(lambda m: f"{m[1] or ''}reduce_y{m[2] or 0}", expr)
    checked = check(Rules(owner, "expr", reads, frozenset(["y"])), text, helpers)
    values = require_assigned(checked, "y", "no value of a pair is assigned; expected y0 = …;")
    own, found, what = 0, 0, "there is no inner reduction"
    if inner is not None:
        own, found, what = inner.inputs, inner.results, f"inner has {inner.results} results"
    checked.require("reduce_y", range(found), f"d{{n}} is not there: {what}")
    shared = max((n + 1 for n in checked.numbers("x")), default=own)
    theirs = f"x{{n}} is an array of inner; expr's begin with x{own}"
    checked.require("x", range(own, shared), theirs)
    for n in range(own, shared):
        if n not in checked.numbers("x"):
            raise checked.error(f"x{shared - 1}", f"x{shared - 1} is used but x{n} is not")
    if not shared:
        raise checked.error("", "pairs need arrays: inner=, or x0 in expr")
    parts = tuple(d for d in (inner, outer) if d is not None)
    for part in parts:
        if part.draws or any(s.dims or "index" in s.used for s in part.snippets):
            raise DefinitionError(
                f"{owner}: a reduction of pairs has no index, coord, size or random numbers"
            )
        if part.finalized:
            raise DefinitionError(f"{owner}: finalize reads arrays, which pairs have none of there")
    if inner is not None and inner.positions:
        raise DefinitionError(f"{owner}: inner keeps positions; only outer may")
    if outer.inputs < values:
        raise DefinitionError(
            f"{owner}: expr assigns {values} values, outer takes {outer.inputs} arrays; its first "
            "arrays are these values"
        )
    snippets = (checked, *(s for part in parts for s in part.snippets))
    return PairsDefinition(
        name=kernel_name(name, "pairs", helpers.names),
        inner=inner,
        expr=checked,
        outer=outer,
        preamble=helpers.text,
        inputs=shared + outer.inputs - values,
        scalars=count_operands(owner, "w", snippets),
        values=values,
        shared=shared,
    )
