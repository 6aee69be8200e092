"""Convolutions of images in each direction as contractions: requests, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.formats import order_like
from clprim.arrays.validation import checked
from clprim.call.forms import register_form
from clprim.call.primitive import Request, Target
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, DTypeError
from clprim.language.epilogue_snippet import define_epilogue
from clprim.ops.conv.operands import (
    bias_place,
    check_rank,
    check_shapes,
    check_shuffle,
    check_transposed,
    checked_axes,
    given_shape,
    place_of,
    placed,
    result_of,
    shuffle_of,
)
from clprim.ops.conv.settings import Settings
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes, split_bias
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.ops.shared.window import Numbers, Padding, axes, transposed_axes
from clprim.options import current_options
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.problem import Axis, Convolution
from clprim.plan.epilogue import NO_EPILOGUE, Epilogue, is_position
from clprim.plan.place import Place
from clprim.plan.strides import Operand, is_channels_last
from clprim.primitives.product import Contracted, ContractionPrimitive, contract

#: What convolutions forward are called in kernels, whatever their rank.
FORWARD = "conv2d"


def convolve(
    primitive: ContractionPrimitive,
    x: Any,
    w: Any,
    bias: Any,
    told: Settings,
    epilogue_args: Any,
    *,
    out: Any,
    beta: float,
) -> Array:
    """Runs a convolution of images, forward or transposed."""
    extras: tuple[Any, ...] = ()
    numbers: tuple[Any, ...] = ()
    if epilogue_args.__class__ is not tuple or epilogue_args:  # most have none
        extras, numbers = split_arguments(epilogue_args)
    if bias is not None:
        extras = (bias, *extras)
    return contract(primitive, x, w, extras, told, told.key, out=out, beta=beta, numbers=numbers)


@checked
def _checked(
    what: str,
    *,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    mode: str,
    algorithm: str,
    epilogue: str | None,
    beta: float,
) -> dict[str, Any]:
    """Returns settings that are of the kinds that they should be."""
    del beta
    CONVOLUTIONS.check(what, algorithm)
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return {**given, "mode": mode, "algorithm": algorithm, "epilogue": epilogue}


_KINDS = [name for name in _checked.__annotations__ if name in Settings._fields]


def _stored(transposed: bool, what: str, request: Request, target: Target) -> Contracted:
    """A convolution whose sums have a bias and an epilogue."""
    beta, *numbers = request.numbers
    told: Settings = request.options
    kinds = _checked(what, **{name: getattr(told, name) for name in _KINDS}, beta=beta)
    told = told._replace(**kinds)
    check_shuffle(what, told.depth_to_space, told.mode)
    x, w = request.operands[:2]
    bias, extras = split_bias(request, told.bias)
    extras, first = _split(what, told, extras)
    out, *others = request.outs or (None,)
    check_operands(what, target, x=x, w=w)
    sizes = x.shape[2:], w.shape[2:], told.stride, told.padding
    if transposed:
        check_transposed(what, x.shape, w.shape, told.groups, 4)
        found = transposed_axes(what, *sizes, told.output_padding, told.dilation)
        shape = (x.shape[0], w.shape[1] * told.groups, *(axis.size for axis in found))
    else:
        check_shapes(what, x.shape, w.shape, told.groups)
        found = axes(what, *sizes, told.dilation)
        shape = (x.shape[0], w.shape[0], *(axis.windows for axis in found))
    like = out if out is not None and out.ndim == 4 else x
    last = is_channels_last(like.shape, like.strides)
    shuffle = shuffle_of(what, told.depth_to_space, told.mode, shape[1], told.groups, last=last)
    dtype, value = product_dtypes(what, target, x.dtype, w.dtype)
    biases, channels = bias_place(what, target, bias, shape, value), shape[1]
    if shuffle is not None:
        shape = shuffle.result(shape)
    args = (*extras, *numbers)
    read = check_epilogue(
        what, target, told.epilogue, args, shape, value, axes=told.axes, others=others
    )
    read_there = request.operands[2 : len(request.operands) - len(first)]
    for result in (out, *others):
        check_result(
            what, result, target, shape, dtype, inputs=(x, w, *first), extras=read_there, beta=beta
        )
    place, result = result_of("x" if transposed else "y", out, shape, dtype, order_like(x))
    source = place_of("y" if transposed else "x", x)
    problem = Convolution(
        name=what if transposed else FORWARD,
        direction="input" if transposed else "forward",
        images=x.shape[0],
        channels=channels if transposed else x.shape[1],
        outputs=x.shape[1] if transposed else channels,
        groups=told.groups,
        rows=found[0],
        columns=found[1],
        value=value,
        x=place if transposed else source,
        w=place_of("w", w),
        y=source if transposed else place,
        epilogue=placed(read, biases, shape, beta),
        shuffle=shuffle,
        prologue=_read(what, target, told, found, first, x, value),
        error=current_options().convolution_error,
        precision=current_options().matmul_precision,
        kept="w" in request.kept,
    )
    problems = (problem,) if result.size else ()
    return Contracted(CONVOLUTIONS, problems, result, told.algorithm, tuple(others))


def _split(
    what: str, told: Settings, arrays: Sequence[Operand]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Returns the arrays of the epilogue and those of the prologue, which come last."""
    if told.prologue is None:
        return tuple(arrays), ()
    snippet = define_epilogue(what, told.prologue, part="prologue")
    count = len(arrays) - max(snippet.numbers("x"), default=-1) - 1
    return tuple(arrays[:count]), tuple(arrays[count:])


def _read(
    what: str,
    target: Target,
    told: Settings,
    of: Sequence[Axis],
    arrays: Sequence[Operand],
    x: Operand,
    value: AnyDType,
) -> Epilogue[Place]:
    """Returns what becomes of an element of x where it is read."""
    if told.prologue is None:
        return NO_EPILOGUE
    pixels = all(axis.kernel == 1 and not axis.leaves for axis in of)
    if told.algorithm != "in_place" or told.depth_to_space is not None or not pixels:
        raise DefinitionError(f"{what}: no prologue runs with {told}")
    if any(a.dtype != value for a in (x, *arrays)):
        raise DTypeError(f"{what}: a prologue of arrays that are not all {value}")
    found = check_epilogue(what, target, told.prologue, arrays, x.shape, value, part="prologue")
    if any(is_position(a.name) for a in found.arrays):
        raise DefinitionError(f"{what}: a prologue does not know where it is")
    return found.placed(lambda array: Place.of(f"p{array.name[1:]}", array.operand, x.shape))


def _gradient(to_input: bool, what: str, request: Request, target: Target) -> Contracted:
    """The gradient in the input, of the other gradient and the weight; or in the weight."""
    told: Settings = request.options
    (a, b), beta = request.operands, request.numbers[0]
    out = request.outs[0] if request.outs else None
    CONVOLUTIONS.check(what, told.algorithm)
    check_operands(what, target, **({"w": b, "grad": a} if to_input else {"x": a, "grad": b}))
    shape = given_shape(what, "input_shape" if to_input else "weight_shape", told.shape)
    grad = a if to_input else b
    x, w = (shape, b.shape) if to_input else (a.shape, shape)
    check_rank(what, "x", x)
    check_rank(what, "grad", grad.shape)
    last = is_channels_last(grad.shape, grad.strides)
    shuffle = shuffle_of(what, told.depth_to_space, told.mode, w[0], told.groups, last=last)
    found = checked_axes(what, x, w, grad.shape, told, shuffle)
    dtype, value = product_dtypes(what, target, a.dtype, b.dtype)
    check_result(what, out, target, shape, dtype, inputs=(a, b), extras=(), beta=beta)
    order = order_like(grad) if to_input else range(4)
    place, result = result_of("x" if to_input else "w", out, shape, dtype, order)
    problem = Convolution(
        name=what,
        direction="input" if to_input else "weight",
        images=x[0],
        channels=x[1],
        outputs=w[0],
        groups=told.groups,
        rows=found[0],
        columns=found[1],
        value=value,
        x=place if to_input else place_of("x", a),
        w=place_of("w", b) if to_input else place,
        y=place_of("y", grad),
        epilogue=Epilogue(beta=bool(beta)),
        shuffle=shuffle,
        error=current_options().convolution_error,
        precision=current_options().matmul_precision,
        kept=not to_input or "w" in request.kept,
    )
    return Contracted(CONVOLUTIONS, (problem,) if result.size else (), result, told.algorithm)


def _directed(
    kind: str,
    names: Callable[[Settings], tuple[str, ...]],
    lower: Callable[[str, Request, Target], Contracted],
) -> Callable[[str], ContractionPrimitive]:
    """Returns what makes the primitives of a direction by their names."""

    @lru_cache(maxsize=16)
    def made(what: str) -> ContractionPrimitive:
        return ContractionPrimitive(what, names, partial(lower, what), kind)

    register_form(kind, made, Settings)
    return made


def _names(told: Settings) -> tuple[str, ...]:
    return ("x", "w", "bias")[: 2 + told.bias]


forward = _directed("conv", _names, partial(_stored, False))
transposed = _directed("conv_transpose", _names, partial(_stored, True))
to_input = _directed("conv_input", lambda told: ("grad", "w"), partial(_gradient, True))
to_weight = _directed("conv_weight", lambda told: ("x", "grad"), partial(_gradient, False))
