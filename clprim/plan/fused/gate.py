"""Plans gates of channels on CPUs as one kernel: means of planes, and two products of few numbers.

Squeeze and excitation, whose three steps are so short that launches take longer. A work-item has an
image to itself, and keeps its means and what lies between the products in local memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType, stored_type
from clprim.language.componentwise import is_componentwise
from clprim.language.snippet import Snippet
from clprim.plan.arguments import Arguments
from clprim.plan.kernel import KernelCode, KernelPlan, Plan, power_of_two
from clprim.plan.snippets import REACH, Printed, own_names, unified_functions
from clprim.plan.strides import Operand
from clprim.traits import DeviceTraits

FLOATS = ("float", "double")


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
    value, itemsize = stored_type(what.value).value, what.value.itemsize
    images, channels, height, columns = what.x.shape
    inner, pixels = what.inner.shape[0], height * columns
    width = traits.lanes(itemsize)
    x_image, x_channel, x_row, x_column = (s // itemsize for s in what.x.strides)
    pixel = x_column if columns > 1 else x_row
    planar = pixels > 1 and pixel == 1
    suits = (
        traits.is_cpu
        and value in FLOATS
        and width > 1
        and channels >= width
        and (height == 1 or columns == 1 or x_row == columns * x_column)
        and (planar or x_channel == 1)
        and pixels * channels * itemsize <= traits.l2_bytes
        and all(is_componentwise(s) and not _reads(s) for s in what.snippets)
    )
    rooms = [power_of_two(n + width) for n in (channels, inner)]
    if not suits or sum(rooms) * itemsize > traits.local_memory:
        return None
    index = "int" if max(what.x.size, what.inner.size) < REACH else "long"
    found = Arguments(index)
    for name, read_only in (("x", True), ("inner", True), ("outer", True), ("y0", False)):
        found.memory(value, f"{name}_memory", read_only=read_only)
    found.memory(value, "inner_bias_memory")
    found.memory(value, "outer_bias_memory")
    starts = {
        f"{name}_start": operand.offset // itemsize
        for name, operand in (
            ("x", what.x),
            ("inner", what.inner),
            ("outer", what.outer),
            ("inner_bias", what.inner_bias),
            ("outer_bias", what.outer_bias),
            ("y0", what.y),
        )
    }
    found.numbers(
        channels=channels,
        inner=inner,
        pixels=pixels,
        x_image=x_image,
        x_channel=x_channel,
        x_pixel=pixel if pixels > 1 else 0,
        y0_image=what.y.strides[0] // itemsize,
        **starts,
    )
    printed = Printed()
    texts = [printed.text(s, {"y": value}) for s in (what.first, what.second)]
    code = GateCode(
        name="gate",
        parameters=tuple(found.parameters),
        index=index,
        unified=unified_functions(what.snippets, "", traits),
        guards=printed.guards,
        doubles=value == "double",
        own=own_names(what.snippets, ""),
        value=value,
        width=width,
        planar=planar,
        first=texts[0],
        second=texts[1],
        channels_room=rooms[0],
        inner_room=rooms[1],
    )
    weights = what.inner.size + what.outer.size
    nbytes = (what.x.size + weights + what.y.size) * itemsize
    flops = what.x.size + 2 * images * weights
    sizes = (images,), (1,)
    return Plan((KernelPlan("fused/gate", code, tuple(found.arguments), *sizes, nbytes, flops),))


def _reads(snippet: Snippet) -> bool:
    return bool(snippet.numbers("x") or snippet.numbers("w") or "index" in snippet.used)
