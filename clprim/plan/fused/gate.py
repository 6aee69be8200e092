"""Plans gates of channels on CPUs as one kernel: means of planes, and two products of few numbers.

Squeeze and excitation, whose three steps are so short that launches take longer. A work-item has an
image to itself, and keeps its means and what lies between the products in local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clprim.dtypes import AnyDType, stored_type
from clprim.language.componentwise import is_componentwise
from clprim.language.snippet import Snippet
from clprim.plan.kernel import KernelCode, KernelPlan, Plan, power_of_two
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.plan.strides import Operand, index_reaching
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Gate:
    """What to compute."""

    x: Operand
    inner: Operand  # (R, C), the first product's weight, and ``inner_bias``, (R,)
    inner_bias: Operand
    outer: Operand  # (R, C), the second one's, transposed, and ``outer_bias``, (C,)
    outer_bias: Operand
    y: Operand
    first: Snippet | None  # What becomes of the products, snippets on ``y0`` alone
    second: Snippet | None

    @property
    def value(self) -> AnyDType:
        """Dtype of everything."""
        return self.y.dtype

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """Those that there are."""
        return tuple(s for s in (self.first, self.second) if s is not None)


@dataclass(frozen=True)
class GateCode(KernelCode):
    """What fused/gate.cl.jinja prints."""

    value: str
    width: int
    planar: bool  # Whether pixels lie side by side, not channels
    first: str  # The snippets; they may be empty
    second: str
    channels_room: int
    inner_room: int


def plan_gate(what: Gate, traits: DeviceTraits) -> Plan | None:
    """Plans the kernel, or returns None where it does not suit: on GPUs, of other strides."""
    # A GPU's group would read both matrices alone, a megabyte of 672 channels, with one unit's
    # share of memory's bandwidth: two launches are cheaper.
    value, itemsize = stored_type(what.value).value, what.value.itemsize
    images, channels, height, columns = what.x.shape
    inner, pixels = what.inner.shape[0], height * columns
    width = traits.lanes(itemsize)
    x_image, x_channel, x_row, x_column = (s // itemsize for s in what.x.strides)
    pixel = x_column if columns > 1 else x_row
    planar = pixels > 1 and pixel == 1
    rooms = [power_of_two(n + width) for n in (channels, inner)]
    if (
        not (traits.is_cpu and value in ("float", "double") and 1 < width <= channels)
        or not (height == 1 or columns == 1 or x_row == columns * x_column)
        or not (planar or x_channel == 1)
        or pixels * channels * itemsize > traits.l2_bytes
        or not all(is_componentwise(s) and not _reads(s) for s in what.snippets)
        or sum(rooms) * itemsize > traits.local_memory
    ):
        return None
    found = Arguments(index_reaching(what.x.size, what.inner.size))
    arrays = {
        "x": what.x,
        "inner": what.inner,
        "outer": what.outer,
        "y0": what.y,
        "inner_bias": what.inner_bias,
        "outer_bias": what.outer_bias,
    }
    for name in arrays:
        found.memory(value, f"{name}_memory", read_only=name != "y0")
    found.numbers(
        channels=channels,
        inner=inner,
        pixels=pixels,
        x_image=x_image,
        x_channel=x_channel,
        x_pixel=pixel if pixels > 1 else 0,
        y0_image=what.y.strides[0] // itemsize,
        **{f"{name}_start": a.offset // itemsize for name, a in arrays.items()},
    )
    code = _code(what, found, width, rooms, traits, planar=planar)
    weights = what.inner.size + what.outer.size
    nbytes = (what.x.size + weights + what.y.size) * itemsize
    flops = what.x.size + 2 * images * weights
    sizes = (images,), (1,)
    return Plan((KernelPlan("fused/gate", code, tuple(found.arguments), *sizes, nbytes, flops),))


def _code(
    what: Gate,
    found: Arguments,
    width: int,
    rooms: Sequence[int],
    traits: DeviceTraits,
    *,
    planar: bool,
) -> GateCode:
    """What the template prints."""
    printed, value = Printed(), stored_type(what.value).value
    first, second = (printed.text(s, {"y": value}) for s in (what.first, what.second))
    return GateCode(
        name="gate",
        parameters=tuple(found.parameters),
        index=found.index,
        unified=unified_functions(what.snippets, "", traits),
        guards=printed.guards,
        doubles=value == "double",
        own=own_names(what.snippets, ""),
        value=value,
        width=width,
        planar=planar,
        first=first,
        second=second,
        channels_room=rooms[0],
        inner_room=rooms[1],
    )


def _reads(snippet: Snippet) -> bool:
    return bool(snippet.numbers("x") or snippet.numbers("w") or "index" in snippet.used)
