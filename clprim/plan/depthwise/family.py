"""The strategies of depthwise convolutions and of their gradients, in order of preference."""

from __future__ import annotations

from clprim.plan.depthwise.channels import CHANNELS
from clprim.plan.depthwise.lanes import LANES
from clprim.plan.depthwise.planes import WHOLE_PLANES
from clprim.plan.depthwise.runs import RUNS
from clprim.plan.depthwise.weight.channels import GRADIENT_CHANNELS
from clprim.plan.depthwise.weight.lanes import GRADIENT_LANES
from clprim.plan.depthwise.weight.planes import GRADIENT_PLANES
from clprim.plan.depthwise.weight.windows import GRADIENT_WINDOWS
from clprim.plan.depthwise.windows import WINDOWS

#: Forward, and the gradient in the input.
PLANES = (CHANNELS, RUNS, WHOLE_PLANES, WINDOWS, LANES)
#: The gradient in the weight.
GRADIENTS = (GRADIENT_CHANNELS, GRADIENT_PLANES, GRADIENT_WINDOWS, GRADIENT_LANES)
