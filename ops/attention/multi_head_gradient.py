"""The gradients of attention of several heads between linear layers, as one call."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from clprim.arrays.array import Array, new_dense
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.attention.multi_head import SavedHeads
from clprim.ops.attention.scaled_dot_product import scaled_dot_product_attention_backward
from clprim.ops.product.matmul import linear_backward, matmul
from clprim.ops.random.dropout import dropout_backward
from clprim.ops.reduction.reduce import sum as add_up
from clprim.ops.reduction.softmax import softmax_backward
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_given, check_shape


class MultiHeadGradients(NamedTuple):
    """Gradients by the names of the arguments; None of what was not given."""

    query: Array
    key: Array
    value: Array
    in_proj_weight: Array | None
    in_proj_bias: Array | None
    bias_k: Array | None
    bias_v: Array | None
    out_proj_weight: Array
    out_proj_bias: Array | None
    q_proj_weight: Array | None
    k_proj_weight: Array | None
    v_proj_weight: Array | None
    attn_mask: Array | None
    key_padding_mask: Array | None


@operator()
def multi_head_attention_backward(
    grad: Any, grad_weights: Any, saved: SavedHeads, *, mask_gradients: bool = False
) -> MultiHeadGradients:
    """Returns the gradients of `multi_head_attention_forward`.

    Args:
        grad: Of the first result.
        grad_weights: Of the weights that were returned beside it; None stands for 0.
        saved: What ``multi_head_attention_forward(…, return_saved=True)`` returned.
        mask_gradients: Whether those of masks are wanted that were added; masks of bool, and one
            that was only a hint, have none.

    Returns:
        Gradients by the arguments' names, as ``.query`` and ``.out_proj_bias``; None of what was
        not given. Where one array was given for several of query, key and value, its gradient is
        the sum of theirs.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> x, w = cp.full((3, 1, 2), 1.0), cp.full((6, 2), 0.5)
        >>> rest = (None, None, None, False, 0.0, w[:2], None)
        >>> y, _, saved = ops.multi_head_attention_forward(
        ...     x, x, x, 2, 1, w, *rest, return_saved=True
        ... )
        >>> found = ops.multi_head_attention_backward(cp.full(y.shape, 1.0), None, saved)
        >>> found.value.shape, found.in_proj_weight.shape, found.in_proj_bias
        ((3, 1, 2), (6, 2), None)
    """
    what = "multi_head_attention_backward"
    if not isinstance(saved, SavedHeads):
        raise DTypeError(
            f"{what}: saved: expected what multi_head_attention_forward(…, return_saved=True) "
            f"returned, got {quoted(saved)}"
        )
    length, batch, width = saved.rows.shape
    dtype, given = saved.rows.dtype, saved.given
    high = saved.out.shape[0]
    shape = (length, batch, high) if saved.batched else (length, high)
    check_shape(what, "grad", grad, shape)
    check_given(what, "grad", grad, shape, dtype)
    if grad_weights is not None and saved.shape is None:
        raise ShapeError(f"{what}: grad_weights: the call had need_weights=False")
    check_given(what, "grad_weights", grad_weights, saved.shape or (), dtype)
    mask = True, True, "out_proj_bias" in given
    grad = grad.reshape(length, batch, high)
    drows, dout, dout_bias = linear_backward(grad, saved.rows, saved.out, output_mask=mask)
    assert drows is not None and dout is not None  # both are in the mask
    _, heads, _, size = saved.seen.shape
    dseen = drows.reshape(length, batch, heads, size).transpose(1, 2, 0, 3)
    added = [None if m is None or m.dtype == np.bool_ else m for m in saved.masks]
    with_mask = bool(mask_gradients) and any(m is not None for m in added)
    *dheads, dmask = _attention_back(dseen, grad_weights, saved, with_mask)
    rows = [d.transpose(2, 0, 1, 3).reshape(d.shape[2], batch, width) for d in dheads]
    keys = saved.inputs[1].shape[0]
    further: list[Any] = [None, None]
    if "bias_k" in given:
        further = [add_up(d[keys : keys + 1], 1, keepdim=True) for d in rows[1:]]
    rows[1:] = [d[:keys] for d in rows[1:]]
    whole = new_dense((3 * width, width), dtype) if "in_proj_weight" in given else None
    bias = new_dense((3 * width,), dtype) if "in_proj_bias" in given else None
    inputs: list[Any] = []
    apart: list[Any] = []
    for n, (d, x, w) in enumerate(zip(rows, saved.inputs, saved.weights, strict=True)):
        part = slice(n * width, (n + 1) * width)
        places = None, *(None if a is None else a[part] for a in (whole, bias))
        wanted = True, True, bias is not None
        dx, dw, _ = linear_backward(d, x, w, output_mask=wanted, out=places)
        assert dx is not None  # it is in the mask
        inputs.append(dx if saved.batched else dx[:, 0])
        apart.append(None if whole is not None else dw)
    masks: list[Any] = [None, None]
    if dmask is not None:
        of_pairs, of_keys = added
        if of_pairs is not None:
            axes = (0, 1) if of_pairs.ndim == 2 else ()
            masks[0] = _of_mask(of_pairs, dmask[..., :keys], axes)
        if of_keys is not None:
            masks[1] = _of_mask(of_keys, dmask[..., :keys], (1, 2))
    every = *inputs, whole, bias, *further, dout, dout_bias, *apart, *masks
    return MultiHeadGradients._make(every)


def _of_mask(mask: Any, dmask: Any, axes: tuple[int, ...]) -> Array:
    """The gradient of one mask from that of their sum, which others share along axes."""
    found = add_up(dmask, axes) if axes else dmask
    return found.reshape(mask.shape).astype(mask.dtype)


def _attention_back(
    dseen: Any, grad_weights: Any, saved: SavedHeads, mask_gradient: bool
) -> tuple[Any, ...]:
    """The gradients of every head's queries, keys and values, and of what was added, or None."""
    q, k, v = saved.heads
    state, p = saved.dropped
    if saved.softmax is None:
        options: Any = {"attn_mask": saved.mask, "state": state, "mask_gradient": mask_gradient}
        given = (dseen, q, k, v, saved.seen, saved.sums, p, saved.causal)
        found: Any = scaled_dot_product_attention_backward(*given, **options)
        return found if mask_gradient else (*found, None)
    batch, heads, length, keys = saved.softmax.shape
    epilogue: dict[str, Any] = {}
    if grad_weights is not None:
        own = grad_weights.reshape(batch, 1 if saved.average else heads, length, keys)
        share = 1 / heads if saved.average else 1.0
        epilogue = {"epilogue": "y0 = y0 + x0 * w0;", "epilogue_args": (own, share)}
    dkept = matmul(dseen, v, transpose_b=True, **epilogue)
    slopes = softmax_backward(dropout_backward(dkept, state, p), saved.softmax, -1)
    scaled: Any = {"epilogue": "y0 = y0 * w0;", "epilogue_args": (math.sqrt(1 / q.shape[-1]),)}
    dq = matmul(slopes, k, **scaled)
    dk = matmul(slopes, q, transpose_a=True, **scaled)
    dv = matmul(saved.kept, dseen, transpose_a=True)
    return dq, dk, dv, slopes if mask_gradient else None
