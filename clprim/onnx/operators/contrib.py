"""Operators of ONNX Runtime's own set that exported models have."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.conv import convolved, gemm
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler

_DOMAIN = "com.microsoft"
_ACTIVATIONS = {
    "Relu": "y0 = max(x0, (typeof_x0)0);", "Tanh": "y0 = tanh(x0);",
    "Sigmoid": "y0 = 1 / (1 + exp(-x0));", "LeakyRelu": "y0 = x0 > 0 ? x0 : w0 * x0;",
    "Clip": "y0 = clamp(x0, (typeof_x0)w0, (typeof_x0)w1);",
    "HardSigmoid": "y0 = clamp(w0 * x0 + w1, (typeof_x0)0, (typeof_x0)1);",
}  # fmt: skip


def _activated(y: Any, name: str | None, numbers: Any) -> Any:
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise DefinitionError(f"the activation {name!r} is unknown")
    text = _ACTIVATIONS[name]
    return string(text, y.dtype, y, *numbers[: 2 * text.count("w1") or text.count("w0")])


@handler("FusedMatMul", domain=_DOMAIN)
def _fused_matmul(a: Any, b: Any, *, alpha: float = 1.0, **told: Any) -> Any:
    if told.get("transBatchA") or told.get("transBatchB"):
        raise DefinitionError("FusedMatMul with transBatchA or transBatchB")
    return gemm(told, a, b, None, alpha)


@handler("FusedGemm", domain=_DOMAIN)
def _fused_gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
    activation: str | None = None, activation_alpha: float | None = None,
    activation_beta: float | None = None, **told: Any,
) -> Any:  # fmt: skip
    numbers = [v for v in (activation_alpha, activation_beta) if v is not None]
    return _activated(gemm(told, a, b, c, alpha, beta), activation, numbers)


@handler("FusedConv", domain=_DOMAIN)
def _fused_conv(
    x: Any, w: Any, bias: Any = None, z: Any = None, *, activation: str | None = None,
    activation_params: Any = (), **told: Any,
) -> Any:  # fmt: skip
    y = convolved(told, x, w, bias)
    return _activated(y if z is None else ops.add(y, z), activation, activation_params)


@handler("Gelu", "BiasGelu", domain=_DOMAIN)
def _gelu(x: Any, bias: Any = None) -> Any:
    return ops.gelu(x if bias is None else ops.add(x, bias))


@handler("FastGelu", domain=_DOMAIN)
def _fast_gelu(x: Any, bias: Any = None) -> Any:
    return ops.gelu(x if bias is None else ops.add(x, bias), "tanh")


@handler("QuickGelu", domain=_DOMAIN)
def _quick_gelu(x: Any, *, alpha: float = 1.702) -> Any:
    return ops.swish(x, alpha)


@handler("SwiGLU", domain=_DOMAIN)
def _swiglu(x: Any, gate: Any) -> Any:
    return ops.mul(ops.silu(x), gate)
