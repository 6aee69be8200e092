"""Plans of inverted residuals: rows fit local memory, tiles fit rows, bands cover images."""

import dataclasses

import numpy as np
import pytest
from planning import CPU, numbers

from clprim.plan.fused.family import RESIDUALS
from clprim.plan.fused.family import dense_residual as block

LARGE = dataclasses.replace(CPU, local_memory=256 << 10)
# (images, channels, middle, outputs, size, stride), and the depthwise kernel.
BLOCKS = [
    ((8, 16, 96, 24, 112, 2), 3),
    ((8, 24, 144, 24, 56, 1), 3),
    ((1, 160, 960, 320, 7, 1), 3),
    ((3, 40, 240, 40, 28, 2), 5),
    ((1, 5, 30, 7, 13, 1), 3),
    ((2, 4, 40, 3, 9, 1), 4),
]


@pytest.mark.parametrize(("shape", "kernel"), BLOCKS)
@pytest.mark.parametrize("local_memory", [64 << 10, 256 << 10, 2 << 20])
@pytest.mark.parametrize("expand", [True, False])
def test_rows_fit_local_memory(shape, kernel, local_memory, expand):
    traits = dataclasses.replace(CPU, local_memory=local_memory)
    what = block(*shape, kernel=kernel, expand=expand)
    plan = RESIDUALS.ruled(what, traits)
    if plan is None:
        assert local_memory < 256 << 10
        return
    code, given = plan.main.code, numbers(plan.main)
    rows, columns = what.depthwise.rows, what.depthwise.columns
    moving = sum(o.moves for o in code.project.outputs)
    assert 4 * code.near + 4 * code.places * (1 + moving) <= min(local_memory, 256 << 10)
    step = given["rows_a_step"]
    between = -(-step // code.rows) * code.rows * columns.outputs * given["pitch"]
    ring = given["ring_rows"] * given["ring_row"]
    assert 2 * given["middle_padded"] + ring + between <= code.near
    # The ring holds all rows that one step needs, and each row all columns, padding included.
    assert given["ring_rows"] >= min(rows.inputs, (step - 1) * rows.stride + rows.reach)
    reached = (columns.outputs - 1) * columns.stride + columns.reach
    assert given["ring_row"] >= max(reached, columns.before + columns.inputs) * given["pitch"]
    assert max(given["ring_rows"] * columns.inputs, step * columns.outputs) <= code.places
    assert given["pitch"] >= given["middle_padded"] >= what.depthwise.channels


@pytest.mark.parametrize(("shape", "kernel"), BLOCKS)
def test_tiles_fit_rows(shape, kernel):
    what = block(*shape, kernel=kernel)
    code = RESIDUALS.ruled(what, LARGE).main.code
    # A last tile begins early enough to end with the last pixel: a row has that many.
    assert code.expand[0] <= what.depthwise.columns.inputs
    assert code.project.rows <= what.depthwise.columns.outputs
    assert code.columns <= what.depthwise.columns.outputs
    assert code.width <= what.depthwise.channels
    assert code.expand[0] * code.expand[1] <= 28


@pytest.mark.parametrize(("shape", "kernel"), BLOCKS)
def test_work_items_cover_every_row_once(shape, kernel):
    what = block(*shape, kernel=kernel)
    plan = RESIDUALS.ruled(what, LARGE).main
    bands, images = plan.global_size
    rows, a_item = what.depthwise.rows.outputs, numbers(plan)["rows_a_item"]
    assert images == what.depthwise.images
    assert bands * a_item >= rows > (bands - 1) * a_item


def test_three_calls_where_one_kernel_cannot():
    assert RESIDUALS.ruled(block(1, 8, 960, 8, 112, 1), LARGE) is None  # rows too large
    assert RESIDUALS.ruled(block(1, 8, 1, 8, 14, 1), LARGE) is None  # no vector of channels
    double = block(1, 8, 48, 8, 14, 1, dtype=np.float64)  # sums of two dtypes
    assert RESIDUALS.ruled(double, LARGE) is None
    what = block(1, 8, 48, 8, 14, 1)
    lanes = (8 * 15 * 15, 8 * 15, 8)  # rows of the input with gaps between them
    gathered = dataclasses.replace(what.expand.gathered, lane=lanes)
    gaps = dataclasses.replace(what.expand, gathered=gathered)
    assert RESIDUALS.ruled(what, LARGE) is not None
    assert RESIDUALS.ruled(dataclasses.replace(what, expand=gaps), LARGE) is None


def test_packed_weights_hold_whole_tiles():
    what = block(2, 24, 144, 24, 28, 1)
    plan = RESIDUALS.ruled(what, LARGE)
    code, given = plan.main.code, numbers(plan.main)
    sizes = {name: size for name, (size, _) in plan.workspace.items()}
    assert sizes["expand_packed"] == given["expand_strips"] * 24 * code.expand[1] * code.width
    assert sizes["taps_packed"] == 9 * 144
    assert sizes["project_packed"] == given["project_strips"] * 144 * code.project.packed_lanes
    assert given["expand_strips"] * code.expand[1] * code.width == given["middle_padded"] >= 144


def test_one_kernel_for_all_sizes_and_batches():
    plans = [RESIDUALS.ruled(block(n, 32, 192, 32, 28, 1), LARGE).main for n in (1, 8)]
    assert plans[0].code == plans[1].code
    assert plans[0].flops * 8 == plans[1].flops
    assert plans[0].flops == 2 * 28 * 28 * (32 * 192 + 9 * 192 + 192 * 32)
