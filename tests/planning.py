"""Plans without a device: arrays that are only described, operators that are only defined."""

from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace

import numpy as np

from clprim.call.primitive import Request
from clprim.dtypes import scalar_dtype
from clprim.errors import ClprimError
from clprim.language.definition import define_pointwise, define_reduction
from clprim.plan.conv import dense
from clprim.plan.conv.dense import dense_convolution, dense_depthwise
from clprim.plan.conv.lowering import forward
from clprim.plan.depthwise.family import GRADIENTS, PLANES
from clprim.plan.depthwise.problem import Depthwise, depthwise_of
from clprim.plan.depthwise.weight.code import gradient_of
from clprim.plan.kernel import Choice
from clprim.plan.pointwise.family import POINTWISE
from clprim.plan.pointwise.planner import Mapped
from clprim.plan.product.dense import dense_product
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.family import dense_reduction
from clprim.plan.reduction.nested import plan_nested
from clprim.plan.reduction.planner import plan_reduction
from clprim.plan.reduction.problem import Reduced
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_array,
    dense_strides,
    memory_order,
)

FLOAT = np.dtype(np.float32)
CPU, GPU = dense.CPU, dense.GPU


_stand_ins = {}


@contextmanager
def stored_as(dtype):
    """What is described as an array of float32, in the block, is one of another dtype."""
    dtype = np.dtype(dtype)
    _stand_ins[FLOAT] = dtype
    described = (dense_product, dense_convolution, dense_depthwise, dense_reduction, dense_array)
    for function in described:
        function.__kwdefaults__["dtype"] = dtype
    try:
        yield
    finally:
        _stand_ins.clear()
        for function in described:
            function.__kwdefaults__["dtype"] = np.float32


def is_stand_in():
    """Whether arrays of float32 are of another dtype."""
    return bool(_stand_ins)


def where_possible(make):
    """Lets what makes kernels make none where another dtype stands in that it does not take."""

    @wraps(make)
    def made(*args, **options):
        try:
            return make(*args, **options)
        except (ClprimError, AssertionError, AttributeError, IndexError, TypeError, ValueError):
            if not _stand_ins:
                raise
            return ()

    return made


def array(shape, dtype=np.float32, order=None, offset=0, steps=1):
    """Describes an array: axes in memory in ``order``, every stride times ``steps``."""
    own, dtype = np.dtype(dtype), np.dtype(_stand_ins.get(np.dtype(dtype), dtype))
    offset = offset * dtype.itemsize // own.itemsize
    strides = dense_strides(shape, np.dtype(dtype).itemsize, order or range(len(shape)))
    return Operand(shape, tuple(s * steps for s in strides), offset, np.dtype(dtype))


def map_plan(
    expr,
    *inputs,
    out=None,
    scalars=(),
    traits=CPU,
    results=1,
    dtype=None,
    preamble="",
    name=None,
    in_place=False,
):
    """Plans a `Pointwise`; ``dtype`` is that of the results, float32 if left out."""
    definition = define_pointwise(expr, name=name, preamble=preamble)
    read = [inputs[n].shape for n in definition.broadcast]
    shape = broadcast_shapes("test", [*read, *([out.shape] if out is not None else [])])
    outs = [out] if out is not None else [array(shape, dtype or np.float32)] * results
    types = [scalar_dtype(s, FLOAT) for s in scalars]
    what = Mapped(definition, shape, tuple(outs), inputs, tuple(types), in_place)
    return POINTWISE.plan(what, traits).main


def define(expr="y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", **options):
    """Defines a `Reduction`, a sum if nothing is said."""
    options = {"combine": None, "finalize": None, "name": None, "preamble": ""} | options
    return define_reduction(expr, init=init, step=step, **options)


SUM = define()
CUMULATIVE = define(init="scan_y0 = 0;", step="scan_y0 += y0;", scan=True)
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
    given = tuple(outs), tuple(inputs), tuple(types), tuple(partials), tuple(scaling)
    return plan_reduction(Reduced(definition, shape, tuple(axes), *given), traits)


def pairs_plan(operator, *inputs, traits=CPU, numbers=(), axis=-1):
    """Plans a `Pairs` for arrays that are only described."""
    request = Request(inputs, numbers, (), (axis,))
    return plan_nested(operator.problem(request, SimpleNamespace(traits=traits)), traits)


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


def product(m, n, k, *, transposed=(False, False), **options):
    """Describes ``a @ b`` as a contraction: rows of ``a`` are lanes, columns of ``b`` outputs."""
    return dense_product(m, n, k, "".join("NT"[t] for t in transposed), **options)


def convolution(*shape, **options):
    """Describes a convolution of square images as a contraction."""
    return forward(dense_convolution(*shape, **{"padding": 1, **options}))


def depthwise(*shape, adjoint=False, **options):
    """Describes a depthwise convolution of square images, or its adjoint."""
    direction = "input" if adjoint else "forward"
    return depthwise_of(dense_depthwise(*shape, direction=direction, **options))


def depthwise_weight(*shape, **options):
    """Describes the gradient of a depthwise convolution in its weight."""
    return gradient_of(dense_depthwise(*shape, direction="weight", **options))


def plan_depthwise(what, traits, name="", tile=()):
    """Plans planes by the first strategy that is applicable and preferred, or ``name``.

    Args:
        what: Which.
        traits: Of the device.
        name: Of a strategy.
        tile: The numbers of its tile; the rule's where it does not fit.
    """
    strategies = PLANES if isinstance(what, Depthwise) else GRADIENTS
    if name:
        (strategy,) = (s for s in strategies if s.name == name)
        return strategy.tuned(what, traits, tile) or strategy.planned(what, traits)
    able = (s.decide(what, traits, preferred=True) for s in strategies)
    return next(filter(None, able)).plan()


def timed(record):
    """The times of a record by choice."""
    found = {}
    for name, time in record["times"].items():
        strategy, *numbers = name.split()
        found[Choice(strategy, tuple(map(int, numbers)))] = time
    return found
