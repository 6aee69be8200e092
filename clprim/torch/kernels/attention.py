"""Attention whose memory does not grow with queries times keys, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.ops.attention.attention import dropout_factors
from clprim.random import State
from clprim.torch import private
from clprim.torch.layout import contiguous, in_order
from clprim.torch.memory import adopt, array_of, on_device
from clprim.torch.numbers import run_on
from clprim.torch.table import kernel

_SEEDS = 1 << 64
# What the operator returns of others' ways, and where nothing is drawn.
_ZERO = torch.tensor(0)


def _grouped(query: Any, key: Any) -> bool:
    """Whether heads of queries share those of keys."""
    return query.ndim > 2 and query.shape[-3] != key.shape[-3]


def _as_query(args: Any, found: torch.Tensor) -> torch.Tensor:
    """In the order of the queries."""
    query = args[0]
    if found.ndim != query.ndim or (query.is_contiguous() and found.is_contiguous()):
        return found
    return in_order(found, sorted(range(query.ndim), key=lambda d: (-query.stride(d), d)))


@kernel("_scaled_dot_product_fused_attention_overrideable", lies=_as_query)
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
    drawn = _ZERO, _ZERO
    if state:
        seed, call = state
        drawn = torch.tensor(seed - _SEEDS * (seed >> 63)), torch.tensor(call)
    return y, sums, _ZERO, _ZERO, query.shape[-2], key.shape[-2], *drawn, _ZERO


@kernel("_scaled_dot_product_fused_attention_overrideable_backward", lies=contiguous)
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
    options: Any = {
        "attn_mask": mask,
        "scale": scale,
        "enable_gqa": _grouped(query, key),
        "state": State(seed % _SEEDS, call),
        "mask_gradient": bool(wanted[3]),
    }
    found: Any = ops.scaled_dot_product_attention_backward(
        grad,
        query,
        key,
        value,
        out,
        sums,
        dropout_p,
        is_causal,
        **options,
    )
    return found if wanted[3] else (*found, None)


def _fake_forward(
    _: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **options: Any
) -> Any:
    """What `_forward` returns, without values."""
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    y = query.new_empty((*query.shape[:-1], value.shape[-1]))
    number = torch.empty((), dtype=torch.int64, device="cpu")
    sums = query.new_empty(query.shape[:-1], dtype=wide)
    sizes = query.shape[-2], key.shape[-2]
    return _as_query((query,), y), sums, number, number, *sizes, number, number, number


def _fake_backward(
    _: Any,
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    wanted: Any,
    *rest: Any,
    **options: Any,
) -> Any:
    """What `_backward` returns, without values."""
    made = [t.new_empty(t.shape) for t in (query, key, value)]
    return *made, mask.new_empty(mask.shape) if mask is not None and wanted[3] else None


def _twice(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the gradient of products and a softmax where a gradient of it is to be computed."""

    def run(
        grad: torch.Tensor | None,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        *rest: Any,
        scale: float | None = None,
    ) -> Any:
        if grad is None:
            return None, None, None, None
        tensors = grad, query, key, value
        differentiable = (*tensors, tensors[0] if mask is None else mask)
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in differentiable)):
            return plain(*tensors, mask, *rest, scale=scale)
        wanted, *_, dropout_p, is_causal, seed, call = rest
        factors = None
        if dropout_p:
            arrays = [array_of(t.detach()) for t in tensors[1:]]
            state = State(int(seed) % _SEEDS, int(call))
            how = dropout_p, is_causal, _grouped(query, key), state
            factors = adopt(run_on(tensors, dropout_factors, *arrays, *how))
        found = _composed(*tensors, mask, factors, is_causal, scale)
        return *found[:3], found[3] if wanted[3] else None

    return run


def _composed(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    factors: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> list[torch.Tensor | None]:
    """The gradients of query, key, value and mask, of operators that PyTorch differentiates."""
    given = query, key, value
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    g, q, k, v = (t.to(wide) for t in (grad, *given))
    groups = query.shape[-3] // key.shape[-3] if _grouped(query, key) else 1
    if groups > 1:
        k, v = (t.repeat_interleave(groups, -3) for t in (k, v))
    scale = max(1, query.shape[-1]) ** -0.5 if scale is None else scale
    products = q @ k.mT * scale
    if is_causal:
        mask = torch.ones(products.shape[-2:], dtype=torch.bool, device=query.device).tril()
    added = mask is not None and mask.dtype is not torch.bool
    if mask is not None:
        products = products + mask if added else products.masked_fill(~mask, -torch.inf)
    weights = torch.ops.aten._safe_softmax(products, -1)
    dropped, slopes = weights, g @ v.mT
    if factors is not None:
        dropped, slopes = weights * factors, slopes * factors
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdim=True))
    dmask = slopes.sum_to_size(mask.shape).to(mask.dtype) if mask is not None and added else None
    slopes = slopes * scale
    found = [slopes @ k, slopes.mT @ q, dropped.mT @ g]
    if groups > 1:
        found[1:] = [t.unflatten(-3, (-1, groups)).sum(-3) for t in found[1:]]
    return [*(t.to(like.dtype) for t, like in zip(found, given, strict=True)), dmask]


def _fits(query: Any, key: Any, value: Any, mask: Any, causal: bool, gqa: bool) -> bool:
    """Whether `clprim.ops` has it, and may: no broadcast batches."""
    tensors = (query, key, value)
    if not private.may_fuse_attention() or not all(
        on_device(t) and t.dtype == query.dtype and t.ndim > 1 for t in tensors
    ):
        return False
    if mask is not None and (causal or not on_device(mask)):
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
    given, rest = (query, key, value), (dropout_p, is_causal)
    aten = torch.ops.aten
    if _fits(*given, attn_mask, is_causal, enable_gqa):
        fused = aten._scaled_dot_product_fused_attention_overrideable
        found = fused(*given, attn_mask, *rest, scale=scale)
    else:
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            # What it is made of adds masks as they are.
            seen = attn_mask
            attn_mask = torch.zeros_like(seen, dtype=query.dtype).masked_fill_(~seen, -torch.inf)
        math = aten._scaled_dot_product_attention_math
        found = math(*given, attn_mask, *rest, scale=scale, enable_gqa=enable_gqa)
    result: torch.Tensor = found[0]
    return result


def _several_heads(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `torch.nn.MultiheadAttention` calls where nothing has a gradient; (N, L, E)."""
    q = query.transpose(0, 1)
    k = q if key is query else key.transpose(0, 1)
    v = k if value is key else value.transpose(0, 1)
    of_keys = mask_type == 1  # else of pairs: (L, S), or of every head
    if mask is not None and mask.ndim == 4:
        mask = mask.flatten(0, 1)
    y, weights = torch.nn.functional.multi_head_attention_forward(
        q,
        k,
        v,
        embed_dim,
        num_head,
        qkv_weight,
        qkv_bias,
        None,
        None,
        False,
        0.0,
        proj_weight,
        proj_bias,
        training=False,
        key_padding_mask=mask if of_keys else None,
        need_weights=need_weights,
        attn_mask=None if of_keys else mask,
        average_attn_weights=average_attn_weights,
    )
    return y.transpose(0, 1), query.new_empty(0) if weights is None else weights


def _encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """What `torch.nn.TransformerEncoderLayer` calls where nothing has a gradient."""
    nn = torch.nn.functional
    heads = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return _several_heads(x, x, x, *heads, mask, need_weights=False, mask_type=mask_type)[0]

    def feed(x: torch.Tensor) -> torch.Tensor:
        inner = nn.linear(x, ffn_weight_1, ffn_bias_1)
        inner = nn.gelu(inner) if use_gelu else nn.relu(inner)
        return nn.linear(inner, ffn_weight_2, ffn_bias_2)

    x = src
    parts = (attend, norm_weight_1, norm_bias_1), (feed, norm_weight_2, norm_bias_2)
    for part, weight, bias in parts:
        if norm_first:
            x = x + part(nn.layer_norm(x, (embed_dim,), weight, bias, eps))
        else:
            x = nn.layer_norm(x + part(x), (embed_dim,), weight, bias, eps)
    return x


def _is_nested(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether `torch.nn.TransformerEncoder` is to make a nested tensor; there is none."""
    return False


def register() -> None:
    """Registers what is made of other operators; autograd sees through the choice."""
    private.register_composite("scaled_dot_product_attention", _attention)
    fused = "_scaled_dot_product_fused_attention_overrideable"
    private.register_fake(fused, _fake_forward)
    private.register_fake(f"{fused}_backward", _fake_backward)
    private.register_autograd(f"{fused}_backward", _twice)
    private.register_kernel("_nested_tensor_from_mask_left_aligned", _is_nested)
    private.register_kernel("_native_multi_head_attention", _several_heads)
    private.register_kernel("_transformer_encoder_layer_fwd", _encoder_layer)
