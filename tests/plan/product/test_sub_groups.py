"""Plans by sub-groups: which contractions they are chosen for, tiles that fit, shape-free keys."""

import dataclasses

import numpy as np
import pytest
from planning import convolution, product

from clprim.errors import DefinitionError
from clprim.plan.product.family import LANES, PRODUCTS
from clprim.plan.product.sub_groups import plan_sub_groups, sub_group_tiles
from clprim.plan.strategy import Choice
from clprim.traits import DeviceTraits


def chosen(what, traits=LANES):
    return PRODUCTS.plan(what, traits).choice.strategy


def test_they_are_chosen_where_lanes_are_registers():
    what = product(512, 512, 512)
    assert chosen(what) == "sub_groups"
    for lacking in ({"sub_groups": ()}, {"sub_groups": (8,)}, {"block_reads": False}):
        assert chosen(what, dataclasses.replace(LANES, **lacking)) == "tiles"
    assert chosen(what, dataclasses.replace(LANES, is_cpu=True)) != "sub_groups"
    assert chosen(product(512, 512, 512, dtype=np.float64)) == "tiles"
    assert chosen(product(512, 3, 512)) == "tiles"  # ten columns of padding for each
    for last in (False, True):
        assert chosen(convolution(8, 64, 28, 64, last=last)) == "sub_groups"


def test_what_they_need_is_told():
    with pytest.raises(DefinitionError, match="float32 sums and sub-groups"):
        PRODUCTS.plan(product(64, 64, 64), DeviceTraits(), "sub_groups")


@pytest.mark.parametrize("size", [8, 16, 32])
@pytest.mark.parametrize("form", ["NN", "TN"])
def test_every_tile_has_a_plan(size, form):
    what = product(300, 200, 100, transposed=(form[0] == "T", False))
    traits = dataclasses.replace(LANES, sub_groups=(size,), max_work_group_size=64)
    tiles = list(sub_group_tiles(what, traits))
    assert tiles
    for tile in tiles:
        plan = PRODUCTS.tuned(what, traits, Choice("sub_groups", dataclasses.astuple(tile)))
        code = plan.main.code
        assert code.lanes * code.sub_groups == plan.main.local_size[0] <= 64
        assert code.rows * code.columns <= 32 * size
        for total, items in zip(plan.main.global_size, plan.main.local_size, strict=True):
            assert total % items == 0
        pack = plan.stages[0]
        assert pack.once
        assert pack.global_size[0] * pack.code.run >= plan.workspace["packed"][0]


def test_another_size_needs_no_other_kernel():
    first = plan_sub_groups(convolution(32, 64, 56, 64, last=True), LANES)
    second = plan_sub_groups(convolution(64, 128, 28, 128, last=True), LANES)
    assert first.main.code == second.main.code
    assert first.main.arguments != second.main.arguments


def test_neighbours_are_read_as_blocks_where_all_of_them_are_there():
    def blocks(what):
        return plan_sub_groups(what, LANES).main.code.x_blocks

    assert blocks(product(64, 64, 64))
    assert blocks(product(64, 64, 63))  # all but the last steps
    assert blocks(product(64, 64, 64, transposed=(True, False)))
    assert not blocks(product(63, 64, 64, transposed=(True, False)))
    assert blocks(product(64, 64, 64, dtype=np.float16))
    # Every second row begins within a word.
    assert not blocks(product(64, 64, 63, dtype=np.float16))
    lacking = dataclasses.replace(LANES, short_block_reads=False)
    half = product(64, 64, 64, dtype=np.float16)
    assert not plan_sub_groups(half, lacking).main.code.x_blocks
    assert blocks(convolution(2, 64, 14, 64, last=True))
    assert not blocks(convolution(2, 24, 14, 64, last=True))
    assert not blocks(convolution(2, 64, 14, 64))
    assert blocks(convolution(2, 64, 16, 64, kernel=1, padding=0)) is False  # planes of images
