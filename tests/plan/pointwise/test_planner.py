"""Plans of `Pointwise`: which code, which arguments, how many work-items; no device needed."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from planning import CPU, GPU, array, crossed, numbers
from planning import map_plan as plan

from clprim.errors import ShapeError
from clprim.plan.kernel import BAKED_DIMS, Buffer, Scalar
from clprim.plan.strides import Operand
from clprim.render import render
from clprim.traits import DeviceTraits

SMALL = DeviceTraits(max_work_group_size=64, local_memory=4096)


# --- the key is the kernel, not the shape -----------------------------------------------------


@pytest.mark.parametrize("traits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "shapes",
    [
        [((n,), (n,)) for n in (64, 65, 1000, 4096, 1 << 20)],
        [((b, 16, 50, 50), (16, 1, 1)) for b in (2, 3, 8, 64)],
        [((b, c, 28, 28), (c, 1, 1)) for b, c in ((2, 3), (4, 64), (8, 128))],
        [((n, 100), (100,)) for n in (2, 3, 64, 1000)],
        [((n, 100), (n, 1)) for n in (2, 3, 64, 1000)],
        [((5, n, 1), (1, n, 40)) for n in (2, 3, 64)],
    ],
    ids=lambda shapes: str(shapes[0]),
)
def test_shapes_of_one_class_share_their_code(shapes, traits):
    codes = {plan("y0 = x0 + x1;", array(a), array(b), traits=traits).code for a, b in shapes}
    assert len(codes) == 1


def test_strides_offsets_and_scalars_are_arguments():
    codes = {
        plan("y0 = x0 * w0;", array((50, 90), offset=o, steps=s), scalars=(w,)).code
        for o, s, w in itertools.product((0, 4, 400), (2, 3, -2), (1.0, 2.5))
    }
    assert len(codes) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"dtype": np.float64},
        {"steps": 2},
        {"steps": -1},
        {"order": (1, 0)},
    ],
    ids=str,
)
def test_what_changes_the_code_changes_the_key(other):
    assert plan("y0 = x0;", array((64, 64))).code != plan("y0 = x0;", array((64, 64), **other)).code


def test_plans_are_values():
    one, two = (plan("y0 = x0 + x1;", array((8, 9)), array((9,))) for _ in range(2))
    assert one == two
    assert hash(one.code) == hash(two.code)
    assert render("pointwise/elements", one.code) == render("pointwise/elements", two.code)


@pytest.mark.parametrize("columns, local", [(112, (128, 8)), (56, (64, 16)), (1500, (512, 2))])
def test_groups_of_a_cpu_have_whole_rows(columns, local):
    # Reads at coordinates along columns are no vectors: a work-item an element.
    x = array((500, 3000))
    expr = "y0 = at_x0(coord(0), 2 * coord(1));"
    result = array((500, columns))
    assert plan(expr, x, out=result).local_size == local


@pytest.mark.parametrize(
    ("columns", "traits", "together"),
    [(64, CPU, 128), (512, CPU, 16), (700, CPU, 1), (5000, CPU, 1), (64, GPU, 1)],
)
def test_short_rows_are_taken_together_on_cpus(columns, traits, together):
    expr, x = "y0 = at_x0(coord(0), coord(1) / 2, coord(2));", array((3, 300, 1000))
    found = plan(expr, x, out=array((3, 300, columns)), traits=traits)
    assert found.template == "pointwise/elements"
    assert found.code.vector > 1 or traits is GPU
    assert found.code.walks is (together > 1)
    assert numbers(found).get("together", 1) == together
    assert numbers(found)["rows"] == 3 * -(-300 // together)


@pytest.mark.parametrize("traits", [CPU, GPU, SMALL], ids=["cpu", "gpu", "small"])
def test_few_work_group_sizes_serve_all_shapes(traits):
    # Some runtimes compile a kernel once more for every size of work-group it is launched with.
    sizes = set()
    for shape in [
        *((n,) for n in range(1, 3000, 7)),
        *((m, n) for m in range(1, 40, 3) for n in range(1, 40)),
    ]:
        sizes.add(plan("y0 = x0 + x1;", array(shape), array(shape[-1:]), traits=traits).local_size)
    assert all(n & (n - 1) == 0 for size in sizes for n in size)


# --- launches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("traits", [CPU, GPU, SMALL], ids=["cpu", "gpu", "small"])
def test_every_element_has_its_work_item(traits):
    for m, n in itertools.product((1, 2, 7, 300), (1, 2, 3, 15, 16, 17, 255, 256, 1025, 5000)):
        for b in (array((n,)), array((m, n), order=(1, 0)), array((m, 1))):
            found = plan("y0 = x0 + x1;", array((m, n)), b, traits=traits)
            if found.template != "pointwise/elements":  # tiles have tests of their own
                assert traits.is_cpu
                continue
            given = numbers(found)
            assert given["n"] * given["rows"] * given.get("together", 1) >= m * n
            inner, outer = found.global_size
            assert inner * given.get("run", 1) >= given["n"]
            assert outer >= given["rows"]
            assert all(g % s == 0 for g, s in zip(found.global_size, found.local_size, strict=True))
            assert math.prod(found.local_size) <= traits.max_work_group_size
            # and not many are there for nothing
            assert inner * outer <= 4 * -(-m * n // given.get("run", 1)) + 2 * 1024


@pytest.mark.parametrize(
    ("expr", "dtype", "size", "vector"),
    [
        ("y0 = x0 + 1;", np.float32, 64, 16),
        ("y0 = x0 + 1;", np.float32, 15, 4),
        ("y0 = x0 + 1;", np.float32, 3, 2),
        ("y0 = x0 + 1;", np.float32, 1, 1),
        ("y0 = x0 + 1;", np.float64, 64, 8),
        ("y0 = x0 + 1;", np.int32, 64, 16),
        ("y0 = x0 + 1;", np.uint64, 64, 8),
        ("y0 = x0 + 1;", np.int8, 64, 1),  # C promotes char to int first: vectors would not
        ("y0 = x0 + 1;", np.bool_, 64, 1),
        ("y0 = x0 + 1;", np.float16, 64, 16),
        ("y0 = x0 * 0.5;", np.float32, 64, 16),
        ("y0 = x0 * 0.5;", np.int32, 64, 1),  # the literal makes doubles of ints
        ("y0 = x0 > 0;", np.float32, 64, 1),
        ("y0 = x0 + index;", np.float32, 64, 1),
        ("y0 = x0 + coord(0);", np.float32, 64, 1),
    ],
)
def test_vectors_are_used_where_they_mean_the_same(expr, dtype, size, vector):
    found = plan(expr, array((size,), dtype), dtype=dtype)
    assert found.code.vector == vector
    assert plan(expr, array((size,), dtype, steps=2), dtype=dtype).code.vector == 1


def test_repeated_operands_do_not_stop_vectors():
    assert plan("y0 = x0 + x1;", array((64, 64)), array((64, 1))).code.vector == 16
    assert plan("y0 = x0 + x1;", array((64, 64)), array(())).code.vector == 16
    assert plan("y0 = x0 + x1;", array((64, 64)), array((64, 64), steps=2)).code.vector == 1
    assert plan("y0 = x0;", array((64,)), out=array((64,), steps=2)).code.vector == 1
    assert plan("y0 = x0;", array((64,)), out=array((64,), np.float64)).code.vector == 8
    assert plan("y0 = x0;", array((64,)), out=array((64,), np.int32)).code.vector == 1


@pytest.mark.parametrize("bytes_", [16, 32, 64])
def test_a_vector_fills_a_register(bytes_):
    traits = dataclasses.replace(CPU, vector_bytes=bytes_)
    assert plan("y0 = x0;", array((4096,)), traits=traits).code.vector == bytes_ // 4
    assert plan("y0 = x0;", array((4096,), steps=2), traits=traits).code.vector == 1


def test_results_go_past_the_cache_where_they_would_not_stay():
    large = array((1 << 12, 1 << 12))
    assert plan("y0 = x0;", large).code.streaming
    assert not plan("y0 = x0;", array((1 << 10, 1 << 10))).code.streaming
    assert not plan("y0 = x0;", large, traits=GPU).code.streaming
    assert not plan("y0 = x0 + 1;", large, out=large, in_place=True).code.streaming
    odd = plan("y0 = x0;", large, out=array((1 << 12, 1 << 12), offset=4)).code
    assert odd.streaming and odd.peeled and not plan("y0 = x0;", large).code.peeled
    # Half of an array that no cache holds: the other half comes soon.
    part = Operand((1 << 10, 1 << 11), (1 << 15, 4), 0, np.dtype(np.float32))
    assert plan("y0 = x0;", array(part.shape), out=part).code.streaming
    half = array((1 << 13, 1 << 12), np.float16)
    assert not plan("y0 = x0 + 1;", half, out=half).code.streaming
    assert plan("y0 = x0;", half, out=half).code.streaming  # a copy has no floats


def test_what_no_vector_computes_passes_the_cache_in_chunks():
    large, mask = array((1 << 12, 1 << 12)), array((1 << 12, 1 << 12), bool)
    found = plan("y0 = x0 ? x1 : w0;", mask, large, scalars=(1.0,))
    assert found.code.chunk and found.code.streaming and found.local_size == (1, 1)
    for expr in ("y0 = x0 ? exp(x1) : 0;", "if (x0) y0 = x1;", "y0 = x0 ? x1 : rand();"):
        assert not plan(expr, mask, large).code.chunk
    assert not plan("y0 = x0 ? x1 : 0;", mask, large, out=large, in_place=True).code.chunk
    assert not plan("y0 = x0 ? x1 : 0;", mask, large, traits=GPU).code.chunk
    turned = array((1 << 12, 1 << 12), order=(1, 0))
    assert not plan("y0 = x0 ? x1 : 0;", mask, turned, out=large).code.chunk
    assert not plan("y0 = x0 ? x1 : 0;", mask, large, out=turned).code.chunk


def test_what_comes_next_is_prefetched():
    def prefetched(*given, traits=CPU, cache=1 << 20):
        traits = dataclasses.replace(traits, prefetch=True, cache_bytes=cache)
        return dict(plan("y0 = x0 + x1;", *given, traits=traits).code.prefetched)

    long, wide = array((1 << 20,)), array((1 << 10, 1 << 10))
    assert prefetched(long, long) == {"x0": 1024, "x1": 1024}
    assert prefetched(wide, array((1 << 10, 1))) == {"x0": 1024}
    # The next short row is elsewhere.
    spread = Operand((1 << 10, 1 << 10), (1 << 13, 4), 0, np.dtype(np.float32))
    assert prefetched(spread, wide) == {"x1": 1024}
    back = Operand((1 << 20,), (-4,), ((1 << 20) - 1) * 4, np.dtype(np.float32))
    assert prefetched(back, long) == {"x0": -1024, "x1": 1024}
    assert prefetched(long, long, traits=GPU) == {}
    assert prefetched(long, long, cache=12 << 20) == {}  # a cache holds both, and the result


# --- indices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("traits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (array((1 << 30,), np.int8), "int"),
        (array((2**31 - 2**20 - 1,), np.int8), "int"),
        (array((2**31 - 2**20,), np.int8), "long"),
        (array((2**31,), np.int8), "long"),
        (array((2**31 + 5,), np.int8), "long"),
        (array((1 << 16, 1 << 15), np.int8), "long"),
        (array((1 << 16, 1 << 14), np.float64), "int"),  # 2**33 bytes, but 2**30 elements
        (array((1000,), np.int8, offset=2**31), "long"),
        (array((1000,), np.float64, offset=2**31), "int"),
        (array((1000,), np.int8, steps=2**22), "long"),
        (array((1000,), np.int8, steps=-(2**22), offset=2**32 - 1), "long"),
        (array((1000,), np.int8, steps=2**20), "int"),
    ],
    ids=str,
)
def test_indices_are_as_wide_as_they_must(operand, expected, traits):
    found = plan("y0 = x0 + 1;", operand, dtype=np.int8, traits=traits)
    assert found.code.index == expected
    assert f"typedef {expected} index_t;" in render("pointwise/elements", found.code)
    formats = {
        p.format
        for p, a in zip(found.code.parameters, found.arguments, strict=True)
        if isinstance(a, int)
    }
    assert formats == {"i" if expected == "int" else "l"}


def test_a_broadcast_result_decides_the_index_too():
    row, column = array((1, 1 << 16), np.int8), array((1 << 16, 1), np.int8)
    assert plan("y0 = x0 + x1;", row, column, dtype=np.int8).code.index == "long"
    out = Operand((100,), (2**25,), 0, np.dtype(np.int8))
    assert plan("y0 = x0;", array((100,), np.int8), out=out).code.index == "long"


def test_positions_pass_2_to_the_31():
    found = plan("y0 = x0 + index;", array((2**31 + 5, 1), np.int8), dtype=np.int64)
    assert found.code.index == "long"
    assert "const long index" in render("pointwise/elements", found.code)


# --- dimensions -------------------------------------------------------------------------------


@pytest.mark.parametrize("ndim", [1, 2, 5, BAKED_DIMS, BAKED_DIMS + 1, 12, 20])
def test_any_number_of_dimensions(ndim):
    found = plan("y0 = x0 + x1;", *crossed(ndim))
    assert found.code.outer == ndim - 1
    assert bool(found.code.constants) == (ndim > BAKED_DIMS)
    given = numbers(found)
    assert given["n"] == 2
    assert given["rows"] == 2 ** (ndim - 1)
    assert all(given[f"n{d}"] == 2 for d in range(ndim - 1))


@pytest.mark.parametrize("inputs", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("ndim", [1, 4, BAKED_DIMS, BAKED_DIMS + 1, 16])
def test_arguments_fit_what_opencl_promises(ndim, inputs):
    expr = "y0 = " + " + ".join(f"x{n}" for n in range(inputs)) + " + index + coord(0);"
    arrays = [crossed(ndim)[n % 2] for n in range(inputs)]
    found = plan(expr, *arrays, out=crossed(ndim)[1])
    sizes = {"": 8, "i": 4, "l": 8, "f": 4, "d": 8}
    assert sum(sizes[p.format] for p in found.code.parameters) <= 1024


def test_a_scalar_of_no_dimensions_is_one_loop_of_one():
    found = plan("y0 = x0;", array(()))
    given = numbers(found)
    assert (found.code.outer, given["n"], given["rows"]) == (0, 1, 1)


def test_results_come_first_among_the_arguments():
    found = plan("y0 = x0 * w0; y1 = x1;", array((4,)), array((4,)), scalars=(1.0,), results=2)
    assert found.arguments[:5] == (*map(Buffer, ("y0", "y1", "x0", "x1")), Scalar(0))
    names = [p.declaration.split()[-1].lstrip("*") for p in found.code.parameters[:5]]
    assert names == ["y0_memory", "y1_memory", "x0_memory", "x1_memory", "w0"]


def test_a_dimension_that_is_not_there_is_refused():
    with pytest.raises(ShapeError, match=r"coord\(2\) is out of bounds for a broadcast shape of 2"):
        plan("y0 = x0 + coord(2);", array((3, 4)))
    with pytest.raises(ShapeError, match=r"size\(-3\) is out of bounds"):
        plan("y0 = x0 + size(-3);", array((3, 4)))


def test_work_is_counted_for_profiles():
    found = plan("y0 = x0 * w0 + x1;", array((100, 10)), array((10,)), scalars=(1.0,))
    assert found.nbytes == 4 * (1000 + 1000 + 10)
    assert found.flops == 2000


def test_channels_last_maps_run_along_memory():
    last = array((2, 8, 5, 5), order=(0, 2, 3, 1))
    bias = array((8, 1, 1))
    found = plan("y0 = x0 + x1;", last, bias, out=last, traits=GPU)
    assert found.template == "pointwise/elements"
    assert numbers(found)["n"] == 8  # the channels, side by side in memory
    assert all(o.inner == "one" for o in (*found.code.results, *found.code.inputs))
    # A CPU runs whole vectors across the ends of rows of channels.
    found = plan("y0 = x0 + x1;", last, bias, out=last, traits=CPU)
    assert (found.template, found.code.vector, found.code.patterns) == ("pointwise/periodic", 16, 1)
    assert (numbers(found)["n"], numbers(found)["period"]) == (400, 8)


@pytest.mark.parametrize(
    ("channels", "patterns"), [(1, None), (2, 1), (3, 3), (6, 3), (16, 1), (24, 3), (48, 3), (5, 5)]
)
def test_a_pattern_repeats_after_whole_vectors_and_whole_rows(channels, patterns):
    found = plan("y0 = x0 + x1;", array((1000, channels)), array((channels,)), traits=CPU)
    assert (found.template == "pointwise/periodic") is (patterns is not None)
    if patterns:
        assert found.code.patterns == patterns
        assert numbers(found)["run"] % (patterns * found.code.vector) == 0
        assert patterns * found.code.vector % channels == 0


@pytest.mark.parametrize("channels", [13, 17, 1000, 4096 + 1])
def test_a_long_pattern_is_no_pattern(channels):
    found = plan("y0 = x0 + x1;", array((1000, channels)), array((channels,)), traits=CPU)
    assert found.template == ("pointwise/rows" if channels < 100 else "pointwise/elements")
