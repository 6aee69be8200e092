"""Attention of several heads between linear layers, as `torch.nn.functional` has it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import zeros
from clprim.errors import DTypeError, ShapeError
from clprim.ops.attention.multi_head_arguments import (
    WHAT,
    as_batch,
    check_parameters,
    check_together,
    checked_heads,
    is_batched,
    weights_of,
)
from clprim.ops.attention.scaled_dot_product import scaled_dot_product_attention
from clprim.ops.product.matmul import linear, matmul
from clprim.ops.random.dropout import dropout
from clprim.ops.reduction.reduce import mean
from clprim.ops.reduction.softmax import softmax
from clprim.ops.registry import operator
from clprim.ops.shape.join import cat
from clprim.ops.shape.pad import pad
from clprim.ops.shared.checks import dtype_of
from clprim.ops.shared.flags import saving
from clprim.ops.shared.strings import kernel
from clprim.runtime.randomness import State


@dataclass(frozen=True)
class SavedHeads:
    """What a call keeps for its gradient.

    Attributes:
        inputs: Query, key and value, (L or S, N, …) each.
        weights: Theirs, (E, …) each.
        heads: What was made of them, (N, heads, L or S, E / heads) each, with further keys.
        mask: What was added to products, or None.
        masks: ``attn_mask`` and ``key_padding_mask`` as they were given, of which it is the sum;
            None of what was not read.
        causal: Whether query i saw keys up to i alone.
        seen: What heads saw, (N, heads, L, E / heads).
        sums: The logarithm of each query's sum; None where there are weights.
        dropped: The state of random numbers that weights dropped out by, and their probability.
        softmax: The weights before some dropped out, (N, heads, L, S); None if they were not
            wanted.
        kept: The weights after that.
        shape: Of the weights that were returned.
        average: Whether these are the mean of all heads.
        rows: What the last projection was of, (L, N, E).
        out: The last projection's weight.
        given: Names of those of the arguments that were given.
        batched: Whether there was a batch.
    """

    inputs: tuple[Any, Any, Any]
    weights: tuple[Any, ...]
    heads: tuple[Any, Any, Any]
    mask: Any
    masks: tuple[Any, Any]
    causal: bool
    seen: Array
    sums: Array | None
    dropped: tuple[State | None, float]
    softmax: Array | None
    kept: Array | None
    shape: tuple[int, ...] | None
    average: bool
    rows: Array
    out: Any
    given: frozenset[str]
    batched: bool


@operator(
    gradient="`multi_head_attention_backward`",
    sample="*[x[..., 0]] * 3, 4, 2, empty((12, 4)), *[None] * 3, False, 0.0, empty((4, 4)), None",
)
@saving(tuple[Array, Array | None], tuple[Array, Array | None, SavedHeads])
def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    return_saved: bool = False,
) -> tuple[Array, Array | None] | tuple[Array, Array | None, SavedHeads]:
    """Returns what `torch.nn.MultiheadAttention` computes: projections, attention, a projection.

    Args:
        query: (L, N, E), or without the batch (L, E).
        key: (S, N, E), or of other widths with weights of their own.
        value: (S, N, E), likewise.
        embed_dim_to_check: E.
        num_heads: Into how many heads E is divided.
        in_proj_weight: (3E, E), of query, key and value one below the other; None with weights of
            their own.
        in_proj_bias: (3E,) or None.
        bias_k: (1, 1, E), a key for all, or None.
        bias_v: Its value.
        add_zero_attn: Whether there is a key, and a value, of zeros besides.
        dropout_p: Probability of a weight to be 0, where ``training``.
        out_proj_weight: (E, E).
        out_proj_bias: (E,) or None.
        training: Whether weights drop out.
        key_padding_mask: (N, S): bool, where no query sees a key, or numbers to be added.
        need_weights: Whether the weights are wanted; without, memory does not grow with L · S.
        attn_mask: (L, S) or (N · heads, L, S): bool, where a query does not see a key, or numbers
            to be added.
        use_separate_proj_weight: Whether the next three are given.
        q_proj_weight: (E, E).
        k_proj_weight: (E, width of key).
        v_proj_weight: (E, width of value).
        average_attn_weights: Whether weights are the mean of all heads.
        is_causal: A hint that ``attn_mask`` is causal, which is then not read unless the weights
            are wanted or there is another mask.
        return_saved: Whether what `multi_head_attention_backward` needs is returned as well.

    Returns:
        (L, N, E) and, if wanted, the weights: (N, L, S), or (N, heads, L, S) of every head.
    """
    batched, padding = is_batched(query, key, value), key_padding_mask
    if not batched:
        query, key, value, key_padding_mask = as_batch(query, key, value, key_padding_mask)
    length, batch, width = query.shape
    heads = checked_heads(query, key, value, embed_dim_to_check, num_heads)
    check_together(bias_k, bias_v, is_causal, attn_mask)
    in_proj_weight = None if use_separate_proj_weight else in_proj_weight
    own = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    weights = weights_of(query, key, value, in_proj_weight, own)
    biases = {"in_proj_bias": in_proj_bias, "bias_k": bias_k, "bias_v": bias_v}
    check_parameters(query, biases, out_proj_weight, out_proj_bias)
    q, k, v = _projected(query, key, value, weights, in_proj_weight, in_proj_bias)
    k, v = _with_further_keys(k, v, bias_k, bias_v, add_zero_attn)
    extra = k.shape[0] - key.shape[0]
    causal = is_causal and key_padding_mask is None and not need_weights and not extra
    attn_mask = None if causal else attn_mask
    mask = _mask(attn_mask, key_padding_mask, (batch, heads, length, len(key)), extra, query.dtype)
    size = batch, heads, width // heads
    q, k, v = (a.reshape(len(a), *size).transpose(1, 2, 0, 3) for a in (q, k, v))
    p = dropout_p if training else 0.0
    attended = _attend(q, k, v, mask, p, need_weights, causal=causal, saves=return_saved)
    found = _shown(attended.kept, average_attn_weights, batched)
    rows = attended.seen.transpose(2, 0, 1, 3).reshape(length, batch, width)
    y = linear(rows if batched else rows[:, 0], out_proj_weight, out_proj_bias)
    if not return_saved:
        return y, found
    parameters = {"in_proj_weight": in_proj_weight, **biases, "out_proj_bias": out_proj_bias}
    given = frozenset(name for name, a in parameters.items() if a is not None)
    saved = SavedHeads(
        inputs=(query, key, value), weights=weights, heads=(q, k, v), mask=mask,
        masks=(attn_mask, padding), causal=causal, shape=None if found is None else found.shape,
        average=average_attn_weights, rows=rows, out=out_proj_weight, given=given,
        batched=batched, **vars(attended),
    )  # fmt: skip
    return y, found, saved


@dataclass(frozen=True)
class _Attended:
    """What heads saw, and what their gradient needs: see `SavedHeads`."""

    seen: Any
    sums: Array | None
    dropped: tuple[State | None, float]
    softmax: Array | None = None
    kept: Array | None = None


def _attend(
    q: Any, k: Any, v: Any, mask: Any, p: float, weighted: bool, *, causal: bool, saves: bool
) -> _Attended:
    """Attention, by a matrix of weights where they are wanted, some of which ``p`` drops."""
    if weighted:
        weights, state = _weights(q, k, mask), None
        kept = weights
        if p:
            kept, state = dropout(weights, p, return_state=True)
        return _Attended(matmul(kept, v), None, (state, p), weights, kept)
    options: Any = {"is_causal": causal, "return_stats": saves}
    seen: Any = scaled_dot_product_attention(q, k, v, mask, p, **options)
    if not saves:
        return _Attended(seen, None, (None, p))
    seen, sums, state = seen
    return _Attended(seen, sums, (state, p))


def _shown(kept: Any, average: bool, batched: bool) -> Any:
    """The weights as they are returned."""
    if kept is None:
        return None
    found = mean(kept, 1) if average else kept
    return found if batched else found[0]


def _with_further_keys(k: Any, v: Any, bias_k: Any, bias_v: Any, zero: bool) -> tuple[Any, Any]:
    """Keys and values with one that is given, and one of zeros."""
    if bias_k is not None:
        k, v = (_joined(a, b) for a, b in ((k, bias_k), (v, bias_v)))
    if zero:
        nothing = zeros((1, 1, k.shape[-1]), k.dtype)
        k, v = (_joined(a, nothing) for a in (k, v))
    return k, v


def _projected(
    query: Any, key: Any, value: Any, weights: tuple[Any, ...], whole: Any, bias: Any
) -> list[Array]:
    width = query.shape[-1]
    if query is key and key is value and whole is not None:
        y = linear(query, whole, bias)
        return [y[..., n * width : (n + 1) * width] for n in range(3)]
    biases = [None if bias is None else bias[n * width : (n + 1) * width] for n in range(3)]
    return [linear(a, w, b) for a, w, b in zip((query, key, value), weights, biases, strict=True)]


def _joined(a: Array, row: Any) -> Array:
    return cat([a, kernel("y0 = x0;", "copy", a.dtype)(row, shape=(1, *a.shape[1:]))], 0)


def _weights(q: Any, k: Any, mask: Any) -> Array:
    scale = math.sqrt(1 / q.shape[-1])
    text, arrays = ("y0 = y0 * w0;", ()) if mask is None else ("y0 = y0 * w0 + x0;", (mask,))
    products = matmul(q, k, transpose_b=True, epilogue=text, epilogue_args=(*arrays, scale))
    return softmax(products, -1)


def _mask(attn: Any, padding: Any, shape: tuple[int, ...], extra: int, dtype: Any) -> Any:
    """What is added to products, (N, heads, L, S) or 1 each; None where nothing is masked."""
    batch, heads, length, keys = shape
    found = None
    if attn is not None:
        dtype_of(WHAT, "attn_mask", attn)
        if attn.shape not in ((length, keys), (batch * heads, length, keys)):
            raise ShapeError(
                f"{WHAT}: attn_mask has shape {attn.shape}, expected {(length, keys)} or "
                f"{(batch * heads, length, keys)}"
            )
        spread = (1, 1) if attn.ndim == 2 else (batch, heads)
        found = _added("attn_mask", attn, dtype).reshape(*spread, length, keys)
    if padding is not None:
        dtype_of(WHAT, "key_padding_mask", padding)
        if padding.shape != (batch, keys):
            raise ShapeError(
                f"{WHAT}: key_padding_mask has shape {padding.shape}, expected {(batch, keys)}"
            )
        hidden = _added("key_padding_mask", padding, dtype).reshape(batch, 1, 1, keys)
        found = hidden if found is None else found + hidden
    return found if found is None or not extra else pad(found, (0, extra))


def _added(label: str, mask: Any, dtype: Any) -> Array:
    if dtype_of(WHAT, label, mask).kind in "iu":
        raise DTypeError(f"{WHAT}: {label} is {mask.dtype}, expected bool or a floating dtype")
    text = "y0 = x0 ? -INFINITY : 0;" if mask.dtype == np.bool_ else "y0 = x0;"
    return kernel(text, "attention_mask", dtype)(mask)
