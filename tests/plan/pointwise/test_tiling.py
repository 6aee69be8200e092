"""Tiles and shuffles for operands that lie in different orders; no device needed."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from planning import CPU, GPU, array, numbers
from planning import map_plan as plan

from clprim.plan.permutation import permute, transpose
from clprim.plan.pointwise.code import TileCode
from clprim.plan.strides import Operand

# --- shuffles -------------------------------------------------------------------------------------


def apply(shuffles, count, lanes):
    """Which (vector, lane) every lane of the outputs holds after all steps."""
    holds = {v: [(v, lane) for lane in range(lanes)] for v in range(count)}
    for target, pick, a, b in shuffles.steps:
        holds[target] = [holds[b if second else a][lane] for second, lane in shuffles.picks[pick]]
    return [holds[v] for v in shuffles.outputs]


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_a_square_takes_a_step_for_each_bit(size):
    found = transpose(size)
    assert apply(found, size, size) == [[(j, i) for j in range(size)] for i in range(size)]
    assert len(found.steps) == size * (size.bit_length() - 1)
    assert len(found.picks) == 2


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 12, 16])
def test_rows_are_interleaved_and_taken_apart(rows, lanes):
    flat = [(k, lane) for k in range(rows) for lane in range(lanes)]
    for order in (
        [flat[row * lanes + w] for w in range(lanes) for row in range(rows)],
        [flat[w * rows + row] for row in range(rows) for w in range(lanes)],
    ):
        goal = [order[k * lanes : (k + 1) * lanes] for k in range(rows)]
        found = permute(goal)
        assert apply(found, rows, lanes) == goal
        bits = rows.bit_length() - 1
        most = rows * (bits if rows == 1 << bits else min(rows, lanes) - 1)
        assert len(found.steps) <= most


def test_any_permutation():
    random = np.random.default_rng(0)
    for count, lanes in itertools.product((1, 2, 6), (4, 8)):
        places = [(k, lane) for k in range(count) for lane in range(lanes)]
        order = [places[at] for at in random.permutation(count * lanes)]
        goal = [order[k * lanes : (k + 1) * lanes] for k in range(count)]
        assert apply(permute(goal), count, lanes) == goal


# --- which tile -----------------------------------------------------------------------------------


def permuted(shape, axes, dtype=np.float32):
    """An array of axes in another order, seen in the order of ``shape``."""
    return array(shape, dtype, order=axes)


CASES = {
    "NCHW to NHWC": ((8, 64, 30, 50), (0, 1, 2, 3), (0, 2, 3, 1)),
    "NHWC to NCHW": ((8, 64, 30, 50), (0, 2, 3, 1), (0, 1, 2, 3)),
    "three channels to NHWC": ((8, 3, 30, 50), (0, 1, 2, 3), (0, 2, 3, 1)),
    "three channels to NCHW": ((8, 3, 30, 50), (0, 2, 3, 1), (0, 1, 2, 3)),
    # (n, c, i, j, h, w): depth to space by 2, as ops/shape/pixel_shuffle.py asks for it
    "NCHW to space": ((2, 6, 2, 2, 20, 50), (0, 1, 2, 3, 4, 5), (0, 1, 4, 2, 5, 3)),
    "NCHW to depth": ((2, 6, 2, 2, 20, 50), (0, 1, 4, 2, 5, 3), (0, 1, 2, 3, 4, 5)),
    "NHWC to space": ((2, 32, 2, 2, 20, 50), (0, 4, 5, 1, 2, 3), (0, 4, 2, 5, 3, 1)),
    "NHWC to depth": ((2, 32, 2, 2, 20, 50), (0, 4, 2, 5, 3, 1), (0, 4, 5, 1, 2, 3)),
    "few channels to space": ((2, 3, 2, 2, 20, 50), (0, 4, 5, 1, 2, 3), (0, 4, 2, 5, 3, 1)),
}


@pytest.mark.parametrize(
    ("case", "template", "vectors"),
    [
        ("NCHW to NHWC", "pointwise/transpose", 16),
        ("NHWC to NCHW", "pointwise/transpose", 16),
        ("three channels to NHWC", "pointwise/rows", 3),
        ("three channels to NCHW", "pointwise/rows", 3),
        ("NCHW to space", "pointwise/rows", 2),
        ("NCHW to depth", "pointwise/rows", 2),
        ("NHWC to space", "pointwise/rows", 4),
        ("NHWC to depth", "pointwise/rows", 4),
        ("few channels to space", "pointwise/rows", 12),
    ],
)
def test_tiles(case, template, vectors):
    shape, source, target = CASES[case]
    found = plan("y0 = x0;", permuted(shape, source), out=permuted(shape, target))
    assert found.template == template
    assert isinstance(found.code, TileCode)
    assert len(found.code.shuffles.outputs) == vectors
    assert found.code.inputs[0].inner == "tile"
    assert found.code.results[0].inner == "one"
    # A GPU's caches are no place for tiles of one work-item.
    other = plan("y0 = x0;", permuted(shape, source), out=permuted(shape, target), traits=GPU)
    assert other.template == "pointwise/elements"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_batch_shares_its_kernel_and_its_work(case, batch):
    shape, source, target = CASES[case]
    codes = set()
    for n in (3, batch):
        grown = (n, *shape[1:])
        found = plan("y0 = x0;", permuted(grown, source), out=permuted(grown, target))
        codes.add(found.code)
        given = numbers(found)
        long = [(given["n"], given["run"])]
        if "nb" in given:
            long.append((given["nb"], given["b_run"]))
        pieces = [-(-size // run) for size, run in long]
        assert given["m_pieces"] == -(-given["m"] // given["m_run"])
        outer = math.prod(given[f"n{d}"] for d in range(found.code.outer))
        assert math.prod(found.global_size) == math.prod(pieces) * given["m_pieces"] * outer
        assert found.local_size == (1, 1)
        short = len(found.code.result_rows) * found.code.result_step
        short = 1 if "nb" in given else short
        elements = math.prod(size for size, _ in long) * given["m"] * outer * short
        assert elements == math.prod(grown)
        if not found.code.whole:
            for (_, run), tile in zip(long, found.code.tile, strict=True):
                assert run % tile == 0
    assert len(codes) == 1


def test_rows_that_begin_amid_lines_are_taken_whole_or_long():
    def tile(shape, source, target):
        found = plan("y0 = x0;", permuted(shape, source), out=permuted(shape, target))
        assert found.template == "pointwise/transpose"
        return found.code.whole, found.code.tile

    last, first = (0, 2, 3, 1), (0, 1, 2, 3)
    assert tile((8, 64, 30, 50), first, last) == (False, (32, 256))
    assert tile((8, 67, 30, 50), first, last) == (True, (16384,))
    assert tile((8, 400, 15, 15), first, last) == (False, (32, 256))
    assert tile((8, 401, 15, 15), first, last) == (False, (128, 96))
    assert tile((8, 67, 31, 51), last, first) == (False, (128, 96))
    assert tile((8, 512, 14, 14), last, first) == (True, (16384,))


def test_registers_decide_how_many_elements_move():
    shape, source, target = CASES["NCHW to NHWC"]
    for bytes_ in (16, 32, 64):
        traits = dataclasses.replace(CPU, vector_bytes=bytes_)
        moved = permuted(shape, source), permuted(shape, target)
        found = plan("y0 = x0;", moved[0], out=moved[1], traits=traits)
        assert found.code.vector == bytes_ // 4


@pytest.mark.parametrize(
    ("expr", "dtype", "template"),
    [
        ("y0 = x0;", np.uint8, "pointwise/transpose"),  # bits are moved as they are
        ("y0 = x0 + 1;", np.uint8, "pointwise/elements"),  # C promotes char to int: no vectors
        ("y0 = x0 + 1;", np.float16, "pointwise/transpose"),
        ("y0 = x0 + index;", np.float32, "pointwise/elements"),
    ],
)
def test_what_means_the_same_on_vectors_gets_tiles(expr, dtype, template):
    shape, source, target = CASES["NCHW to NHWC"]
    found = plan(expr, permuted(shape, source, dtype), out=permuted(shape, target, dtype))
    assert found.template == template


def test_other_inputs_lie_as_the_results_or_repeat():
    shape, source, target = CASES["NCHW to NHWC"]
    moved, straight = permuted(shape, source), permuted(shape, target)
    found = plan("y0 = x0 + x1;", moved, straight, out=straight)
    assert found.template == "pointwise/transpose"
    assert [x.inner for x in found.code.inputs] == ["tile", "one"]
    found = plan("y0 = x0 + x1;", moved, array((1,)), out=straight)
    assert [x.inner for x in found.code.inputs] == ["tile", "zero"]
    found = plan("y0 = x0 + x1;", moved, array((64, 1, 1)), out=straight)
    assert [x.inner for x in found.code.inputs] == ["tile", "one"]
    found = plan("y0 = x0 + x1;", moved, moved, out=straight)
    assert [x.inner for x in found.code.inputs] == ["tile", "tile"]
    # A third order is too many.
    third = permuted(shape, (0, 3, 1, 2))
    assert plan("y0 = x0 + x1;", moved, third, out=straight).template == "pointwise/elements"


def test_what_nothing_is_contiguous_in_gets_no_tile():
    shape, source, target = CASES["NCHW to NHWC"]
    found = plan("y0 = x0;", array(shape, steps=2), out=permuted(shape, target))
    assert found.template == "pointwise/elements"
    found = plan("y0 = x0;", permuted(shape, source), out=array(shape, steps=2, order=target))
    assert found.template == "pointwise/elements"


def test_short_rows_are_walked_together():
    def part(width):
        return Operand((64, 64, width), (64 * 600 * 4, 600 * 4, 4), 0, np.dtype(np.float32))

    assert plan("y0 = x0 + 1;", part(50)).template == "pointwise/rows"
    assert plan("y0 = x0 + 1;", part(599)).template == "pointwise/elements"
    assert plan("y0 = x0 + 1;", part(50), traits=GPU).template == "pointwise/elements"


# --- copies move words ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape", "offset", "storage", "size"),
    [
        (np.uint8, (4096,), 0, "uint", 1024),
        (np.uint8, (4098,), 0, "ushort", 2049),
        (np.uint8, (4099,), 0, "uchar", 4099),
        (np.uint8, (4096,), 2, "ushort", 2048),
        (np.float16, (4096,), 0, "uint", 2048),
        (np.bool_, (4096,), 0, "uint", 1024),
        (np.float32, (4096,), 0, "uint", 4096),
        (np.float64, (4096,), 0, "ulong", 4096),
    ],
)
def test_copies_move_words(dtype, shape, offset, storage, size):
    for traits in (CPU, GPU):
        source, target = array(shape, dtype, offset=offset), array(shape, dtype)
        found = plan("y0 = x0;", source, out=target, traits=traits)
        assert found.code.results[0].storage == found.code.inputs[0].storage == storage
        assert numbers(found)["n"] == size
        assert not found.code.doubles


def test_other_snippets_and_conversions_are_no_copies():
    assert plan("y0 = x0 + 0;", array((64,))).code.results[0].storage == "float"
    assert plan("y0 = x0;", array((64,)), out=array((64,), np.int32)).code.inputs[0].value == (
        "float"
    )
    assert plan("y0 = x0", array((64,))).code.results[0].storage == "uint"
