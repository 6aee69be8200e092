"""Every kernel with a golden file: what tests of rendering and of its caches print."""

import dataclasses
import re
from functools import lru_cache

import numpy as np
from planning import (
    ARGMAX,
    CPU,
    FLOAT,
    GPU,
    array,
    crossed,
    define,
    map_plan,
    pairs_plan,
    reduce_plan,
    where_possible,
)
from support import BFLOAT16

import clprim as cp
from clprim.language.definition import define_pointwise
from clprim.plan.families import FAMILIES
from clprim.plan.launch.body import body_of
from clprim.plan.launch.walker import walker_code
from clprim.plan.pointwise.lists import plan_lists
from clprim.plan.reduction.code import Scaling
from clprim.render import render

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
    yield from moves()


def moves():
    """Operands that lie otherwise than the results."""
    narrow = dataclasses.replace(CPU, vector_bytes=16)
    picture, last = array((8, 64, 400, 500)), array((8, 64, 400, 500), order=(0, 2, 3, 1))
    pixels = array((8, 40, 50, 3)), array((8, 40, 50, 3), order=(0, 3, 1, 2))
    yield "pointwise/transpose-sum", map_plan("y0 = max(x0, 0) + x1;", last, picture, out=last)
    odd = array((8, 67, 40, 50)), array((8, 67, 40, 50), order=(0, 2, 3, 1))
    yield "pointwise/transpose-whole", map_plan("y0 = x0;", odd[0], out=odd[1], traits=narrow)
    yield "pointwise/transpose-gpu", map_plan("y0 = x0;", picture, out=last, traits=GPU)
    yield (
        "pointwise/three-rows",
        map_plan("y0 = x0 * w0;", pixels[1], out=pixels[0], scalars=(2.0,)),
    )


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


def main_of(strategy, plan):
    """The kernel that a strategy is called by, or the one that does most of the work."""
    names = strategy.name, f"{strategy.name}_"
    own = (s for s in plan.stages if s.template == names[0] or s.template.startswith(names[1]))
    return next(own, plan.main)


def examples(family):
    """The plans of its strategies' examples, without those that another dtype is not planned by."""
    for strategy, lower in family.own():
        for one in where_possible(lambda s=strategy: [*s.examples()])():
            plan = where_possible(
                lambda s=strategy, e=one, lower=lower: s.planned(lower(e.problem), e.traits, e.tile)
            )()
            if plan:
                name = f"{strategy.name}-{one.name}" if one.name else strategy.name
                yield name, plan, main_of(strategy, plan)


def strategies():
    """The examples of every family's strategies, and kernels that several share only once."""
    seen = set()
    for family in FAMILIES:
        for short, plan, main in examples(family):
            folder = main.template.rpartition("/")[0]
            name = f"{folder}/{short.rpartition('/')[2]}"
            for stage in plan.stages:
                part = re.split("[/_]", stage.template)[-1]
                if stage is main:
                    yield name, stage
                elif stage.template not in seen:
                    yield f"{name}-{part}", stage
                seen.add(stage.template)


def walkers(plans):
    """Launches of several kernels: of one work-item a group whose bodies are called, of 256."""
    for name, items, bodies in (
        ("launch/walker", 1, ("pointwise/elements", "depthwise/weight/planes")),
        ("launch/walker-groups", 256, ("sort/rank", "sort/group")),
    ):
        taken = [plans[body] for body in bodies]
        phases = [body_of(plan, render(plan.template, plan.code), items) for plan in taken]
        traits = dataclasses.replace(CPU, c_version=(3, 0) if items == 1 else (1, 2))
        traits = dataclasses.replace(traits, calls=items == 1)
        yield name, "launch/walker", walker_code(phases, 4, items, traits, doubles=False)


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
    plans = dict([*maps(), *strategies()])
    found += [(name, plan.template, plan.code) for name, plan in strategies()]
    found += walkers(plans)
    return found
