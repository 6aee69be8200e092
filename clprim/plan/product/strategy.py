"""The strategies of contractions by name, and which of them a device gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clprim.errors import DefinitionError
from clprim.plan.conv.winograd.kernels import plan_winograd
from clprim.plan.conv.winograd.tile import pays_winograd, takes_winograd, winograd_tile
from clprim.plan.depthwise.planner import plan_depthwise
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.kernel import Plan
from clprim.plan.product.in_place import plan_in_place
from clprim.plan.product.panels import plan_panels
from clprim.plan.product.problem import Contraction
from clprim.plan.product.tiles import plan_tiles
from clprim.plan.table import DEPTHWISE, Choice, Table, chosen, tile_of
from clprim.traits import DeviceTraits

__all__ = ["STRATEGIES", "WINOGRAD", "plan_choice", "plan_contraction"]


def _plan_panels(what: Contraction, traits: DeviceTraits) -> Plan:
    return plan_in_place(what, traits) or plan_panels(what, traits)


#: Each does every contraction, on any device.
STRATEGIES: dict[str, Callable[[Contraction, DeviceTraits], Plan]] = {
    "panels": _plan_panels,
    "tiles": plan_tiles,
}

#: Does some convolutions, with errors of its own.
WINOGRAD = "winograd"

# The kernels that a table may choose.
_KERNELS: dict[str, Callable[[Contraction, DeviceTraits, Any], Plan | None]] = {
    "in_place": plan_in_place,
    "panels": plan_panels,
    "tiles": plan_tiles,
}
_NOTHING_KNOWN = Table()


def plan_choice(
    what: Contraction | Depthwise | DepthwiseGradient, traits: DeviceTraits, choice: Choice
) -> Plan | None:
    """Plans one kernel with one tile; None where tile or kernel do not fit.

    Args:
        what: The contraction.
        traits: Of the device.
        choice: The kernel and the tile.
    """
    if isinstance(what, Depthwise | DepthwiseGradient):
        plan = plan_depthwise(what, traits, choice.kernel, choice.numbers)
        return plan if chosen(plan) == choice else None
    tile = tile_of(choice, what.value.itemsize, traits)
    return None if tile is None else _KERNELS[choice.kernel](what, traits, tile)


def plan_contraction(
    what: Contraction | Depthwise | DepthwiseGradient,
    traits: DeviceTraits,
    strategy: str = "auto",
    table: Table = _NOTHING_KNOWN,
    error: float = 0.0,
) -> Plan:
    """Plans the kernels of a contraction.

    Args:
        what: The contraction; neither lanes nor outputs nor groups may be 0.
        traits: Of the device.
        strategy: One of `STRATEGIES`, ``winograd``, or ``auto``.
        table: Of tiles; where it says nothing, or nothing that fits, a rule chooses.
        error: Relative root mean square error that an algorithm may have.

    Raises:
        DefinitionError: A strategy that cannot do it.
    """
    if isinstance(what, Depthwise | DepthwiseGradient):
        known = table.choice(what, DEPTHWISE)
        if known is None:
            return plan_depthwise(what, traits)
        return plan_depthwise(what, traits, known.kernel, known.numbers)
    if strategy in ("auto", WINOGRAD):
        found = _plan_winograd(replace(what, error=error), traits, strategy)
        if found is not None:
            return found
        strategy = "panels" if traits.is_cpu else "tiles"
    choice = table.choice(what, strategy)
    tuned = None if choice is None else plan_choice(what, traits, choice)
    return tuned or STRATEGIES[strategy](what, traits)


def _plan_winograd(what: Contraction, traits: DeviceTraits, strategy: str) -> Plan | None:
    """Plans Winograd's kernels, if they are asked for or pay."""
    if takes_winograd(what, traits):
        tile = winograd_tile(what, traits)
        if strategy == WINOGRAD or pays_winograd(what, traits, tile):
            return plan_winograd(what, traits, tile)
    if strategy == WINOGRAD:
        raise DefinitionError(
            f"{what.name}: algorithm={strategy!r} cannot do it: it takes windows of 2, 3 or 5 "
            "elements, stride 1 and no dilation, of floats, on a CPU, and must be admitted by "
            f"cp.options(convolution_error={what.error!r})"
        )
    return None
