"""The strategies of depthwise convolutions and of their gradients, in order of preference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clprim.plan.depthwise.channels import CHANNELS
from clprim.plan.depthwise.planes import WHOLE_PLANES
from clprim.plan.depthwise.runs import RUNS
from clprim.plan.depthwise.weight.channels import GRADIENT_CHANNELS
from clprim.plan.depthwise.weight.planes import GRADIENT_PLANES
from clprim.plan.depthwise.weight.windows import GRADIENT_WINDOWS
from clprim.plan.depthwise.windows import WINDOWS
from clprim.plan.strategy import Strategy
from clprim.traits import DeviceTraits


def _of_planes(strategy: Strategy[Any]) -> Strategy[Any]:
    """Not preferred where many outputs read one channel: that is a product as well."""

    def preferred(what: Any, traits: DeviceTraits) -> bool:
        product = what.groups == 1 and what.multiplier > 1
        return not product and strategy.preferred(what, traits)

    return replace(strategy, preferred=preferred)


#: Forward, and the gradient in the input.
PLANES = tuple(map(_of_planes, (CHANNELS, RUNS, WHOLE_PLANES, WINDOWS)))
#: The gradient in the weight.
GRADIENTS = tuple(map(_of_planes, (GRADIENT_CHANNELS, GRADIENT_PLANES, GRADIENT_WINDOWS)))
