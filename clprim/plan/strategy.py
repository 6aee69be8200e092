"""The strategies of contractions by name, and which of them a device gets."""

from __future__ import annotations

from collections.abc import Callable

from clprim.plan.contraction import Contraction, ContractionPlan
from clprim.plan.in_place import plan_in_place
from clprim.plan.panels import plan_panels
from clprim.traits import DeviceTraits

__all__ = ["STRATEGIES", "plan_contraction"]


def _plan_panels(what: Contraction, traits: DeviceTraits) -> ContractionPlan:
    return plan_in_place(what, traits) or plan_panels(what, traits)


#: Each does every contraction, on any device.
STRATEGIES: dict[str, Callable[[Contraction, DeviceTraits], ContractionPlan]] = {
    "panels": _plan_panels,
}


def plan_contraction(
    what: Contraction, traits: DeviceTraits, strategy: str = "auto"
) -> ContractionPlan:
    """Plans the kernels of a contraction.

    Args:
        what: The contraction; neither lanes nor outputs nor groups may be 0.
        traits: Of the device.
        strategy: One of `STRATEGIES`, or ``auto``.
    """
    if strategy == "auto":
        strategy = "panels"
    return STRATEGIES[strategy](what, traits)
