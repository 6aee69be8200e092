"""Attention as PyTorch's graphs of the CPU have it, in networks that are moved to the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch.layout import contiguous, in_order
from clprim.torch.table import kernel

_NAME = "_scaled_dot_product_flash_attention_for_cpu"


def _heads_inside(_: Sequence[Any], found: torch.Tensor) -> torch.Tensor:
    """As the CPU's result lies: the heads of a query beside each other."""
    return in_order(found, (0, 2, 1, 3))


@kernel(_NAME, lies=(_heads_inside, contiguous))
def _forward(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> Any:
    given = query, key, value, attn_mask, dropout_p, is_causal, scale
    y, sums, _ = ops.scaled_dot_product_attention(*given, return_stats=True)
    return y, sums


@kernel(f"{_NAME}_backward", lies=_heads_inside)
def _backward(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    out: Array,
    sums: Array,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> Any:
    given: Any = grad, query, key, value, out, sums, dropout_p, is_causal
    found: Any = ops.scaled_dot_product_attention_backward(*given, attn_mask=attn_mask, scale=scale)
    return found
