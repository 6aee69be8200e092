"""Joined strings read what the nodes that they are made of read."""

import dataclasses

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls

pytestmark = pytest.mark.usefixtures("unoptimised")


def test_arrays_that_are_read_at_coordinates_keep_their_numbers(device):
    """The index is computed of other arrays, which come first in the joined kernel."""

    def chosen(x, index):
        return ops.gather(x, 1, ops.where(index > 2, index - index, index))

    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    index = np.array([[0, 3], [1, 2], [4, 4], [2, 0]])
    wanted = np.take_along_axis(x, np.where(index > 2, 0, index), 1)
    compiled = cp.jit(chosen)
    np.testing.assert_array_equal(compiled(cp.asarray(x), cp.asarray(index)).get(), wanted)
    assert len(compiled.graph(cp.asarray(x), cp.asarray(index)).nodes) < 4


def test_a_condition_runs_where_a_product_is_stored(device):
    choose = cp.Pointwise("y0 = x0 ? x1 : -1;", result_type="float32")

    def masked(mask, a, b):
        return choose(mask, ops.matmul(a, b))

    a, b = (
        np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((6, (2, 3)), (12, (3, 4)))
    )
    mask = np.arange(8).reshape(2, 4) % 3 == 0
    given = [cp.asarray(v) for v in (mask, a, b)]
    found = cp.jit(masked)(*given).get()
    np.testing.assert_array_equal(found, np.where(mask, a @ b, -1))


def test_images_one_pixel_wide_are_stored_before_functions_of_them_run(device):
    """Winograd's algorithm stores rows; of these images it would compute functions one by one."""

    def activated(x, w):
        return ops.tanh(ops.conv2d(x, w))

    random = np.random.default_rng(2)
    shapes = (1, 512, 1, 256), (512, 256, 5, 1)
    x, w = (random.standard_normal(s).astype(np.float32) for s in shapes)
    given = cp.asarray(x).transpose(0, 3, 1, 2), cp.asarray(w / 30)
    compiled = cp.jit(activated, constants="w")
    np.testing.assert_allclose(compiled(*given).get(), activated(*given).get(), atol=1e-5)
    nodes = compiled.graph(*given).nodes
    tiles = any("winograd" in s.template for n in nodes for s in n.plan.stages)
    assert len(nodes) == (2 if tiles else 1)


def test_a_product_without_dimensions_is_stored_with_what_follows(device, monkeypatch):
    gpu = dataclasses.replace(device.traits, is_cpu=False, vector_bytes=16, sub_groups=())
    monkeypatch.setitem(device.__dict__, "traits", gpu)  # a CPU's products of lines are reductions
    Calls.forget()
    compiled = cp.jit(lambda x, y: ops.matmul(x, y) * 3)
    x = cp.asarray(np.arange(6, dtype=np.float32))
    assert compiled(x, x).get() == 3 * 55
    assert len(compiled.graph(x, x).nodes) == 1
