"""Products of few outputs along the depth, ``algorithm="dots"``, against NumPy in float64."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from support import BFLOAT16, equal, numbers, wide

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.traits import DeviceTraits

# Lanes, outputs and depth: vectors that end early, tiles of 1, 2, 4 and 8 outputs and several.
SIZES = [(1, 1, 2), (17, 3, 5), (64, 8, 32), (33, 2, 100), (50, 20, 67), (16, 1, 129), (300, 7, 16)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BFLOAT16, np.int32])
def test_every_size_is_that_of_a_layer(device, some, dtype):
    if np.dtype(dtype) == np.float64 and not device.traits.fp64:
        pytest.skip("no float64")
    for lanes, outputs, depth in some(SIZES, 4):
        x, w = numbers((outputs, depth), dtype), numbers((lanes, depth), dtype, seed=1)
        bias = numbers((lanes,), dtype, seed=2)
        given = [cp.asarray(a) for a in (x, w, bias)]
        found = ops.linear(*given, algorithm="dots")
        expected = wide(x) @ wide(w).T + wide(bias)
        np.testing.assert_array_equal(wide(found.get()), wide(expected.astype(found.dtype)))


@pytest.mark.everywhere
def test_epilogues_batches_views_and_old_results(device):
    for outputs, rows in itertools.product((3, 11), (1, 2)):
        x, w = numbers((5, outputs, 40)), numbers((5, 70 * rows, 40), seed=1)
        y, other = numbers((5, outputs, 70), seed=2), numbers((5, outputs, 70), seed=3)
        out = cp.asarray(y)
        a, b = cp.asarray(x)[:, :, :37], cp.asarray(w)[:, ::rows, :37]
        options = {"epilogue": "y0 = max(y0 + x0, 0);", "epilogue_args": (cp.asarray(other),)}
        ops.matmul(a, b, transpose_b=True, **options, out=out, beta=2, algorithm="dots")
        product = wide(x)[..., :37] @ wide(w)[:, ::rows, :37].swapaxes(1, 2)
        equal(out, np.maximum(product + other, 0) + 2 * y)


@pytest.mark.everywhere
def test_a_layer_that_sees_few_rows_and_a_matrix_by_a_vector_are_chosen_right(device):
    w = numbers((2000, 70))
    for x in (numbers((8, 70), seed=1), numbers((1, 70), seed=1), numbers((70,), seed=1)):
        found = ops.linear(cp.asarray(x), cp.asarray(w))
        equal(found, wide(x) @ wide(w).T)
    vector = numbers((70,), seed=2)
    equal(ops.matmul(cp.asarray(w), cp.asarray(vector)), wide(w) @ wide(vector))


def test_who_is_chosen_follows_from_the_shape():
    cpu = DeviceTraits(compute_units=2, is_cpu=True, vector_bytes=64, local_memory=32768)
    gpu = DeviceTraits(compute_units=16, is_cpu=False)

    def chosen(lanes, outputs, depth, traits=cpu, columns=True):
        problem = dense_product(lanes, outputs, depth, "NT")
        if columns:
            problem = _columns(problem)
        return PRODUCTS.plan(problem, traits).choice.strategy

    assert chosen(4096, 8, 4608) == "dots"
    assert chosen(4096, 64, 4608) == "dots"
    assert chosen(4096, 256, 512) != "dots"  # the panels' packed operand pays
    assert chosen(4096, 8, 4608, columns=False) != "dots"
    assert chosen(4096, 8, 4608, gpu) == "tiles"


def _columns(problem):
    """With lanes side by side in the result."""
    lanes = problem.lanes[2]
    return replace(problem, y=replace(problem.y, output=lanes, lane=(0, 0, 1)))


def test_depth_that_does_not_lie_side_by_side_is_refused(device):
    a, b = cp.asarray(numbers((8, 30))), cp.asarray(numbers((30, 100)))
    with pytest.raises(DefinitionError, match=r"dots.*steps of k side by side"):
        ops.matmul(a, b, algorithm="dots")
