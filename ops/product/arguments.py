"""What matrix products and convolutions share: dtypes, epilogues, and where results lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.arrays.memory import operand_of
from clprim.call.arguments import check_aliases, check_array, check_out
from clprim.call.primitive import Request, Target
from clprim.dtypes import AnyDType, is_real, promote, require_supported, value_dtype
from clprim.errors import DeviceError, DTypeError, ShapeError, quoted
from clprim.ops.shared.checks import check_shape
from clprim.plan.strides import Operand

_INT32 = np.dtype(np.int32)


def check_operands(what: str, device: Target, **arrays: Any) -> None:
    """Refuses operands that are no arrays of this device."""
    for label, array in arrays.items():
        check_array(what, label, array, device)
        if array.dtype == np.bool_:
            raise DTypeError(f"{what}: {label} is bool, which has no sums; use astype()")
        for stride in (*array.strides, array.offset):
            operand_of(array).in_elements(stride)


def product_dtypes(
    what: str, device: Target, a: AnyDType, b: AnyDType
) -> tuple[AnyDType, AnyDType]:
    """Returns the dtypes of a sum of products of ``a`` and ``b``, and of its accumulator.

    Floats are added up in float32 at least; integers of up to 32 bits give int32 (uint32 where
    both are that), larger ones 64 bits.
    """
    kinds = {d.kind if d.kind in "iu" else "f" for d in (a, b)}
    if "f" in kinds and kinds != {"f"}:
        raise DTypeError(f"{what}: cannot multiply {a} with {b}; use astype()")
    result = promote([a, b])
    if "f" in kinds:
        value = value_dtype(result, [result])
    else:
        value = result = promote([result, _INT32]) if result.itemsize < 4 else result
        if result.kind == "f":  # int64 with uint64
            raise DTypeError(f"{what}: cannot multiply {a} with {b}: no integer holds both")
    require_supported([a, b, value], device.traits, str(device))
    return result, value


def split_bias(request: Request, bias: bool) -> tuple[Operand | None, tuple[Operand, ...]]:
    """Returns the bias, if there is one, and the epilogue's arrays of a contraction."""
    extras = request.operands[2:]
    return (extras[0], extras[1:]) if bias else (None, extras)


def check_bias(what: str, device: Target, bias: Any, value: AnyDType, count: int) -> None:
    """Refuses a bias that ``count`` sums of ``value`` cannot take in: they would cut it off."""
    check_operands(what, device, bias=bias)
    if value.kind in "iu" and promote([bias.dtype, value]) != value:
        raise DTypeError(f"{what}: bias is {bias.dtype} beside sums of {value}; use astype()")
    check_shape(what, "bias", bias, (count,))


def check_result(
    what: str,
    out: Any,
    device: Target,
    shape: tuple[int, ...],
    dtype: AnyDType,
    *,
    inputs: Sequence[Any],
    extras: Sequence[Any],
    beta: Any,
) -> None:
    """Checks ``out=`` and ``beta=``."""
    if isinstance(beta, bool) or not is_real(beta):
        raise DTypeError(f"{what}: beta={quoted(beta)}: expected a number")
    if out is None:
        if beta:
            raise ShapeError(f"{what}: beta={quoted(beta)} needs out=, whose old value it scales")
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > device.traits.max_allocation:  # before kernels are planned for it
            raise DeviceError(
                f"{what}: a result of shape {shape} takes {nbytes:,} bytes; {device} allocates "
                f"{device.traits.max_allocation:,} at most"
            )
        return
    check_array(what, "out=", out, device)
    check_out(what, 0, out, shape, dtype)
    check_aliases(what, [out], inputs, same_allowed=False)
    check_aliases(what, [out], extras)
    require_supported([out.dtype], device.traits, str(device))


def span(operand: Operand) -> int:
    """Returns how many elements of its buffer an array reaches."""
    steps = zip(operand.strides, operand.shape, strict=True)
    reach = sum(max(0, operand.in_elements(s) * (n - 1)) for s, n in steps)
    return operand.in_elements(operand.offset) + reach + 1
