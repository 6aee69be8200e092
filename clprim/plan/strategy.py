"""The strategies of contractions by name, and which of them a device gets."""

from __future__ import annotations

from collections.abc import Callable

from clprim.plan.contraction import Contraction, ContractionPlan
from clprim.plan.depthwise import Depthwise
from clprim.plan.depthwise_gradient import DepthwiseGradient
from clprim.plan.depthwise_strategy import plan_depthwise
from clprim.plan.in_place import plan_in_place
from clprim.plan.panels import plan_panels
from clprim.plan.tiles import plan_tiles
from clprim.traits import DeviceTraits

__all__ = ["STRATEGIES", "plan_contraction"]


def _plan_panels(what: Contraction, traits: DeviceTraits) -> ContractionPlan:
    return plan_in_place(what, traits) or plan_panels(what, traits)


#: Each does every contraction, on any device.
STRATEGIES: dict[str, Callable[[Contraction, DeviceTraits], ContractionPlan]] = {
    "panels": _plan_panels,
    "tiles": plan_tiles,
}


def plan_contraction(
    what: Contraction | Depthwise | DepthwiseGradient, traits: DeviceTraits, strategy: str = "auto"
) -> ContractionPlan:
    """Plans the kernels of a contraction.

    Args:
        what: The contraction; neither lanes nor outputs nor groups may be 0.
        traits: Of the device.
        strategy: One of `STRATEGIES`, or ``auto``.
    """
    if isinstance(what, Depthwise | DepthwiseGradient):
        return plan_depthwise(what, traits)
    if strategy == "auto":
        strategy = "panels" if traits.is_cpu else "tiles"
    return STRATEGIES[strategy](what, traits)
