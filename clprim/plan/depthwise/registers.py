"""Windows in registers: what the kernels of a depthwise convolution and its gradient share."""

from __future__ import annotations

from dataclasses import replace

from clprim.plan.depthwise.problem import Depthwise, Line
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.machine import GROUP, ITEMS, TAPS
from clprim.traits import DeviceTraits

# Sums that registers hold beside taps.
MOST_SUMS = 16
# Columns of a tile that share what is below them: networks' planes are multiples of seven.
COLUMNS = 7
# Taps that registers hold.
MOST_TAPS = TAPS**2


def taps_in_registers(h: Line, v: Line) -> int:
    """Returns how many rows of taps registers hold at a time: a divisor of all; 0 for none."""
    # There are none where windows share nothing, as strides are longer than they are.
    if any(line.stride > line.kernel for line in (h, v)):
        return 0
    fit = (n for n in range(1, h.kernel + 1) if not h.kernel % n and n * v.kernel <= MOST_TAPS)
    return max(fit, default=0)


def single_taps(what: Depthwise | DepthwiseGradient) -> tuple[Line, Line]:
    """Returns rows and columns; a single tap has no dilation."""
    lines = (what.rows, what.columns)
    h, v = (replace(line, dilation=1) if line.kernel == 1 else line for line in lines)
    return h, v


def interlaced(line: Line, outputs: int) -> int:
    """Returns how many tiles of some outputs a line has."""
    # Where taps are apart, the outputs of a tile are so too, and as many tiles are interlaced.
    return -(-line.outputs // (outputs * line.dilation)) * line.dilation


def registers_hold(values: int, itemsize: int, traits: DeviceTraits) -> bool:
    """Whether two thirds of the registers hold so many values."""
    # The others hold what is read, addresses, what the epilogue needs.
    return 3 * values * itemsize <= 2 * traits.register_bytes


def busy_items(traits: DeviceTraits) -> int:
    """Returns how many work-items keep a device busy while they wait for memory."""
    return traits.compute_units * (ITEMS if traits.is_cpu else ITEMS * GROUP)
