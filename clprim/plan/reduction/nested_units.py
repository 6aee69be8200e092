"""Reductions over pairs whose pairs are products, by matrix units: a block of rows at a time.

What a row and a column give is an element of a matrix product, in float32; the units compute those
of a block of rows, which lie in memory until ``reduction/nested`` has mapped and reduced them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from clprim.language.check_snippet import check
from clprim.language.pairs_definition import PairsDefinition
from clprim.language.preamble import read_preamble
from clprim.language.rename import renamed
from clprim.plan.kernel import Plan
from clprim.plan.machine import LAUNCH, SUB_GROUP
from clprim.plan.product.matrix import matrix_applicable, plan_matrix
from clprim.plan.product.matrix_tile import matrix_tiles
from clprim.plan.product.problem import Contraction, Gathered, Output, Packed
from clprim.plan.reduction.nested import plan_nested
from clprim.plan.reduction.nested_code import Nested
from clprim.plan.reduction.pairs import kind_of
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

_PRODUCTS = ("y0=x0*x1", "y0=x1*x0")


def plan_by_units(what: Nested, traits: DeviceTraits) -> Plan | None:
    """Plans a call; None where pairs are no products of 16 bits, or the device has no units."""
    if not (traits.matrix_units and is_product(what.definition) and what.real == np.float32):
        return None
    if what.inputs[0].dtype.itemsize != 2 or not all(y.size for y in what.results):
        return None
    steps = _group_steps(what)
    kinds = [kind_of(*s[-3:-1]) for s in what.strides[:2]]
    if steps is None or sorted(kinds) != ["column", "row"]:
        return None
    *batch, rows, columns = what.shape
    groups = math.prod(batch)
    # So many pairs that units map them for longer than a launch takes.
    block = min(rows, LAUNCH * traits.compute_units // (groups * columns))
    product = _product(what, kinds.index("row"), steps, block)
    if block < min(rows, SUB_GROUP) or not matrix_applicable(product, traits):
        return None
    tile = matrix_tiles(product, traits)[0].tile
    plans = []
    for n in range(-(-rows // block)):
        # The last block is as long as the others: every row is computed alike.
        first = min(n * block, rows - block)
        own = _product(what, kinds.index("row"), steps, block, first)
        made = plan_matrix(own, traits, tile)
        plans.append(_renamed(made, {"y0": "pairs"}))
        reduced = plan_nested(_mapped(what, block, first), traits)
        assert reduced is not None  # it has results
        plans.append(_renamed(reduced, _names(what.definition)))
    found = Plan.joined(plans)
    held = groups * block * columns, what.real
    return replace(found, workspace={**found.workspace, "pairs": held})


def is_product(definition: PairsDefinition) -> bool:
    """Whether a pair is the sum of products of one element of each side."""
    inner = definition.inner
    if inner is None or inner.finalize is not None or inner.inputs != 2 or inner.partials != 1:
        return False
    texts = (inner.expr, inner.init, inner.step)
    expr, init, step = ("".join(t.text for t in s.tokens).rstrip(";") for s in texts)
    return expr in _PRODUCTS and init == "reduce_y0=0" and step == "reduce_y0+=y0"


def _group_steps(what: Nested) -> tuple[int, int] | None:
    """How far both sides are from one batch to the next; None where batches are no one loop."""
    found = []
    for strides in what.strides[:2]:
        own = [(n, s) for n, s in zip(what.shape[:-2], strides[:-3], strict=True) if n > 1]
        if any(s != n * t for (_, s), (n, t) in pairwise(own)):
            return None
        found.append(own[-1][1] if own else 0)
    return found[0], found[1]


def _product(
    what: Nested, row: int, steps: tuple[int, int], block: int, first: int = 0
) -> Contraction:
    """The products of a block of rows with all columns."""
    *batch, _, columns = what.shape
    groups = math.prod(batch)
    x, w = what.inputs[row], what.inputs[1 - row]
    own, other = what.strides[row], what.strides[1 - row]
    start = x.in_elements(x.offset) + first * own[-3]
    reach = (groups - 1) * steps[row] + (block - 1) * own[-3] + (what.depth - 1) * own[-1]
    return Contraction(
        name=what.definition.name,
        groups=groups,
        lanes=(1, 1, block),
        depths=(1, 1, what.depth),
        outputs=columns,
        value=what.real,
        gathered=Gathered(
            x.dtype,
            start,
            steps[row],
            (0, 0, own[-3]),
            (0, 0, own[-1]),
            start + max(0, reach) + 1,
            buffer=f"x{row}",
        ),
        packed=Packed(
            w.dtype,
            w.in_elements(w.offset),
            steps[1 - row],
            other[-2],
            (0, 0, other[-1]),
            buffer=f"x{1 - row}",
        ),
        y=Output("y0", what.real, 0, block * columns, 1, (0, 0, columns)),
    )


def _mapped(what: Nested, block: int, first: int) -> Nested:
    """The call over pairs of a block that lie in memory."""
    definition = what.definition
    *batch, _, columns = what.shape
    shape = (*batch, block, columns)
    steps = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    size = what.real.itemsize
    pairs = Operand(shape, tuple(s * size for s in steps), 0, what.real)

    def moved(operand: Operand, step: int) -> Operand:
        return replace(operand, offset=operand.offset + first * step * operand.dtype.itemsize)

    inputs = [moved(a, s[-3]) for a, s in zip(what.inputs, what.strides, strict=True)]
    results = zip(what.results, what.result_strides, strict=True)
    own, shared = definition.own, definition.shared
    strides = what.strides
    return replace(
        what,
        definition=_without_inner(definition),
        shape=shape,
        depth=1,
        inputs=(*inputs[own:shared], pairs, *inputs[shared:]),
        strides=(*strides[own:shared], (*steps, 0), *strides[shared:]),
        results=tuple(moved(y, s[-2]) for y, s in results),
    )


@lru_cache(maxsize=64)
def _without_inner(definition: PairsDefinition) -> PairsDefinition:
    """The definition whose pairs are the last array that ``expr`` reads."""
    own, shared = definition.own, definition.shared
    names = {f"x{n}": f"x{n - own}" for n in range(own, shared)}
    text = renamed(definition.expr, names | {"reduce_y0": f"x{shared - own}"})
    helpers = read_preamble("Pairs", definition.preamble)
    expr = check(definition.expr.rules, text, helpers)
    inputs = definition.inputs - own + 1
    return replace(definition, inner=None, expr=expr, inputs=inputs, shared=shared - own + 1)


def _names(definition: PairsDefinition) -> dict[str, str]:
    """What the arrays of `_without_inner` are in a call."""
    own, shared = definition.own, definition.shared
    there = [*range(own, shared), None, *range(shared, definition.inputs)]
    return {f"x{n}": "pairs" if k is None else f"x{k}" for n, k in enumerate(there)}


def _renamed(plan: Plan, names: dict[str, str]) -> Plan:
    return replace(plan, stages=tuple(stage.renamed(names) for stage in plan.stages))
