"""Operators of ONNX Runtime's own set that exported models have."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.conv import CONV, convolved, gemm
from clprim.onnx.table import handler
from clprim.ops.registry import of_onnx

_DOMAIN = "com.microsoft"
# Those that have numbers take as many as they need.
_ACTIVATIONS = {"Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "LeakyRelu", "ThresholdedRelu",
                "Elu", "HardSigmoid", "Clip"}  # fmt: skip


def _activated(y: Any, name: str | None, numbers: Any) -> Any:
    if not name:
        return y
    if name == "Clip" and len(numbers) > 1:
        return ops.hardtanh(y, *numbers[:2])
    known = of_onnx(name) if name in _ACTIVATIONS else None
    if known is None or len(numbers) < len(known.parameters):
        raise DefinitionError(f"the activation {name!r} with the numbers {[*numbers]}")
    return known.function(y, **dict(zip(known.parameters.values(), numbers, strict=False)))


@handler("FusedMatMul", domain=_DOMAIN, takes="transA transB",
         only={"transBatchA": 0, "transBatchB": 0})  # fmt: skip
def _fused_matmul(a: Any, b: Any, *, alpha: float = 1.0, **told: Any) -> Any:
    return gemm(told, a, b, None, alpha)


@handler("FusedGemm", domain=_DOMAIN, takes="transA transB")
def _fused_gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0,
    activation: str | None = None, activation_alpha: float | None = None,
    activation_beta: float | None = None, **told: Any,
) -> Any:  # fmt: skip
    numbers = [v for v in (activation_alpha, activation_beta) if v is not None]
    return _activated(gemm(told, a, b, c, alpha, beta), activation, numbers)


@handler("FusedConv", domain=_DOMAIN, takes=CONV)
def _fused_conv(
    x: Any, w: Any, bias: Any = None, z: Any = None, *, activation: str | None = None,
    activation_params: Any = (), **told: Any,
) -> Any:  # fmt: skip
    y = convolved(told, x, w, bias)
    return _activated(y if z is None else ops.add(y, z), activation, activation_params)


@handler("BiasGelu", domain=_DOMAIN)
def _bias_gelu(x: Any, bias: Any) -> Any:
    return ops.gelu(ops.add(x, bias))


@handler("FastGelu", domain=_DOMAIN)
def _fast_gelu(x: Any, bias: Any = None) -> Any:
    return ops.gelu(x if bias is None else ops.add(x, bias), "tanh")


@handler("SwiGLU", domain=_DOMAIN, only={"round_activation": 0})
def _swiglu(
    gate: Any, up: Any = None, *, activation_alpha: float = 1.0, activation_beta: float = 0.0,
    limit: float = 0.0,
) -> Any:  # fmt: skip
    if up is None:
        half = gate.shape[-1] // 2
        gate, up = gate[..., :half], gate[..., half:]
    if limit > 0:
        gate, up = ops.clamp(gate, None, limit), ops.clamp(up, -limit, limit)
    up = ops.add(up, activation_beta) if activation_beta else up
    return ops.mul(ops.swish(gate, activation_alpha), up)
