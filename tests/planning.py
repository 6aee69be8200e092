"""Plans without a device: arrays that are only described, operators that are only defined."""

import numpy as np

from clprim.dtypes import scalar_dtype
from clprim.language.definition import define_pointwise, define_reduction
from clprim.plan.layout import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
)
from clprim.plan.pointwise import plan_pointwise
from clprim.plan.reduction import plan_reduction
from clprim.plan.reduction_code import Scaling
from clprim.traits import DeviceTraits

FLOAT = np.dtype(np.float32)
CPU = DeviceTraits(is_cpu=True, max_work_group_size=4096, vector_bytes=64, cache_bytes=32 << 20)
GPU = DeviceTraits(max_work_group_size=1024)


def array(shape, dtype=np.float32, order=None, offset=0, steps=1):
    """Describes an array: axes in memory in ``order``, every stride times ``steps``."""
    strides = dense_strides(shape, np.dtype(dtype).itemsize, order or range(len(shape)))
    return Operand(shape, tuple(s * steps for s in strides), offset, np.dtype(dtype))


def map_plan(
    expr, *inputs, out=None, scalars=(), traits=CPU, results=1, dtype=None, preamble="", name=None
):
    """Plans a `Pointwise`; ``dtype`` is that of the results, float32 if left out."""
    definition = define_pointwise(expr, name=name, preamble=preamble)
    shape = broadcast_shapes("test", [a.shape for a in inputs] or [out.shape])
    outs = [out] if out is not None else [array(shape, dtype or np.float32)] * results
    types = [scalar_dtype(s, FLOAT) for s in scalars]
    return plan_pointwise(definition, shape, outs, list(inputs), types, traits)


def define(expr="y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", **options):
    """Defines a `Reduction`, a sum if nothing is said."""
    options = {"combine": None, "finalize": None, "name": None, "preamble": ""} | options
    return define_reduction(expr, init=init, step=step, **options)


SUM = define()
ARGMAX = define(
    init="reduce_y0 = -INFINITY; reduce_y1 = 0;",
    step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
)


def reduce_plan(
    inputs, axes, traits=CPU, definition=SUM, partials=None, scaling=None, results=None, scalars=()
):
    """Plans a `Reduction`; ``partials`` and ``results`` are dtypes, float32 if left out."""
    inputs = [inputs] if isinstance(inputs, Operand) else list(inputs)
    shape = broadcast_shapes("test", [a.shape for a in inputs])
    kept = tuple(1 if d in axes else size for d, size in enumerate(shape))
    order = memory_order(shape, [broadcast_strides(a, shape) for a in inputs])
    partials = [np.dtype(p) for p in partials or [np.float32] * definition.partials]
    results = [np.dtype(r) for r in results or partials[: definition.results]]
    outs = [Operand(kept, dense_strides(kept, r.itemsize, order), 0, r) for r in results]
    scaling = scaling or [Scaling()] * definition.results
    types = [scalar_dtype(s, FLOAT) for s in scalars]
    return plan_reduction(
        definition, shape, tuple(axes), outs, inputs, types, partials, scaling, traits
    )


def numbers(stage):
    """The sizes and strides of a kernel by name, whether they are arguments or constants."""
    named = {
        parameter.declaration.split()[-1]: argument
        for parameter, argument in zip(stage.code.parameters, stage.arguments, strict=True)
        if isinstance(argument, int)
    }
    return {**dict(stage.code.constants), **named}


def crossed(ndim, size=2):
    """Two arrays whose axes lie in opposite orders: no two dimensions collapse."""
    shape = (size,) * ndim
    return array(shape), array(shape, order=tuple(reversed(range(ndim))))
