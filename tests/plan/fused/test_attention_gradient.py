"""Plans of attention's gradients: tiles that fit, and what is left to blocks of queries."""

import dataclasses

import pytest
from planning import CPU, GPU

from clprim.plan.fused.attention_gradient import tiles_of
from clprim.plan.fused.heads import KEYS

LARGE = dataclasses.replace(CPU, local_memory=256 << 10, compute_units=64)


@pytest.mark.parametrize("size", [1, 16, 40, 64, 72, 130, 256])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("keys", [5, 37, 4096])
def test_tiles_divide_blocks_and_slices_have_keys(size, vector_bytes, keys):
    traits = dataclasses.replace(LARGE, vector_bytes=vector_bytes)
    tiles = tiles_of((1, 2, 1001, size), keys, 64, 4, traits)
    assert KEYS % tiles.tile == 0 and KEYS % tiles.rows == 0
    rows, room = tiles.partial
    assert rows % tiles.tile == 0 and rows >= 1001
    assert room % (tiles.columns * tiles.width) == 0 and room >= size
    assert 1 <= tiles.slices <= max(1, keys // size)
    assert (tiles.slices - 1) * tiles.width * tiles.vectors < keys


def test_the_rest_is_left_to_blocks_of_queries():
    assert tiles_of((2, 100, 64), 100, 64, 4, GPU) is None
    assert tiles_of((2, 100, 64), 2, 64, 4, LARGE) is None  # most lanes would idle
    assert tiles_of((2, 100, 4096), 100, 64, 4, LARGE) is None  # no room in local memory
