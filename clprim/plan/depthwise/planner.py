"""Which kernels a depthwise convolution gets: by what lies side by side, and by the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from clprim.plan.depthwise.channels import (
    channels_tile,
    fits_channels,
    plan_channels,
    takes_channels,
)
from clprim.plan.depthwise.flat import flat_tile, plan_flat, takes_flat
from clprim.plan.depthwise.lanes import fits_lanes, lanes_tile, plan_lanes
from clprim.plan.depthwise.planes import fits_planes, plan_planes, planes_tile, takes_planes
from clprim.plan.depthwise.problem import Depthwise
from clprim.plan.depthwise.runs import fits_runs, plan_runs, runs_tile, takes_runs
from clprim.plan.depthwise.tile import TILES, DepthwiseTile
from clprim.plan.depthwise.weight.code import (
    DepthwiseGradient,
    fits_gradient_lanes,
    gradient_lanes_tile,
    plan_gradient_lanes,
)
from clprim.plan.depthwise.weight.rows import (
    fits_gradient_channels,
    fits_gradient_planes,
    gradient_channels_tile,
    gradient_planes_tile,
    plan_gradient_channels,
    plan_gradient_planes,
    takes_gradient_channels,
    takes_gradient_planes,
)
from clprim.plan.depthwise.weight.windows import (
    fits_gradient_windows,
    gradient_windows_tile,
    plan_gradient_windows,
    takes_gradient_windows,
)
from clprim.plan.depthwise.windows import (
    fits_windows,
    plan_windows,
    takes_windows,
    windows_tile,
)
from clprim.plan.kernel import Plan
from clprim.traits import DeviceTraits

__all__ = ["depthwise_tiles", "plan_depthwise"]


@dataclass(frozen=True)
class _Kernel:
    """How one kernel is planned.

    Attributes:
        takes: Whether it can do a problem on a device of some traits, and is meant for it.
        rule: Returns the tile of a problem that it takes.
        fits: Whether another tile can be had.
        plan: Returns the plan, with a tile that fits.
        everywhere: Whether other devices than CPUs may have it.
    """

    takes: Callable[[Any, DeviceTraits], bool]
    rule: Callable[[Any, DeviceTraits], DepthwiseTile]
    fits: Callable[[Any, Any, DeviceTraits], bool]
    plan: Callable[[Any, DeviceTraits, Any], Plan]
    everywhere: bool = False


def _always(*_: Any) -> bool:
    return True


# The first one that takes a problem on a device is the rule's; the last one takes everything.
_FORWARD = {
    "depthwise/channels": _Kernel(
        takes_channels, channels_tile, lambda t, what, _: fits_channels(t, what), plan_channels
    ),
    "depthwise/flat": _Kernel(takes_flat, flat_tile, _always, plan_flat),
    "depthwise/runs": _Kernel(takes_runs, runs_tile, fits_runs, plan_runs),
    "depthwise/planes": _Kernel(takes_planes, planes_tile, fits_planes, plan_planes),
    "depthwise/windows": _Kernel(
        takes_windows, windows_tile, fits_windows, plan_windows, everywhere=True
    ),
    "depthwise/lanes": _Kernel(
        _always,
        lanes_tile,
        lambda t, _, traits: fits_lanes(t, traits),
        plan_lanes,
        everywhere=True,
    ),
}
_WEIGHT = {
    "depthwise/weight/channels": _Kernel(
        takes_gradient_channels,
        gradient_channels_tile,
        fits_gradient_channels,
        plan_gradient_channels,
    ),
    "depthwise/weight/planes": _Kernel(
        takes_gradient_planes, gradient_planes_tile, fits_gradient_planes, plan_gradient_planes
    ),
    "depthwise/weight/windows": _Kernel(
        takes_gradient_windows,
        gradient_windows_tile,
        fits_gradient_windows,
        plan_gradient_windows,
        everywhere=True,
    ),
    "depthwise/weight/lanes": _Kernel(
        _always, gradient_lanes_tile, fits_gradient_lanes, plan_gradient_lanes, everywhere=True
    ),
}


def plan_depthwise(
    what: Depthwise | DepthwiseGradient,
    traits: DeviceTraits,
    kernel: str = "",
    numbers: tuple[int, ...] = (),
) -> Plan:
    """Plans the kernels of a depthwise convolution or of its gradient in the weight.

    Args:
        what: What to compute; nothing of it may be empty.
        traits: Of the device.
        kernel: A key of `clprim.plan.depthwise.tile.TILES`, out of a table; empty: the rule's.
        numbers: Its tile. Kernels and tiles that do not fit are left to the rule.
    """
    what = what if isinstance(what, DepthwiseGradient) else what.simplified()
    kernels = _kernels(what)
    if kernel in kernels:
        tile = TILES[kernel](*numbers)
        if _fits(kernels[kernel], tile, what, traits):
            return kernels[kernel].plan(what, traits, tile)
    rule = _taking(what, traits)[0]
    return kernels[rule].plan(what, traits, kernels[rule].rule(what, traits))


def depthwise_tiles(
    what: Depthwise | DepthwiseGradient, traits: DeviceTraits
) -> dict[str, DepthwiseTile]:
    """Returns the rule's tile of every kernel that takes a problem, the rule's kernel first.

    Args:
        what: What to compute.
        traits: Of the device.
    """
    what = what if isinstance(what, DepthwiseGradient) else what.simplified()
    kernels = _kernels(what)
    return {name: kernels[name].rule(what, traits) for name in _taking(what, traits)}


def _kernels(what: Depthwise | DepthwiseGradient) -> dict[str, _Kernel]:
    return _WEIGHT if isinstance(what, DepthwiseGradient) else _FORWARD


def _taking(what: Depthwise | DepthwiseGradient, traits: DeviceTraits) -> list[str]:
    """Returns the kernels that take a problem on a device, the rule's first."""
    return [
        name
        for name, kernel in _kernels(what).items()
        if (traits.is_cpu or kernel.everywhere) and kernel.takes(what, traits)
    ]


def _fits(kernel: _Kernel, tile: DepthwiseTile, what: Any, traits: DeviceTraits) -> bool:
    return (
        min(astuple(tile)) >= 1 and kernel.takes(what, traits) and kernel.fits(tile, what, traits)
    )
