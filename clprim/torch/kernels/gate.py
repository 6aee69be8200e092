"""Activations that shrink or gate; their gradients are derived from strings."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import adapted
from clprim.ops.elementwise.row import gradient
from clprim.ops.elementwise.table import ROWS
from clprim.torch.kernels.elementwise import apply, as_given, broadcast
from clprim.torch.layout import elementwise, seldom
from clprim.torch.memory import kind_of
from clprim.torch.table import kernel

# As PyTorch's: a negative limit, which `clprim.ops` refuses, keeps everything.
_HARDSHRINK = as_given(ROWS["hardshrink"].text())
_PRELU = as_given(ROWS["prelu"].text())


@kernel("hardshrink", lies=seldom)
def _hardshrink(x: Array, lambd: Any = 0.5) -> Any:
    kind = kind_of(x.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(f"hardshrink: not for tensors of {kind}")
    return apply(_HARDSHRINK, x, adapted(lambd, x.dtype), kind=kind)


@kernel("hardshrink_backward", lies=elementwise)
@broadcast
def _hardshrink_backward(grad: Array, x: Array, lambd: Any) -> Any:
    return gradient(ROWS["hardshrink"])(x, adapted(lambd, x.dtype), grad=grad)


@kernel("_prelu_kernel", lies=seldom)
def _prelu(x: Array, weight: Array) -> Any:
    return apply(_PRELU, x, weight, kind=kind_of(x.dtype))


@kernel("_prelu_kernel_backward")
@broadcast
def _prelu_backward(grad: Array, x: Array, weight: Array) -> Any:
    return gradient(ROWS["prelu"], ("x0", "x1"))(x, weight, grad=grad)
