"""The arguments of `multi_head_attention_forward`, checked."""

from __future__ import annotations

from typing import Any

from clprim.errors import DTypeError, ShapeError
from clprim.ops.shared.checks import check_shape, dtype_of, is_array
from clprim.ops.shared.dims import whole

WHAT = "multi_head_attention_forward"


def is_batched(query: Any, key: Any, value: Any) -> bool:
    """Whether there is a batch; checks dtypes and numbers of dimensions."""
    arrays = {"query": query, "key": key, "value": value}
    for label, array in arrays.items():
        _same_dtype(label, array, query)
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        given = ", ".join(str(a.shape) for a in arrays.values())
        raise ShapeError(f"{WHAT}: query, key, value of shapes {given}: expected (L, N, E)")
    return bool(query.ndim == 3)


def as_batch(query: Any, key: Any, value: Any, padding: Any) -> tuple[Any, Any, Any, Any]:
    """The same as a batch of one; what is the same array stays so."""
    same = key is query, value is query
    query, key, value = (a[:, None] for a in (query, key, value))
    key, value = (query if s else a for s, a in zip(same, (key, value), strict=True))
    return query, key, value, padding[None] if is_array(padding) else padding


def checked_heads(query: Any, key: Any, value: Any, expected: int, number: Any) -> int:
    """The number of heads, into which the query's width is divided."""
    _, batch, width = query.shape
    heads = whole(WHAT, "num_heads", number, 1)
    if not width or width != expected or width % heads:
        raise ShapeError(
            f"{WHAT}: query is {width} wide, expected {expected}, a multiple of {heads} heads"
        )
    if key.shape[:2] != value.shape[:2] or key.shape[1] != batch:
        raise ShapeError(
            f"{WHAT}: key has shape {key.shape}, value {value.shape}; expected (S, {batch}, …)"
        )
    return heads


def check_together(bias_k: Any, bias_v: Any, is_causal: bool, attn_mask: Any) -> None:
    """Checks that what belongs together is given together."""
    if (bias_k is None) != (bias_v is None):
        raise DTypeError(f"{WHAT}: bias_k and bias_v: expected both or none")
    if is_causal and attn_mask is None:
        raise ShapeError(
            f"{WHAT}: is_causal=True says that attn_mask is causal, but attn_mask is None"
        )


def check_parameters(query: Any, biases: dict[str, Any], weight: Any, bias: Any) -> None:
    """Checks the biases of the first projection, and the weight and the bias of the last one."""
    width = query.shape[-1]
    for label, array in biases.items():
        if array is not None:
            shape = (3 * width,) if label == "in_proj_bias" else (1, 1, width)
            _check(label, array, query, shape)
    _same_dtype("out_proj_weight", weight, query)
    if weight.ndim != 2 or weight.shape[1] != width:
        raise ShapeError(
            f"{WHAT}: out_proj_weight has shape {weight.shape}, expected {(width, width)}"
        )
    if bias is not None:
        _check("out_proj_bias", bias, query, weight.shape[:1])


def _same_dtype(label: str, array: Any, query: Any) -> None:
    if dtype_of(WHAT, label, array) != query.dtype:
        raise DTypeError(f"{WHAT}: {label} is {array.dtype}, query {query.dtype}")


def _check(label: str, array: Any, query: Any, shape: tuple[int, ...]) -> None:
    _same_dtype(label, array, query)
    check_shape(WHAT, label, array, shape)


def weights_of(query: Any, key: Any, value: Any, whole: Any, own: Any) -> tuple[Any, ...]:
    """The weights of query, key and value, (E, …) each."""
    widths = tuple(a.shape[-1] for a in (query, key, value))
    width = widths[0]
    given = (whole,) if own is None else own
    if any(not is_array(w) for w in given):
        raise DTypeError(
            f"{WHAT}: expected in_proj_weight, or with use_separate_proj_weight=True "
            "q_proj_weight, k_proj_weight and v_proj_weight"
        )
    if own is not None:
        for letter, array, n in zip("qkv", own, widths, strict=True):
            _check(f"{letter}_proj_weight", array, query, (width, n))
        return tuple(own)
    _check("in_proj_weight", whole, query, (3 * width, width))
    if widths != (width,) * 3:
        raise ShapeError(
            f"{WHAT}: key and value are {widths[1]} and {widths[2]} wide: expected {width}, or "
            "use_separate_proj_weight=True"
        )
    return tuple(whole[n * width : (n + 1) * width] for n in range(3))
