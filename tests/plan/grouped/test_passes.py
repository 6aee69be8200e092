"""Plans of groups pass by pass: how the passes are cut for each other."""

import dataclasses

import numpy as np
from planning import CPU, array

from clprim.language.grouped_definition import define_grouped
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups

PREFETCHING = dataclasses.replace(CPU, vector_bytes=64, prefetch=True, cache_bytes=1 << 25)


def plan(x, results):
    definition = define_grouped(
        "y0 = x0; y1 = x0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        combine=None,
        finalize="group_y0 = reduce_y0 / count; group_y1 = rsqrt(reduce_y1 / count);",
        each="".join(f"y{n} = (x0 - group_y0) * group_y1;" for n in range(results)),
        name="group",
        preamble="",
        near=None,
    )
    problem = Groups(
        definition=definition,
        shape=x.shape,
        axes=(0,),
        value=np.dtype(np.float32),
        inputs=(x,),
        scalars=(),
        results=(x,) * results,
        kept=(None, None),
    )
    return GROUPS.plan(problem, PREFETCHING, "grouped/passes")


def test_sums_are_those_in_a_cache_where_it_holds_the_whole_call():
    """Of 16.8 MB two arrays are more than the cache, of 12.8 MB three."""
    for rows, width, results, near in (
        (8200, 512, 1, False),
        (6272, 512, 1, True),
        (6272, 512, 2, False),
    ):
        first = plan(array((rows, width)), results).stages[0]
        assert first.template == "reduction/columns"
        assert first.code.fours == near
