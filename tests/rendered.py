"""Every kernel with a golden file: what tests of rendering and of its caches print."""

import dataclasses
import itertools
import re
from functools import lru_cache

import numpy as np
from planning import (
    ARGMAX,
    CPU,
    FLOAT,
    GPU,
    array,
    block,
    crossed,
    define,
    is_stand_in,
    map_plan,
    pairs_plan,
    reduce_plan,
    where_possible,
)
from support import BFLOAT16

import clprim as cp
from clprim.language.definition import define_pointwise
from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.families import FAMILIES
from clprim.plan.fused.attention import plan_attention
from clprim.plan.fused.attention_few import plan_attention_few
from clprim.plan.fused.attention_gradient import plan_attention_gradient, tiles_of
from clprim.plan.fused.gate import Gate, plan_gate
from clprim.plan.fused.inverted_residual import plan_inverted_residual
from clprim.plan.index.lines import plan_lines
from clprim.plan.index.pieces import Diagonal, plan_pieces
from clprim.plan.pointwise.lists import plan_lists
from clprim.plan.reduction.code import Scaling
from clprim.plan.sort.planner import plan_order
from clprim.plan.sort.select import plan_select
from clprim.plan.strides import Operand

HALF = np.dtype(np.float16)

_MOMENTS = {
    "init": "reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    "step": """\
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);""",
    "combine": """\
typeof_reduce_y0 n = reduce_y2 + other_y2;
if (other_y2 > 0) {
    typeof_reduce_y0 delta = other_y0 - reduce_y0;
    reduce_y0 += delta * (other_y2 / n);
    reduce_y1 += other_y1 + delta * delta * (reduce_y2 * other_y2 / n);
    reduce_y2 = n;
}""",
    "name": "mean_and_variance",
}
WELFORD = define(**_MOMENTS, finalize="y0 = reduce_y0; y1 = reduce_y1 / count;")
# Of a scan, which has no `count`.
RUNNING_WELFORD = define(
    **{key: text.replace("reduce_", "scan_") for key, text in _MOMENTS.items()},
    finalize="y0 = scan_y0; y1 = scan_y1 / scan_y2;",
    scan=True,
)


def maps():
    image, channel = array((2, 3, 20, 20), order=(0, 2, 3, 1)), array((3, 1, 1))
    yield "pointwise/cpu", map_plan("y0 = x0 * w0 + x1;", *[array((100,))] * 2, scalars=(1.0,))
    yield "pointwise/gpu", map_plan("y0 = x0 + x1;", array((50, 60)), array((60,)), traits=GPU)
    prefetching = dataclasses.replace(CPU, prefetch=True)
    yield "pointwise/streaming", map_plan("y0 = x0 + 1;", array((1 << 24,)), traits=prefetching)
    yield (
        "pointwise/chunk",
        map_plan(
            "y0 = x0 ? x1 : w0;",
            array((1 << 12, 1 << 12), np.dtype(bool)),
            array((1 << 12, 1 << 12)),
            out=array((1 << 12, 1 << 12), offset=4),
            scalars=(1.0,),
        ),
    )
    yield (
        "pointwise/strided",
        map_plan(
            "// doubles what is positive\nif (x0 > 0)\n    y0 = 2 * x0;\nelse\n    y0 = x1",
            array((30, 40), steps=2),
            array((30, 40), order=(1, 0)),
        ),
    )
    back = [
        dataclasses.replace(a, strides=(70 * a.dtype.itemsize, -a.dtype.itemsize))
        for a in (array((60, 70), d, offset=69 * d.itemsize) for d in (FLOAT, HALF))
    ]
    ahead = dataclasses.replace(CPU, prefetch=True, cache_bytes=1024)
    yield "pointwise/backwards", map_plan("y0 = x0 + x1;", *back, traits=ahead)
    yield (
        "pointwise/half",
        map_plan(
            "y0 = x0 + x1 * 0.5;",
            array((64,), HALF),
            array((64,), BFLOAT16),
            out=array((64,), BFLOAT16),
        ),
    )
    yield (
        "pointwise/positions",
        map_plan(
            "y0 = x0 + index + coord(0) * size(-1) + w0;",
            array((5, 6, 7), np.int8),
            out=array((5, 6, 7), np.int64),
            scalars=(np.bool_(True),),
            traits=GPU,
        ),
    )
    yield (
        "pointwise/lookups",
        map_plan(
            "int r = x1;\n"
            "y0 = inside_x0(r, coord(1), 0) ? at_x0(r, coord(1), 0) : size_x0(-1);\n"
            "y0 += at_x1(0) * (typeof_x0)0;",
            array((7, 6, 2), HALF, order=(0, 2, 1)),
            array((6,), np.int64),
            out=array((5, 6)),
        ),
    )
    yield (
        "pointwise/lanes",
        map_plan(
            "typeof_y0 sum = 0;\n"
            "for (int i = 0; i < 2; ++i)\n"
            "    sum += at_x0(coord(0), coord(1), 2 * coord(2) + i);\n"
            "y0 = sum * x1;",
            array((2, 40, 12), HALF, order=(0, 2, 1)),
            array((1, 6)),
            out=array((2, 40, 6), order=(0, 2, 1)),
        ),
    )
    whole = [array((640,), np.int32)] * 2
    yield (
        "pointwise/division",
        map_plan("y0 = x0 / (x1 - 1) / 2;\ny0 /= x1;", *whole, out=whole[0]),
    )
    yield (
        "pointwise/conversion",
        map_plan(
            "int4 v = (int4)(x0, x1, 1, w0);\nuint t = convert_uint4_rte((double4)x1).x;\n"
            "y0 = (ulong)x0 + convert_char_sat(x1);\ny0 += v.x + t * x1;",
            array((9,)),
            array((9,), np.float64),
            scalars=[0.5],
            dtype=np.int8,
        ),
    )
    yield "pointwise/12-dimensions", map_plan("y0 = max(x0, x1);", *crossed(12))
    yield (
        "pointwise/preamble",
        map_plan(
            "y0 = twice(x0); y1 = clamp(x0, 0, 1.5);",
            array((9,), np.float64),
            dtype=np.float64,
            results=2,
            name="both",
            preamble="// of ones own\ndouble twice(double a)\n{\n    return 2 * a;\n}",
        ),
    )
    momentum = "y0 = x0 - x1 * w0; y1 = x2 + x1;", "if (x1 > 0)\n    y1 = x2;\ny0 = x0 - x1 * w0;"
    halves = [HALF, FLOAT, FLOAT]
    for name, text, dtypes, traits in [
        ("lists", momentum[0], [FLOAT] * 3, CPU),
        ("lists-half", momentum[1], halves, GPU),
    ]:
        step = define_pointwise(text, name="momentum", preamble="")
        rows = [[array((n,), d) for d in dtypes] for n in (100, 20_000, 7)]
        yield f"pointwise/{name}", plan_lists(step, rows, (0, 2), [FLOAT], traits)
    yield "pointwise/periodic", map_plan("y0 = x0 + x1;", image, channel, out=image)
    yield from moves()


def moves():
    """Operands that lie otherwise than the results."""
    narrow = dataclasses.replace(CPU, vector_bytes=16)
    picture, last = array((8, 64, 400, 500)), array((8, 64, 400, 500), order=(0, 2, 3, 1))
    pixels = array((8, 40, 50, 3)), array((8, 40, 50, 3), order=(0, 3, 1, 2))
    yield "pointwise/transpose", map_plan("y0 = x0;", picture, out=last, traits=narrow)
    yield "pointwise/transpose-sum", map_plan("y0 = max(x0, 0) + x1;", last, picture, out=last)
    odd = array((8, 67, 40, 50)), array((8, 67, 40, 50), order=(0, 2, 3, 1))
    yield "pointwise/transpose-whole", map_plan("y0 = x0;", odd[0], out=odd[1], traits=narrow)
    yield "pointwise/transpose-gpu", map_plan("y0 = x0;", picture, out=last, traits=GPU)
    yield (
        "pointwise/three-rows",
        map_plan("y0 = x0 * w0;", pixels[1], out=pixels[0], scalars=(2.0,)),
    )
    yield "pointwise/rows", map_plan("y0 = x0 + 1;", image_part())


def kernel_sum(expr="y0 = exp(-d * w0) * x2;", **outer):
    """A sum over pairs of what distances make."""
    strings = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    squares = cp.Reduction("y0 = x0 - x1;", **{**strings, "step": "reduce_y0 += y0 * y0;"})
    made = cp.Reduction(outer.pop("values", "y0 = x0;"), **{**strings, **outer})
    return cp.Pairs(inner=squares, expr=expr, outer=made, name="kernel_sum")


# Values weighted by exponentials of pairs.
WEIGHTED = {
    "values": "y0 = x0; y1 = x1;",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;",
    "step": "typeof_y0 m = max(reduce_y0, y0), f = exp(reduce_y0 - m), e = exp(y0 - m); "
    "reduce_y1 = reduce_y1 * f + e; reduce_y2 = reduce_y2 * f + e * y1; reduce_y0 = m;",
    "combine": "typeof_reduce_y0 m = max(reduce_y0, other_y0), f = exp(reduce_y0 - m), "
    "e = exp(other_y0 - m); reduce_y1 = reduce_y1 * f + other_y1 * e; "
    "reduce_y2 = reduce_y2 * f + other_y2 * e; reduce_y0 = m;",
    "finalize": "y0 = reduce_y2 / reduce_y1;",
}

# Sums over pairs, finished a vector at a time.
DISTANCES = define(
    "y0 = max(x0 - x1, x1 - x0);", finalize="y0 = sqrt(reduce_y0);", name="distances"
)


def image_part():
    """A part of a picture: short rows."""
    whole = array((64, 64, 64))
    return dataclasses.replace(whole, shape=(64, 50, 50), offset=4)


def reductions():
    about = define(
        "y0 = x0 - x1;", finalize="y0 = x1 + reduce_y0 / count; y1 = x2;", name="about_origin"
    )
    once = [array((60_000, 40)), array((1, 40), steps=2), array((1, 1), HALF)]
    yield (
        "reduction/finalize-arrays",
        reduce_plan(once, (0,), CPU, about, partials=["f4"], results=["f4"] * 2),
    )
    yield "reduction/argmax-gpu", reduce_plan(array((70, 80)), (1,), GPU, ARGMAX, ["f4", "i8"])
    yield "reduction/welford-cpu", reduce_plan(array((6, 7, 800)), (0, 2), CPU, WELFORD)
    lines = [array((200, 1, 64)), array((1, 300, 64))]
    yield "reduction/pairs", reduce_plan(lines, (2,), CPU, DISTANCES)
    yield "reduction/pairs_local", reduce_plan(lines, (2,), GPU, DISTANCES)
    yield (
        "reduction/nested",
        where_possible(pairs_plan)(kernel_sum(), *lines, array((300,)), numbers=(0.5,)),
    )
    yield (
        "reduction/nested-softmax",
        where_possible(pairs_plan)(kernel_sum("y0 = d;", **WEIGHTED), *lines, array((1, 300, 64))),
    )
    yield (
        "reduction/scaled-half",
        reduce_plan(
            [array((40, 50), HALF), array((50,), HALF)],
            (1,),
            CPU,
            define("y0 = x0 * x1 * w0;"),
            results=[BFLOAT16],
            scaling=[Scaling("accumulate", FLOAT)],
            scalars=(2.0,),
        ),
    )


def examples(family):
    """The plans of its strategies' examples, without those that another dtype is not planned by."""
    for strategy, lower in family.own():
        for one in where_possible(lambda s=strategy: [*s.examples()])():
            plan = where_possible(
                lambda s=strategy, e=one, lower=lower: s.planned(lower(e.problem), e.traits, e.tile)
            )()
            if plan:
                yield f"{strategy.name}-{one.name}" if one.name else strategy.name, plan


def strategies():
    """The examples of every family's strategies, and kernels that several share only once."""
    seen = set()
    for family in FAMILIES:
        for short, plan in examples(family):
            folder = plan.main.template.rpartition("/")[0]
            name = f"{folder}/{short.rpartition('/')[2]}"
            for stage in plan.stages:
                part = re.split("[/_]", stage.template)[-1]
                if stage is plan.main:
                    yield name, stage
                elif stage.template not in seen:
                    yield f"{name}-{part}", stage
                seen.add(stage.template)


def blocks():
    """Inverted residuals: with an expansion, and with loops over taps."""
    traits = dataclasses.replace(CPU, local_memory=256 << 10)
    for name, problem in (
        ("fused/inverted_residual", block(1, 24, 144, 24, 28, 1)),
        ("fused/inverted_residual-loops", block(2, 4, 40, 3, 9, 1, kernel=4, expand=False)),
    ):
        yield name, plan_inverted_residual(problem, traits).main


def scans():
    """The order of keys, of all and of few."""
    for name, lines, length, bits, traits in (
        ("rank", 1000, 10, 32, CPU),
        ("lines", 100, 5000, 32, CPU),
        ("chunks", 1, 1_000_000, 32, CPU),
        ("groups", 1, 1_000_000, 32, GPU),
    ):
        seen = set()
        for stage in plan_order(lines, length, bits, 4, traits).stages:
            part = stage.template.rpartition("/")[2]
            if stage.template.startswith("sort/") and part not in seen:
                yield f"sort/{name}" if part == name else f"sort/{name}-{part}", stage
            seen.add(part)
    yield "sort/select", plan_select(100, 5000, 200, 32, 4, CPU).stages[0]
    yield "sort/select-ordered", plan_select(1, 1_000_000, 5, 32, 4, CPU).stages[0]
    yield "sort/select-pieces", plan_select(1, 1_000_000, 5, 32, 4, CPU).stages[1]


def lines_at_indices():
    """Neighbouring lines, single ones, of halves, and such as an index holds for."""
    index = array((100, 64), np.int64)
    for name, axis, how, dtype in (
        ("lines", 0, "sum", FLOAT),
        ("lines-single", 1, "last", FLOAT),
        ("lines-half", 0, "amax", np.dtype(np.float16)),
    ):
        y, source = array((100, 64), dtype), array((100, 64), dtype)
        yield f"index/{name}", plan_lines(y, index, source, axis, how, CPU).main
    y = source = array((100, 64))
    shared = dataclasses.replace(index, strides=(8, 0))
    yield "index/lines-shared", plan_lines(y, shared, source, 0, "sum", CPU).main
    yield "index/lines-copied", plan_lines(y, index, source, 1, "sum", CPU, y).main
    unsigned = array((100, 64), np.uint64)
    yield "index/lines-unsigned", plan_lines(y, unsigned, source, 0, "sum", CPU).main
    y = array((100_000, 1000))
    yield (
        "index/lines-ahead",
        plan_lines(y, shared, source, 0, "sum", dataclasses.replace(CPU, prefetch=True)).main,
    )


def pieces():
    """Rolled rows, beyond the cache; images with a border; a triangle; two arrays in a row."""
    far = dataclasses.replace(CPU, prefetch=True, cache_bytes=1 << 10)
    rows, image = array((100, 500)), array((30, 8, 56, 56))
    parts = [
        (dataclasses.replace(rows, shape=(100, n)), (0, start)) for n, start in ((497, 3), (3, 0))
    ]
    yield "index/pieces", plan_pieces(rows, parts, far, filled=False).main
    framed = array((30, 8, 58, 60))
    yield (
        "index/pieces-filled",
        plan_pieces(framed, [(image, (0, 0, 1, 2))], CPU, filled=True).main,
    )
    for name, lower in (("lower", True), ("upper", False)):
        whole = [(rows, (0, 0))]
        cut = plan_pieces(rows, whole, CPU, filled=True, cut=Diagonal(0, lower=lower))
        yield f"index/pieces-{name}", cut.main
    halves = [(array((5000,), HALF), (5000 * k,)) for k in range(2)]
    yield (
        "index/pieces-in-a-row",
        plan_pieces(array((10000,), HALF), halves, far, filled=False).main,
    )


def attentions():
    """Causal, of heads in one dimension; masks of keys and of pairs; doubles, apart in memory.

    Weights drop out in the first and the last.
    """
    x, sums = array((2, 3, 50, 64)), array((2, 3, 50, 1))
    of_keys = dataclasses.replace(array((2, 3, 50, 50), np.bool_), strides=(0, 0, 0, 1))
    of_pairs = array((2, 3, 50, 50), np.float16)
    of_queries = dataclasses.replace(array((2, 3, 50, 50)), strides=(30000, 10000, 4, 200))
    double, wide = (array(s, np.float64) for s in (x.shape, sums.shape))
    apart = array(x.shape, double.dtype, steps=2)
    traits = dataclasses.replace(CPU, local_memory=256 << 10)
    dense = array(of_keys.shape, of_keys.dtype)
    for name, given, mask, causal, drop in (
        ("causal", (x, x, x, x, sums), None, True, 16),
        ("mask", (x, x, x, x, sums), of_pairs, False, 0),
        ("mask-of-keys", (x, x, x, x, sums), of_keys, False, 0),
        ("mask-of-queries", (x, x, x, x, sums), of_queries, False, 0),
        ("double", (apart, apart, apart, double, wide), dense, False, 16),
    ):
        yield f"fused/attention-{name}", plan_attention(*given, mask, causal, drop, traits).main
    for name, kind, keys, mask, slices in (
        ("plain", np.float32, np.float32, None, 1),
        ("keys-of-16-bits", np.float32, np.float16, np.bool_, 4),
        ("double", np.float64, np.float64, np.float64, 1),
    ):
        few, row = (array((2, 3, 2, n), kind) for n in (64, min(slices, 2)))
        stored = array(x.shape, keys)
        sees = None if mask is None else array((2, 3, 2, 50), mask)
        plan = plan_attention_few(few, stored, stored, few, row, sees, (0, 0), slices, traits)
        yield f"fused/attention_few-{name}", plan.main
    names = ("q", "k", "v", "grad", "sums", "delta", "dq", "dk", "dv", "mask", "dmask")
    of_batches = Operand((2, 3, 50, 50), (0, 10000, 200, 4), 0, FLOAT)
    for name, one, column, mask, causal, drop in (
        ("causal", x, sums, (), True, 16),
        ("mask", x, sums, (of_pairs, of_batches), False, 0),
        ("double", apart, wide, (of_keys,), False, 16),
    ):
        if name == "mask" and is_stand_in():
            continue  # gradients of masks are float
        tiles = tiles_of(one.shape, 50, 64, one.dtype.itemsize, traits)
        dq = array((2, 3, tiles.slices * tiles.partial[0], tiles.partial[1]), one.dtype)
        given = (*(one,) * 4, column, column, dq, one, one, *mask)
        arrays = dict(zip(names, given, strict=False))
        rows, plan = plan_attention_gradient(arrays, tiles, causal, drop, traits).stages
        yield f"fused/attention_rows-{name}", rows
        yield f"fused/attention_gradient-{name}", plan


def gates():
    """Squeeze and excitation, of both memory formats."""
    first, second = (define_epilogue("gate", f"y0 = {text};") for text in ("max(y0, 0)", "exp(y0)"))
    for name, dtype, planar, snippets in (
        ("plain", FLOAT, False, (first, second)),
        ("planes", np.dtype(np.float64), True, (None, None)),
    ):
        x = array((2, 40, 6, 5), dtype)
        if not planar:
            size = dtype.itemsize
            x = dataclasses.replace(x, strides=(1200 * size, size, 200 * size, 40 * size))
        inner, rows, channels = (array(s, dtype) for s in ((6, 40), (6,), (40,)))
        y = array((2, 40, 1, 1), dtype)
        plan = plan_gate(Gate(x, inner, rows, inner, channels, y, *snippets), CPU)
        yield f"fused/gate-{name}", plan.main


@lru_cache(maxsize=1)
def kernels():
    """Every kernel of this file, as (name, template, code)."""
    found = [(name, plan.template, plan.code) for name, plan in maps()]
    for name, plan in reductions():
        for n, stage in enumerate(plan.stages):
            pack = f"pack-{n}" if n else "pack"
            shown = pack if stage.template == "product/pack" else "finish" if n else ""
            over_pairs = stage.template.startswith(("reduction/pairs", "reduction/nested"))
            shown = "" if over_pairs else shown
            found.append((f"{name}-{shown}".rstrip("-"), stage.template, stage.code))
    plans = itertools.chain(
        strategies(),
        blocks(),
        scans(),
        lines_at_indices(),
        pieces(),
        attentions(),
        gates(),
    )
    found += [(name, plan.template, plan.code) for name, plan in plans]
    return found
