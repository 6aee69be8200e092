"""Operators of ONNX Runtime's own set that exported models have."""

from __future__ import annotations

from typing import Any

from clprim import ops
from clprim.onnx.table import handler

_DOMAIN = "com.microsoft"


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
