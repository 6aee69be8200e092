"""Plans without a device: arrays that are only described, operators that are only defined."""

from dataclasses import replace

import numpy as np

from clprim.dtypes import scalar_dtype
from clprim.language.definition import define_pointwise, define_reduction
from clprim.language.epilogue import define_epilogue
from clprim.plan.depthwise.problem import Depthwise, Line, Place, Taps
from clprim.plan.depthwise.weight.code import DepthwiseGradient
from clprim.plan.pointwise.planner import plan_pointwise
from clprim.plan.product.problem import Bounds, Contraction, Gathered, Output, Packed
from clprim.plan.reduction.code import Scaling
from clprim.plan.reduction.planner import plan_reduction
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
    dense_strides,
    memory_order,
)
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
    read = [inputs[n].shape for n in definition.broadcast]
    shape = broadcast_shapes("test", [*read, *([out.shape] if out is not None else [])])
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


def product(m, n, k, *, transposed=(False, False), groups=1, start=0, dtype=np.float32, **options):
    """Describes ``a @ b`` as a contraction: rows of ``a`` are lanes, columns of ``b`` outputs."""
    dtype = np.dtype(dtype)
    a_m, a_k = (1, m) if transposed[0] else (k, 1)
    b_k, b_n = (1, k) if transposed[1] else (n, 1)
    return Contraction(
        name="matmul",
        groups=groups,
        lanes=(1, 1, m),
        depths=(1, 1, k),
        outputs=n,
        value=FLOAT if dtype.itemsize < 4 else dtype,
        gathered=Gathered(dtype, start, m * k, (0, 0, a_m), (0, 0, a_k), start + groups * m * k),
        packed=Packed(dtype, 0, k * n, b_n, (0, 0, b_k)),
        y=Output("y0", dtype, 0, m * n, 1, (0, 0, n)),
        **options,
    )


def convolution(
    images, channels, size, outputs, kernel=3, *, last=False, padding=1, epilogue=None, bias=False
):
    """Describes a convolution of square images; ``last`` is for channels-last ones."""

    def strides(depth, edge, last=last):
        """Of (image, channel, y, x)."""
        if last:
            return edge * edge * depth, 1, edge * depth, depth
        return depth * edge * edge, edge * edge, edge, 1

    edge = size + 2 * padding - kernel + 1
    n, c, h, w = strides(channels, size)
    yn, yc, yh, yw = strides(outputs, edge)
    places = [Output("y0", FLOAT, 0, 0, yc, (yn, yh, yw))]
    if bias:
        places.append(Output("bias", FLOAT, 0, 0, 1, (0, 0, 0)))
    if epilogue and "x0" in epilogue:
        places.append(Output("x0", FLOAT, 0, 0, yc, (yn, yh, yw)))
    plane = Bounds(size, size, -padding, -padding, (0, 1), (1, 0), (0, 1), (1, 0))
    return Contraction(
        name="conv2d",
        groups=1,
        lanes=(images, edge, edge),
        depths=(kernel, kernel, channels),
        outputs=outputs,
        value=FLOAT,
        gathered=Gathered(
            FLOAT,
            -padding * (h + w),
            0,
            (n, h, w),
            (h, w, c),
            images * channels * size * size,
            plane,
        ),
        packed=Packed(FLOAT, 0, 0, channels * kernel * kernel, (kernel, 1, kernel * kernel)),
        y=places[0],
        extras=tuple(places[1:]),
        epilogue=define_epilogue("conv2d", epilogue) if epilogue else None,
    )


def _line(size, kernel, stride, padding, dilation):
    reach = dilation * (kernel - 1) + 1
    outputs = (size + 2 * padding - reach) // stride + 1
    return Line(size, outputs, kernel, stride, dilation, padding)


def _images(name, channels, size, dtype, *, last, step=1):
    """Describes square images: channels or columns lie ``step`` apart."""
    edge = size * size * channels * step
    if last:
        return Place(name, dtype, 0, edge, step, size * channels * step, channels * step)
    return Place(name, dtype, 0, edge, size * size * step, size * step, step)


def depthwise(
    images,
    channels,
    size,
    kernel=3,
    *,
    stride=1,
    padding=None,
    dilation=1,
    multiplier=1,
    adjoint=False,
    last=False,
    step=1,
    dtype=np.float32,
    **options,
):
    """Describes a depthwise convolution of square images, or its adjoint."""
    dtype = np.dtype(dtype)
    padding = kernel // 2 if padding is None else padding
    line = _line(size, kernel, stride, padding, dilation)
    many, few = (line.outputs, line.inputs) if adjoint else (line.inputs, line.outputs)
    if adjoint:
        line = replace(line, inputs=line.outputs, outputs=line.inputs)
    of_x, of_y = channels, channels * multiplier
    if adjoint:
        of_x, of_y = of_y, of_x
    return Depthwise(
        name="conv2d",
        images=images,
        channels=of_y,
        multiplier=multiplier,
        adjoint=adjoint,
        rows=line,
        columns=line,
        value=FLOAT if dtype.itemsize < 4 else dtype,
        x=_images("x", of_x, many, dtype, last=last, step=step),
        w=Taps(dtype, 0, kernel * kernel, kernel, 1),
        y=_images("y0", of_y, few, dtype, last=last),
        **options,
    )


def depthwise_weight(images, channels, size, kernel=3, *, stride=1, last=False):
    """Describes the gradient of a depthwise convolution in its weight."""
    line = _line(size, kernel, stride, kernel // 2, 1)
    return DepthwiseGradient(
        name="conv2d_weight",
        images=images,
        channels=channels,
        multiplier=1,
        rows=line,
        columns=line,
        value=FLOAT,
        x=_images("x", channels, size, FLOAT, last=last),
        grad=_images("grad", channels, line.outputs, FLOAT, last=last),
        y=Taps(FLOAT, 0, kernel * kernel, kernel, 1),
    )
