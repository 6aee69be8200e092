"""Matrix products: `matmul` over any strides and batches, and `linear` with its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from clprim.arrays.array import Array, view_of
from clprim.call.forms import register_form
from clprim.call.packed import matrix_of
from clprim.call.primitive import Request, Target
from clprim.errors import ShapeError, quoted
from clprim.ops.product.arguments import (
    check_bias,
    check_operands,
    check_result,
    product_dtypes,
    span,
    split_bias,
)
from clprim.ops.product.coded import coded_product
from clprim.ops.product.complex_product import complex_product, is_complex
from clprim.ops.product.lowering import expand, products, shapes, squeeze
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_mask, conjugate, dtype_of, is_array
from clprim.ops.shared.epilogue import check_epilogue, split_arguments
from clprim.ops.shared.sums import SUM
from clprim.plan.epilogue import Read
from clprim.plan.product.family import PRODUCTS
from clprim.plan.strides import (
    Operand,
    dense_strides,
)
from clprim.primitives.product import Contracted, ContractionPrimitive, contract
from clprim.primitives.quantized_weight import QuantizedWeight
from clprim.runtime.device import current_device


@operator(
    autocast="lower matmul mm bmm mv chain_matmul linalg_multi_dot",
    onnx="""MatMul; Gemm(a, b, c) transA:transpose_a=0 transB:transpose_b=0 @scaled;
        com.microsoft::FusedMatMul(a, b) transA:transpose_a=0 transB:transpose_b=0
            !transBatchA=0 !transBatchB=0 @scaled;
        com.microsoft::FusedGemm(a, b, c) transA:transpose_a=0 transB:transpose_b=0
            @activated @scaled;
        MatMulInteger(a, b, a_zero, b_zero) @integers;
        QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
            @requantised @integers""",
)
def matmul(
    a: Any,
    b: Any,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: Any = None,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns the matrix product of ``a`` and ``b``, batched over leading dimensions.

    Args:
        a: (…, M, K), of any strides; (K,) is a row.
        b: (…, K, N), or what `pack_weight` made of it; (K,) is a column. With ``transpose_b=True``
            also a quantised weight, see `quantize_weight`.
        transpose_a: Whether the last two dimensions of ``a`` are swapped.
        transpose_b: Likewise of ``b``.
        bias: (N,), added to every row.
        epilogue: A snippet on ``y0``, the value with its bias, run in the storing kernel; it reads
            arrays ``x0``, …, numbers ``w0``, …, ``index``, ``coord(d)`` and ``size(d)``;
            `epilogue_backward` is its gradient.
        epilogue_args: Those arrays, which broadcast to the result, then the numbers.
        out: (…, M, N), where the result goes.
        beta: ``y = epilogue(a @ b + bias) + beta * y_old``; at 0 the old value is not read.
        algorithm: ``"auto"`` or one of `conv2d.algorithms`.

    Returns:
        (…, M, N); batches broadcast as in NumPy, and M or N is missing where ``a`` or ``b`` had
        one dimension. Floats are added up in float32 at least; integers of up to 32 bits give
        int32. Of complex numbers it is products of their parts, and the kernel that joins these
        runs the epilogue, whose ``y0`` and result are complex and numbers may be.

    Raises:
        ShapeError: Shapes that do not fit, an ``out`` of another shape or overlapping an input.
        DTypeError: No device array, or dtypes that have no product.
        DefinitionError: A wrong epilogue.
        DeviceError: An array of another context.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> a = cp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
        >>> ops.matmul(a, a, transpose_b=True).get()
        array([[ 5., 14.],
               [14., 50.]], dtype=float32)
    """
    if isinstance(b, QuantizedWeight):
        if transpose_a or not transpose_b:
            said = f"transpose_a={transpose_a}, transpose_b={transpose_b}"
            raise ShapeError(f"matmul: {said} beside a quantised weight; expected False, True")
        return _quantised("matmul", a, b, bias, epilogue, epilogue_args, out, beta, algorithm)
    if is_complex(a) or is_complex(b):
        real = partial(
            matmul, transpose_a=transpose_a, transpose_b=transpose_b, algorithm=algorithm
        )
        return complex_product(real, a, b, bias, epilogue, epilogue_args, out, beta)
    arrays, numbers = split_arguments(epilogue_args)
    extras = arrays if bias is None else (bias, *arrays)
    # The larger operand is gathered where it lies, the smaller one packed; a packed one stays.
    swap = is_array(b) and b.size > (a.size if is_array(a) else 0)
    flags = bool(transpose_a), bool(transpose_b)
    options = _Options(*flags, epilogue, bias is not None, algorithm, swap)
    gathered, packed = (b, a) if swap else (a, b)
    return contract(
        _product, gathered, packed, extras, options, options, out=out, beta=beta, numbers=numbers
    )


def _quantised(
    what: str,
    x: Any,
    w: QuantizedWeight,
    *told: Any,
) -> Array:
    """A product with a quantised weight, or with what is decoded of it."""
    found = coded_product(what, x, w, *told)
    if found is not None:
        return found
    bias, epilogue, epilogue_args, out, beta, algorithm = told
    return matmul(
        x,
        w.dequantize(x.dtype),
        transpose_b=True,
        bias=bias,
        epilogue=epilogue,
        epilogue_args=epilogue_args,
        out=out,
        beta=beta,
        algorithm=algorithm,
    )


class _Options(NamedTuple):
    """What a product is told beside arrays and numbers."""

    transpose_a: bool
    transpose_b: bool
    epilogue: str | None
    bias: bool
    algorithm: str
    swap: bool


def _names(options: _Options) -> tuple[str, ...]:
    names = ("b", "a") if options.swap else ("a", "b")
    return (*names, "bias") if options.bias else names


def _lower(request: Request, target: Target) -> Contracted:
    """Checks a product, and returns it as contractions."""
    options: _Options = request.options
    what, swap = "matmul", options.swap
    a, b = request.operands[1::-1] if swap else request.operands[:2]
    bias, extras = split_bias(request, options.bias)
    beta, *numbers = request.numbers
    out = request.outs[0] if request.outs else None
    PRODUCTS.check(what, options.algorithm)
    check_operands(what, target, a=a, b=b)
    left, right, shape = shapes(what, a, b, options.transpose_a, options.transpose_b)
    dtype, value = product_dtypes(what, target, a.dtype, b.dtype)
    final = squeeze(shape, a.ndim, b.ndim)
    if bias is not None:
        check_bias(what, target, bias, value, right.shape[-1])
    read = check_epilogue(what, target, options.epilogue, (*extras, *numbers), final, value)
    read_there = request.operands[2:]
    check_result(what, out, target, final, dtype, inputs=(a, b), extras=read_there, beta=beta)
    y = out or Operand(final, dense_strides(final, dtype.itemsize, range(len(final))), 0, dtype)
    places = [
        Read(r.name, expand(r.operand, final, shape, a.ndim, b.ndim))
        for r in (Read("y0", y), *read.arrays)
    ]
    if bias is not None:
        places.insert(1, Read("bias", bias))
    stored = replace(read, arrays=tuple(places[1:]), beta=bool(beta))
    if not math.prod(shape):
        return Contracted(PRODUCTS, (), y)
    sizes = span(a), span(b)
    made = products(left, right, shape, places[0], stored, value, sizes, swap=swap)
    return Contracted(PRODUCTS, made, y, options.algorithm)


_product = ContractionPrimitive("matmul", _names, _lower, "matmul")
register_form("matmul", lambda what: _product, _Options)  # its only name


@operator(autocast="lower", sample="x, empty((2, 4))")
def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    epilogue: str | None = None,
    epilogue_args: Any = (),
    out: Any = None,
    beta: float = 0,
    algorithm: str = "auto",
) -> Array:
    """Returns ``x @ wᵀ + bias``, as `torch.nn.functional.linear`.

    Args:
        x: (…, K).
        w: (N, K), or what `pack_weight` or `quantize_weight` made of it.
        bias: (N,).
        epilogue: As in `matmul`.
        epilogue_args: As in `matmul`.
        out: As in `matmul`.
        beta: As in `matmul`.
        algorithm: As in `matmul`.

    Returns:
        (…, N).

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> w = cp.asarray(np.array([[1, 2], [3, 4], [5, 6]], np.float32))
        >>> ops.linear(cp.full((1, 2), 1.0), w, cp.full((3,), 1.0)).get()
        array([[ 4.,  8., 12.]], dtype=float32)
    """
    if isinstance(w, QuantizedWeight):
        return _quantised("linear", x, w, bias, epilogue, epilogue_args, out, beta, algorithm)
    matrix = matrix_of(w)
    for label, array in (("x", x), ("w", matrix)):
        dtype_of("linear", label, array)
    if matrix.ndim != 2:
        raise ShapeError(f"linear: w has shape {matrix.shape}, expected 2 dimensions")
    return matmul(
        x,
        w,
        transpose_b=True,
        bias=bias,
        epilogue=epilogue,
        epilogue_args=epilogue_args,
        out=out,
        beta=beta,
        algorithm=algorithm,
    )


def linear_backward(
    grad: Any,
    x: Any,
    w: Any,
    *,
    output_mask: Sequence[bool] = (True, True, True),
    out: Sequence[Any] = (None, None, None),
    beta: float = 0,
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients of `linear` in ``x``, ``w`` and ``bias``.

    Args:
        grad: (…, N), the gradient in the result.
        x: (…, K).
        w: (N, K).
        output_mask: Which of the three are wanted; the others are None.
        out: Where they go.
        beta: ``gradient + beta * old`` is written; at 0 the old value is not read.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> x, w = cp.full((4, 2), 1.0), cp.full((3, 2), 2.0)
        >>> dx, dw, db = ops.linear_backward(cp.full((4, 3), 1.0), x, w)
        >>> print(dx.get()[0], dw.get()[0], db.get())
        [6. 6.] [4. 4.] [4. 4. 4.]
    """
    what = "linear_backward"
    device = current_device()
    check_operands(what, device, grad=grad, x=x, w=w)
    if x.shape[:-1] != grad.shape[:-1] or w.shape != (grad.shape[-1], x.shape[-1]):
        raise ShapeError(
            f"{what}: grad {grad.shape}, x {x.shape} and w {w.shape} do not fit; expected "
            "(…, N), (…, K) and (N, K)"
        )
    shapes = (x.shape, w.shape, w.shape[:1])
    pairs = ((grad, w), (grad, x), (grad, grad))
    mask = check_mask(what, output_mask, ("dx", "dw", "db"))
    if not isinstance(out, tuple | list) or len(out) != len(mask):
        raise ShapeError(f"{what}: out={quoted(out)}: expected an array or None for each of three")
    # All three are checked before the first one is written.
    for wanted, result, shape, (a, b) in zip(mask, out, shapes, pairs, strict=True):
        dtype, _ = product_dtypes(what, device, a.dtype, b.dtype)
        if wanted:
            inputs = (grad, x, w)
            check_result(what, result, device, shape, dtype, inputs=inputs, extras=(), beta=beta)
    rows, columns = (_flat(grad), _flat(x)) if mask[1] else (grad, x)
    dx = matmul(grad, conjugate(w), out=out[0], beta=beta) if mask[0] else None
    dw = None
    if mask[1]:
        dw = matmul(rows, conjugate(columns), transpose_a=True, out=out[1], beta=beta)
    axes = tuple(range(grad.ndim - 1))
    db = SUM(grad, axis=axes, out=out[2], beta=beta) if mask[2] else None
    return dx, dw, db


def _flat(array: Any) -> Array:
    """(…, K) as a matrix."""
    whole = view_of(array, array.shape, array.strides, array.offset)
    return whole if array.ndim == 2 else whole.reshape(-1, array.shape[-1])
