"""Which kernels a depthwise convolution gets: by what lies side by side, and by the device."""

from __future__ import annotations

from clprim.plan.contraction import ContractionPlan
from clprim.plan.depthwise import Depthwise
from clprim.plan.depthwise_channels import plan_channels, takes_channels
from clprim.plan.depthwise_flat import plan_flat, takes_flat
from clprim.plan.depthwise_gradient import DepthwiseGradient, plan_gradient_lanes
from clprim.plan.depthwise_gradient_cpu import (
    plan_gradient_channels,
    plan_gradient_planes,
    takes_gradient_channels,
    takes_gradient_planes,
)
from clprim.plan.depthwise_lanes import plan_lanes
from clprim.plan.depthwise_planes import plan_planes, takes_planes
from clprim.plan.depthwise_runs import plan_runs, takes_runs
from clprim.traits import DeviceTraits

__all__ = ["plan_depthwise"]


def plan_depthwise(what: Depthwise | DepthwiseGradient, traits: DeviceTraits) -> ContractionPlan:
    """Plans the kernels of a depthwise convolution or of its gradient in the weight.

    Args:
        what: What to compute; nothing of it may be empty.
        traits: Of the device.
    """
    if isinstance(what, DepthwiseGradient):
        if traits.is_cpu and takes_gradient_channels(what, traits):
            return plan_gradient_channels(what, traits)
        if traits.is_cpu and takes_gradient_planes(what, traits):
            return plan_gradient_planes(what, traits)
        return plan_gradient_lanes(what, traits)
    what = what.simplified()
    if traits.is_cpu and takes_channels(what, traits):
        return plan_channels(what, traits)
    if traits.is_cpu and takes_flat(what, traits):
        return plan_flat(what, traits)
    if traits.is_cpu and takes_runs(what, traits):
        return plan_runs(what, traits)
    if traits.is_cpu and takes_planes(what, traits):
        return plan_planes(what, traits)
    return plan_lanes(what, traits)
