"""Attention whose memory does not grow with queries times keys, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from clprim import ops
from clprim.ops.attention.scaled_dot_product import dropout_factors
from clprim.random import State
from clprim.torch import dispatcher, private
from clprim.torch.layout import contiguous, in_order
from clprim.torch.numbers import run_on
from clprim.torch.table import by_name, kernel
from clprim.torch.tensors import adopt, array_of, on_device

_FUSED = "_scaled_dot_product_fused_attention_overrideable"
_OF_CPU = "_scaled_dot_product_flash_attention_for_cpu"
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


@kernel(_FUSED, lies=_as_query, named=True)
def _forward(a: Any) -> Any:
    y, sums, state = ops.scaled_dot_product_attention(
        *(a.query, a.key, a.value, a.attn_bias, a.dropout_p, a.is_causal, a.scale),
        _grouped(a.query, a.key),
        return_stats=True,
    )
    drawn = _ZERO, _ZERO
    if state:
        seed, call = state
        drawn = torch.tensor(seed - _SEEDS * (seed >> 63)), torch.tensor(call)
    return y, sums, _ZERO, _ZERO, a.query.shape[-2], a.key.shape[-2], *drawn, _ZERO


def _gradients(a: Any, mask: Any, **options: Any) -> Any:
    """Those of query, key, value and, where that is asked for, mask."""
    given = a.grad_out, a.query, a.key, a.value, a.out, a.logsumexp, a.dropout_p, a.is_causal
    how: Any = {"attn_mask": mask, "scale": a.scale, **options}
    return ops.scaled_dot_product_attention_backward(*given, **how)


@kernel(f"{_FUSED}_backward", lies=contiguous, named=True)
def _backward(a: Any) -> Any:
    wanted = bool(a.grad_input_mask[3])
    found = _gradients(
        a,
        a.attn_bias,
        enable_gqa=_grouped(a.query, a.key),
        state=State(a.philox_seed % _SEEDS, a.philox_offset),
        mask_gradient=wanted,
    )
    return found if wanted else (*found, None)


# As PyTorch's graphs of the CPU have it, in networks that are moved to the device.


def _heads_inside(_: Any, found: torch.Tensor) -> torch.Tensor:
    """As the CPU's result lies: the heads of a query beside each other."""
    return in_order(found, (0, 2, 1, 3))


@kernel(_OF_CPU, lies=(_heads_inside, contiguous), named=True)
def _forward_of_cpu(a: Any) -> Any:
    given = a.query, a.key, a.value, a.attn_mask, a.dropout_p, a.is_causal, a.scale
    y, sums, _ = ops.scaled_dot_product_attention(*given, return_stats=True)
    return y, sums


@kernel(f"{_OF_CPU}_backward", lies=_heads_inside, named=True)
def _backward_of_cpu(a: Any) -> Any:
    return _gradients(a, a.attn_mask)


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


def _fake_backward(_: Any, *args: Any, **options: Any) -> Any:
    """What `_backward` returns, without values."""
    *made, mask = (None if t is None else t.new_empty(t.shape) for t in args[1:5])
    return *made, mask if args[5][3] else None


def _twice(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the gradient of products and a softmax where a gradient of it is to be computed."""

    def run(a: Any) -> Any:
        if a.grad_out is None:
            return None, None, None, None
        given = [t for t in a[:5] if t is not None]
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in given)):
            return plain(*a[:-1], scale=a.scale)
        factors = None
        if a.dropout_p:
            arrays = [array_of(t.detach()) for t in (a.query, a.key, a.value)]
            state = State(int(a.philox_seed) % _SEEDS, int(a.philox_offset))
            how = a.dropout_p, a.is_causal, _grouped(a.query, a.key), state
            factors = adopt(run_on(given, dropout_factors, *arrays, *how))
        found = _composed(a, factors)
        return *found[:3], found[3] if a.grad_input_mask[3] else None

    return by_name(f"{_FUSED}_backward", run)


def _composed(a: Any, factors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """The gradients of query, key, value and mask, of operators that PyTorch differentiates."""
    given, mask = (a.query, a.key, a.value), a.attn_bias
    wide = torch.float64 if a.query.dtype is torch.float64 else torch.float32
    g, q, k, v = (t.to(wide) for t in (a.grad_out, *given))
    groups = q.shape[-3] // k.shape[-3] if _grouped(q, k) else 1
    if groups > 1:
        k, v = (t.repeat_interleave(groups, -3) for t in (k, v))
    scale = max(1, q.shape[-1]) ** -0.5 if a.scale is None else a.scale
    products = q @ k.mT * scale
    if a.is_causal:
        mask = torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device).tril()
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


def _attention(a: Any) -> torch.Tensor:
    """What PyTorch chooses for its own devices in C++: one operator, or those it is made of."""
    given, rest, mask = (a.query, a.key, a.value), (a.dropout_p, a.is_causal), a.attn_mask
    aten = torch.ops.aten
    if _fits(*given, mask, a.is_causal, a.enable_gqa):
        fused = aten._scaled_dot_product_fused_attention_overrideable
        found = fused(*given, mask, *rest, scale=a.scale)
    else:
        if mask is not None and mask.dtype is torch.bool:
            # What it is made of adds masks as they are.
            zeros = torch.zeros_like(mask, dtype=a.query.dtype)
            mask = zeros.masked_fill_(~mask, -torch.inf)
        math = aten._scaled_dot_product_attention_math
        found = math(*given, mask, *rest, scale=a.scale, enable_gqa=a.enable_gqa)
    result: torch.Tensor = found[0]
    return result


def _several_heads(a: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What `torch.nn.MultiheadAttention` calls where nothing has a gradient; (N, L, E)."""
    q = a.query.transpose(0, 1)
    k = q if a.key is a.query else a.key.transpose(0, 1)
    v = k if a.value is a.key else a.value.transpose(0, 1)
    of_keys = a.mask_type == 1  # else of pairs: (L, S), or of every head
    mask = a.mask.flatten(0, 1) if a.mask is not None and a.mask.ndim == 4 else a.mask
    y, weights = torch.nn.functional.multi_head_attention_forward(
        *(q, k, v, a.embed_dim, a.num_head, a.qkv_weight, a.qkv_bias, None, None, False, 0.0),
        *(a.proj_weight, a.proj_bias),
        training=False,
        key_padding_mask=mask if of_keys else None,
        need_weights=a.need_weights,
        attn_mask=None if of_keys else mask,
        average_attn_weights=a.average_attn_weights,
    )
    return y.transpose(0, 1), a.query.new_empty(0) if weights is None else weights


def _encoder_layer(a: Any) -> torch.Tensor:
    """What `torch.nn.TransformerEncoderLayer` calls where nothing has a gradient."""
    nn, several = torch.nn.functional, torch.ops.aten._native_multi_head_attention
    heads = a.embed_dim, a.num_heads, a.qkv_weight, a.qkv_bias, a.proj_weight, a.proj_bias

    def attend(x: torch.Tensor) -> Any:
        return several(x, x, x, *heads, a.mask, need_weights=False, mask_type=a.mask_type)[0]

    def feed(x: torch.Tensor) -> Any:
        inner = nn.linear(x, a.ffn_weight_1, a.ffn_bias_1)
        inner = nn.gelu(inner) if a.use_gelu else nn.relu(inner)
        return nn.linear(inner, a.ffn_weight_2, a.ffn_bias_2)

    x: torch.Tensor = a.src
    parts = (attend, a.norm_weight_1, a.norm_bias_1), (feed, a.norm_weight_2, a.norm_bias_2)
    for part, weight, bias in parts:
        if a.norm_first:
            x = x + part(nn.layer_norm(x, (a.embed_dim,), weight, bias, a.eps))
        else:
            x = nn.layer_norm(x + part(x), (a.embed_dim,), weight, bias, a.eps)
    return x


def _is_nested(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether `torch.nn.TransformerEncoder` is to make a nested tensor; there is none."""
    return False


def register() -> None:
    """Registers what is made of other operators; autograd sees through the choice."""
    attention = "scaled_dot_product_attention"
    dispatcher.register_composite(attention, by_name(attention, _attention))
    dispatcher.register_fake(_FUSED, _fake_forward)
    dispatcher.register_fake(f"{_FUSED}_backward", _fake_backward)
    dispatcher.register_autograd(f"{_FUSED}_backward", _twice)
    dispatcher.register_kernel("_nested_tensor_from_mask_left_aligned", _is_nested)
    for name, made in (
        ("_native_multi_head_attention", _several_heads),
        ("_transformer_encoder_layer_fwd", _encoder_layer),
    ):
        dispatcher.register_kernel(name, by_name(name, made))
