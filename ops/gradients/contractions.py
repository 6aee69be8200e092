"""Gradients of products and convolutions, each of which is another product or convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.arrays.array import Array, new_array
from clprim.call.primitive import run
from clprim.errors import DefinitionError
from clprim.graph.backward import DERIVATIVES, Call, Derivative
from clprim.graph.graph import Node
from clprim.language.epilogue_snippet import define_epilogue
from clprim.ops.conv.forward import conv2d
from clprim.ops.conv.gradient import conv2d_input, conv2d_weight
from clprim.ops.conv.settings import Settings
from clprim.ops.product.coded import CodedOptions
from clprim.ops.product.matmul import matmul
from clprim.ops.shape.pad import pad
from clprim.ops.shape.pixel_shuffle import space_to_depth
from clprim.ops.shared.epilogue import append
from clprim.ops.shared.sums import SUM
from clprim.ops.shared.window import numbers
from clprim.plan.epilogue import is_position
from clprim.plan.product.family import PRODUCTS
from clprim.plan.quantized.family import CODED
from clprim.plan.strides import dense_strides, memory_order
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.primitives.quantized_weight import decode
from clprim.runtime.device import current_device

Gradients = Sequence[Array | None]
_SCALE = Pointwise("y0 = x0 * w0;", name="scale")


def apply_epilogue(
    y: Array, snippet: str, arrays: Sequence[Any], numbers: Sequence[Any], out: Any, beta: Any = 0
) -> Array:
    """Computes an epilogue of a result that is stored."""
    text = append("epilogue", "y0 = x0;", snippet, 1, 0)
    given = [y, *arrays]
    if beta:
        text = f"{text}\ny0 += w{len(numbers)} * x{len(given)};"
        given, numbers = [*given, out], (*numbers, beta)
    kernel = Pointwise(text, result_type=y.dtype, name="epilogue")
    return kernel(*given, *numbers) if out is None else kernel(*given, *numbers, out=out)


def _with_epilogue_apart(node: Node, reads: Sequence[Array], writes: Sequence[Array]) -> bool:
    """Runs a contraction, and its epilogue behind it, whose gradient needs what it begins with."""
    options: Any = node.options
    if options.epilogue is None:
        return False
    (y,) = writes
    snippet = define_epilogue(node.primitive.what, options.epilogue)
    placed = any(is_position(name) for name in node.primitive.names(node.problem))
    axes = getattr(options, "axes", None)
    if placed and axes is not None and axes != tuple(range(y.ndim)):
        return False
    own = 2 + options.bias
    order = memory_order(y.shape, [y.strides])
    strides = dense_strides(y.shape, y.dtype.itemsize, order)
    before = new_array(current_device(), y.shape, y.dtype, strides, y.size)
    plain = options._replace(epilogue=None)
    run(node.primitive, reads[:own], (0,), (before,), plain, kept=node.kept)
    beta, *numbers = node.numbers
    apply_epilogue(before, str(snippet.text), reads[own:], numbers, y, beta)
    return True


def _of_contraction(call: Call) -> Gradients:
    node = call.node
    (grad,) = call.grads
    assert grad is not None
    if getattr(node.options, "epilogue", None) is not None:
        raise DefinitionError("its epilogue has no gradient here; run it behind the operator")
    if node.numbers[0]:
        call.add(node.writes[0], _SCALE(grad, node.numbers[0]))
    if node.problem.family is CODED:
        return _of_coded(call, grad)
    if node.problem.family is PRODUCTS:
        return _of_product(call, grad)
    direction = node.problem.problems[0].direction
    if direction == "forward":
        return _of_convolution(call, grad)
    if direction == "weight":
        return _of_weight_gradient(call, grad)
    transposed = node.options.shape is None
    return _of_transposed(call, grad) if transposed else _of_input_gradient(call, grad)


# --- products ------------------------------------------------------------------------------------


def _of_product(call: Call, grad: Array) -> Gradients:
    options = call.node.options
    first, second = (1, 0) if options.swap else (0, 1)
    shape_a, shape_b = (call.node.reads[n].shape for n in (first, second))
    axes = tuple(range(grad.ndim - 1)) if len(shape_b) > 1 else tuple(range(grad.ndim))
    bias = None
    if options.bias and call.wanted[2]:
        bias = SUM(grad, axis=axes) if len(shape_b) > 1 else SUM(grad).reshape(1)
    row, column = len(shape_a) == 1, len(shape_b) == 1
    grad = grad[..., None, :] if row and not column else grad
    grad = grad[..., None] if column else grad
    grad = grad[..., None, :] if row and column else grad

    def matrix(n: int) -> Array:
        array = call.read(n)
        if array.ndim > 1:
            return array
        return array[None] if n == first else array[:, None]

    ta, tb = options.transpose_a and not row, options.transpose_b and not column
    found: list[Array | None] = [None] * len(call.wanted)
    # Rows of all batches are those of one product where all of them meet one matrix.
    flat = len(shape_b) == 2 and len(shape_a) > 2 and not ta
    rows = grad.reshape(-1, grad.shape[-1]) if flat else grad
    if call.wanted[first]:
        b = matrix(second)
        made = (
            matmul(b, grad, transpose_a=tb, transpose_b=True)
            if ta
            else matmul(rows, b, transpose_b=not tb)
        )
        found[first] = made.reshape(shape_a) if flat else _summed(made, shape_a, 0 if row else None)
    if call.wanted[second]:
        a = matrix(first)
        a = a.reshape(-1, a.shape[-1]) if flat else a
        made = (
            matmul(rows, a, transpose_a=True, transpose_b=ta)
            if tb
            else matmul(a, rows, transpose_a=not ta)
        )
        found[second] = _summed(made, shape_b, 1 if column else None)
    if options.bias:
        found[2] = bias
    return found


def _of_coded(call: Call, grad: Array) -> Gradients:
    """The quantised weight is decoded for it, and has no gradient itself."""
    told: CodedOptions = call.node.options
    found: list[Array | None] = [None] * len(call.wanted)
    if call.wanted[0]:
        weight = decode(call.read(1), told.coding, (told.outputs, told.depth))
        found[0] = matmul(grad, weight.astype(grad.dtype))
    if told.bias and call.wanted[2]:
        found[2] = SUM(grad, axis=tuple(range(grad.ndim - 1)))
    return found


def _summed(grad: Array, shape: tuple[int, ...], line: int | None) -> Array:
    """Adds up the batches that an operand was repeated for."""
    full = shape if line is None else (1, *shape) if line == 0 else (*shape, 1)
    more = grad.ndim - len(full)
    axes = tuple(
        d for d in range(grad.ndim - 2) if grad.shape[d] > 1 and (d < more or full[d - more] == 1)
    )
    return (SUM(grad, axis=axes, keepdims=True) if axes else grad).reshape(shape)


# --- convolutions --------------------------------------------------------------------------------


def _steps(told: Settings) -> dict[str, Any]:
    return {
        "stride": told.stride,
        "padding": told.padding,
        "dilation": told.dilation,
        "groups": told.groups,
    }


def _convolved(x: Array, w: Array, told: Settings) -> Array:
    return conv2d(x, w, **_steps(told))


def _bias(grad: Array) -> Array:
    return SUM(grad, axis=(0, 2, 3))


def _of_convolution(call: Call, grad: Array) -> Gradients:
    told: Settings = call.node.options
    x, w = call.node.reads[:2]
    how = {**_steps(told), "depth_to_space": told.depth_to_space, "mode": told.mode}
    found: list[Array | None] = [None] * len(call.wanted)
    if call.wanted[0]:
        found[0] = conv2d_input(x.shape, call.read(1), grad, **how)
    if call.wanted[1]:
        found[1] = conv2d_weight(call.read(0), w.shape, grad, **how)
    if told.bias and call.wanted[2]:
        block = told.depth_to_space
        found[2] = _bias(grad if block is None else space_to_depth(grad, block, told.mode))
    return found


def _of_transposed(call: Call, grad: Array) -> Gradients:
    told: Settings = call.node.options
    x, w = call.node.reads[:2]
    found: list[Array | None] = [None] * len(call.wanted)
    if call.wanted[0]:
        made = _convolved(grad, call.read(1), told)
        found[0] = made[:, :, : x.shape[2], : x.shape[3]]
    if call.wanted[1]:
        read = with_windows(call.read(0), told.output_padding, told.stride, 2)
        found[1] = conv2d_weight(grad, w.shape, read, **_steps(told))
    if told.bias and call.wanted[2]:
        found[2] = _bias(grad)
    return found


def with_windows(x: Array, output_padding: Any, stride: Any, rank: int) -> Array:
    """What a transposed convolution read, with 0 for windows that its output's padding opens."""
    more = numbers("gradient", "output_padding", output_padding, rank, 0)
    steps = numbers("gradient", "stride", stride, rank, 1)
    behind = [(0, added // step) for added, step in zip(more, steps, strict=True)]
    return pad(x, sum(reversed(behind), ())) if any(map(any, behind)) else x


def _of_input_gradient(call: Call, grad: Array) -> Gradients:
    told: Settings = call.node.options
    w = call.node.reads[1]
    first = _convolved(grad, call.read(1), told) if call.wanted[0] else None
    if not call.wanted[1]:
        return first, None
    return first, conv2d_weight(grad, w.shape, call.read(0), **_steps(told))


def _of_weight_gradient(call: Call, grad: Array) -> Gradients:
    told: Settings = call.node.options
    if told.depth_to_space is not None:
        raise DefinitionError("with depth_to_space= it has no gradient")
    x, first = call.node.reads[0], None
    if call.wanted[0]:
        first = conv2d_input(x.shape, grad, call.read(1), **_steps(told))
    return first, _convolved(call.read(0), grad, told) if call.wanted[1] else None


DERIVATIVES[ContractionPrimitive] = Derivative(_of_contraction, instead=_with_epilogue_apart)
