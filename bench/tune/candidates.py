"""Which tiles of contractions are worth a try."""

from __future__ import annotations

import math

from bench.tune.depthwise_candidates import depthwise_candidates
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.product.in_place import ROWS
from clprim.plan.product.local_tile import local_tiles
from clprim.plan.product.problem import Contraction
from clprim.plan.product.strategy import plan_choice, plan_contraction
from clprim.plan.product.tiles import SHORTEST_CHAIN
from clprim.plan.table import KERNELS, Choice, chosen
from clprim.traits import DeviceTraits

__all__ = ["candidates"]

# Of each kernel: every one is compiled, which takes a second.
_IN_PLACE, _PANELS, _LOCAL = 6, 3, 10


def candidates(
    what: Contraction | Depthwise | DepthwiseGradient, strategy: str, traits: DeviceTraits
) -> list[Choice]:
    """Returns the rule's choice, then others that fit, what promises most first.

    Args:
        what: The contraction.
        strategy: ``panels``, ``tiles`` or ``depthwise``.
        traits: Of the device.
    """
    if not isinstance(what, Contraction):
        return depthwise_candidates(what, traits)
    plan = plan_contraction(what, traits, strategy)
    rule = chosen(plan)
    if rule is None:
        return []
    gathered_rows = plan.main.code.gathered == "rows"
    find = _local if strategy == "tiles" else _registers
    others = find(what, gathered_rows, traits)
    others = [c for c in others if c != rule and plan_choice(what, traits, c) is not None]
    return [rule, *others]


def _local(what: Contraction, gathered_rows: bool, traits: DeviceTraits) -> list[Choice]:
    lanes, depth = math.prod(what.lanes), math.prod(what.depths)
    sizes = (lanes, what.outputs) if gathered_rows else (what.outputs, lanes)
    batch = what.groups * max(1, depth // SHORTEST_CHAIN)
    found = local_tiles(*sizes, batch, what.value.itemsize, traits)[:_LOCAL]
    return [Choice("tiles", tuple(getattr(t, name) for name in KERNELS["tiles"])) for t in found]


def _registers(what: Contraction, gathered_rows: bool, traits: DeviceTraits) -> list[Choice]:
    width = max(2, min(16, traits.vector_bytes // what.value.itemsize))
    most = 28 if traits.vector_bytes >= 64 else 12
    tiles = [(r, v) for r in ROWS for v in (1, 2, 4) if most // 4 <= r * v <= most]

    def cost(tile: tuple[int, int], lanes: int) -> float:
        """Instructions for all, of those lanes that a tile must not cross the end of."""
        rows, vectors = tile
        down, across = (lanes, what.outputs) if gathered_rows else (what.outputs, lanes)
        work = -(-down // rows) * -(-across // (vectors * width))
        return work * (rows * vectors + rows + vectors)

    near = sorted(tiles, key=lambda tile: cost(tile, what.lanes[2]))[:_IN_PLACE]
    far = sorted(tiles, key=lambda tile: cost(tile, math.prod(what.lanes)))[:_PANELS]
    return [Choice("in_place", t) for t in near] + [Choice("panels", t) for t in far]
