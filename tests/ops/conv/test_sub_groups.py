"""Convolutions by sub-groups: all pairs of factors, layers of networks, memory, guards; exact.

What runs on GPUs whose lanes are registers runs here on a CPU whose compiler has sub-groups, and
through local memory on every other device.
"""

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, LAYERS, PAIRS, THREES, check_case, make_case, upload
from lanes import of_size, through_local_memory
from support import BFLOAT16, Guard, equal, numbers, wide

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.plan.product import sub_groups
from clprim.plan.product.sub_groups import SubGroupTile

# The compiler of CPUs takes 1 to 3 seconds for the tile of the rule, as it lays 16 lanes in a
# vector and unrolls: as it is written, a tenth of a second.
as_written = pytest.mark.usefixtures("unoptimised")
HOW = {"algorithm": "sub_groups"}


def check(row, *, gradients=False, dtype=np.float32):
    check_case(make_case(**row), "sub_groups", dtype, gradients=gradients)


# Every pair of factors by sub-groups of one size; gradients of a quarter by those of the other.
GRID = [(8, PAIRS[::2], PAIRS[1::8]), (16, PAIRS[1::2], PAIRS[::8]), (32, THREES[::50], [])]


@as_written
@pytest.mark.parametrize(("size", "rows", "turned"), GRID, ids=["8", "16", "32"])
def test_factors_in_every_combination(device, monkeypatch, size, rows, turned):
    of_size(device, monkeypatch, size)
    for row in rows:
        check(row)
    for row in turned:
        check(row, gradients=True)


@as_written
@pytest.mark.parametrize("size", [8, 16])
def test_halves(device, monkeypatch, size):
    of_size(device, monkeypatch, size)
    for row in PAIRS[size // 8 :: 12]:
        check(row, dtype=np.float16 if size == 8 else BFLOAT16)


@as_written
@pytest.mark.parametrize("size", [8, 16])
def test_layers_of_networks(device, monkeypatch, size):
    of_size(device, monkeypatch, size)
    for number, (layer, (x_shape, w_shape, options)) in enumerate(LAYERS.items()):
        if (number % 4 in (0, 3)) == (size == 8):  # each by one size, in one format or the other
            continue
        x, w, bias = (numbers(s, seed=n) for n, s in enumerate((x_shape, w_shape, w_shape[:1])))
        a = upload(x, FORMATS[(number + size // 16) % 2])
        found = ops.conv2d(a, cp.asarray(w), cp.asarray(bias), **options, **HOW).get()
        expected = reference.conv2d(x, w, bias, **options)
        np.testing.assert_array_equal(found, expected, err_msg=layer)


# --- devices without sub-groups, and Oclgrind -----------------------------------------------------


@pytest.fixture(params=["blocks", "by lane"])
def emulated(request, device, monkeypatch):
    """Any device, whose work-groups are sub-groups of eight that keep few sums."""
    blocks = request.param == "blocks"
    traits = {"block_reads": blocks, "short_block_reads": blocks}
    through_local_memory(device, monkeypatch, 8, **traits)

    def tiles(what, traits):
        along_depth = sub_groups._form(what).along == "depth"
        yield SubGroupTile(8, 2 if along_depth else 8, 8, 1)

    monkeypatch.setattr(sub_groups, "sub_group_tiles", tiles)
    yield
    Calls.forget()


@as_written
@pytest.mark.oclgrind
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("channels", [8, 3])
def test_small(device, channels):
    # Taps within steps of eight channels, and across them; edges, tails, what lies beside.
    x, w, bias = numbers((1, channels, 4, 5)), numbers((9, channels, 3, 3)), numbers(9, seed=2)
    expected = reference.conv2d(x, w, bias, padding=1)
    for memory_format in FORMATS:
        order = (0, 1, 2, 3) if memory_format == "contiguous" else (0, 2, 3, 1)
        out = Guard(tuple(expected.shape[d] for d in order))
        view = out.array.transpose(*np.argsort(order).tolist())
        a, b = upload(x, memory_format), cp.asarray(w)
        ops.conv2d(a, b, cp.asarray(bias), padding=1, out=view, **HOW)
        out.check(expected.transpose(order))


@as_written
@pytest.mark.oclgrind
@pytest.mark.usefixtures("emulated")
def test_small_products(device):
    for form, dtype in (("NN", np.float32), ("TN", np.float32), ("NN", np.float16)):
        a, b = numbers((17, 16), dtype, high=4), numbers((16, 9), dtype, seed=1)
        given = cp.asarray(a.T.copy()).T if form == "TN" else cp.asarray(a)
        found = ops.matmul(given, cp.asarray(b), **HOW)
        equal(found, (wide(a) @ wide(b)).astype(dtype), dtype)
