"""Attention whose memory does not grow with queries times keys, forward and backward."""

from __future__ import annotations

from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.random import State
from clprim.torch import private
from clprim.torch.memory import on_device
from clprim.torch.table import kernel

_SEEDS = 1 << 64


def _grouped(query: Any, key: Any) -> bool:
    """Whether heads of queries share those of keys."""
    return query.ndim > 2 and query.shape[-3] != key.shape[-3]


@kernel("_scaled_dot_product_fused_attention_overrideable")
def _forward(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    y, sums, state = ops.scaled_dot_product_attention(
        query,
        key,
        value,
        mask,
        dropout_p,
        is_causal,
        scale,
        _grouped(query, key),
        return_stats=True,
    )
    seed, call = state or (0, 0)
    numbers = [torch.tensor(n) for n in (0, 0, seed - _SEEDS * (seed >> 63), call, 0)]
    lengths = query.shape[-2], key.shape[-2]
    return y, sums, *numbers[:2], *lengths, *numbers[2:]


@kernel("_scaled_dot_product_fused_attention_overrideable_backward")
def _backward(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    wanted: Any,
    out: Array,
    sums: Array,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    seed: int,
    call: int,
    *,
    scale: float | None = None,
) -> Any:
    found = ops.scaled_dot_product_attention_backward(
        grad,
        query,
        key,
        value,
        out,
        sums,
        dropout_p,
        is_causal,
        attn_mask=mask,
        scale=scale,
        enable_gqa=_grouped(query, key),
        state=State(seed % _SEEDS, call),
    )
    return *found, None


def _fits(query: Any, key: Any, value: Any, mask: Any, causal: bool, gqa: bool) -> bool:
    """Whether `clprim.ops` has it: no broadcast batches, no gradient in a mask."""
    tensors = (query, key, value)
    if not all(on_device(t) and t.dtype == query.dtype and t.ndim > 1 for t in tensors):
        return False
    if mask is not None and (causal or mask.requires_grad or not on_device(mask)):
        return False
    if mask is not None and mask.dtype not in (torch.bool, query.dtype):
        return False
    batch, heads = query.shape[:-2], key.shape[:-2]
    if gqa and batch and heads and heads[-1] and batch[-1] % heads[-1] == 0:
        batch, heads = batch[:-1], heads[:-1]
    return bool(
        batch == heads
        and key.shape[:-1] == value.shape[:-1]
        and query.shape[-1] == key.shape[-1]
        and query.is_floating_point()
    )


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """What PyTorch chooses for its own devices in C++: one operator, or those it is made of."""
    given = (query, key, value, attn_mask, dropout_p, is_causal)
    aten = torch.ops.aten
    if _fits(query, key, value, attn_mask, is_causal, enable_gqa):
        fused = aten._scaled_dot_product_fused_attention_overrideable
        found: torch.Tensor = fused(*given, scale=scale)[0]
    else:
        math = aten._scaled_dot_product_attention_math
        found = math(*given, scale=scale, enable_gqa=enable_gqa)[0]
    return found


def register() -> None:
    """Registers the choice, which autograd sees through."""
    private.register_composite("scaled_dot_product_attention", _attention)
