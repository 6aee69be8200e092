"""What Winograd's gradient in the weight transforms: the input, and the gradient in the output."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import stored_type
from clprim.plan.conv.problem import Convolution
from clprim.plan.conv.winograd.code import WalkCode, printed
from clprim.plan.conv.winograd.weight_code import ImageCode
from clprim.plan.conv.winograd.weight_cut import WeightCut
from clprim.plan.kernel import OperandCode, round_up
from clprim.plan.machine import near
from clprim.plan.permutation import transpose
from clprim.plan.place import Place
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class Image:
    """What is transformed."""

    code: ImageCode
    place: Place
    buffer: str
    shape: tuple[int, int, int, int]
    channels: int
    numbers: dict[str, int]  # What the transform needs to know
    panel: int  # Elements of local memory for lines of transformed pixels


def image_of(p: Convolution, cut: WeightCut, name: str, traits: DeviceTraits) -> Image:
    """Describes the input or the other gradient; their tiles are equally many pixels apart."""
    h, v = p.rows, p.columns
    if name == "inputs":
        place, buffer, shape, before = p.x, "x", p.x_shape, (h.before, v.before)
        channels = cut.channels
        walks = [
            WalkCode(t.r, t.size, t.size, printed(t.input, "d", "v", p.value))
            for t in (cut.down, cut.across)
        ]
    else:
        place, buffer, shape, before = p.y, "w", p.y_shape, (0, 0)
        channels = cut.outputs
        walks = [
            WalkCode(t.r, t.r, t.size, printed(t.weight, "d", "v", p.value))
            for t in (cut.down, cut.across)
        ]
    planar, few = place.channel != 1, channels < cut.width
    down, across = walks
    panel = near(traits) // p.value.itemsize
    wide = (panel // (down.size * cut.width) - 1) // cut.width * cut.width
    shared = across.reads - across.step
    run = max(1, min(cut.columns, (wide - shared) // across.step))
    numbers = {
        "x_start": place.start,
        "x_group": channels * place.channel,
        "x_image": place.image,
        "x_row": place.row,
        "x_channel": place.channel,
        **({"x_size": place.end(*shape)} if planar or few else {}),
        **({} if planar else {"x_column": place.column}),
        "x_rows": shape[2],
        "x_columns": shape[3],
        "rows_before": before[0],
        "columns_before": before[1],
        "channels": channels,
        "channel_blocks": cut.slots(channels),
        "tile_lines": cut.lines,
        "tile_columns": cut.columns,
        "longest_run": run,
        "line_pitch": round_up(run * across.step + shared, cut.width) + 1,
        "v_element": cut.element(channels),
        "v_block": cut.slot,
    }
    code = ImageCode(
        name=name,
        value=stored_type(p.value).value,
        width=cut.width,
        walk_down=down,
        walk_across=across,
        planar_x=planar,
        few=few,
        ahead=int(traits.prefetch),
        x=OperandCode.of("x", place.dtype, p.value, 1),
        shuffles=transpose(cut.width) if planar else None,
    )
    return Image(code, place, buffer, shape, channels, numbers, panel)
