"""Attention by blocks of queries: what queries make of keys is never stored for all of them.

On CPUs the result is one kernel's and the gradients another's. Elsewhere a block of queries is
multiplied with all keys; the products, of a few megabytes, stay in a cache while they become
weights and are multiplied with the values. The gradient makes the weights of a block again. Which
weights drop out is the same in both ways: every block is a call that draws, whose elements are
counted.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

from clprim.arrays.array import Array, new_dense, view_of
from clprim.errors import DTypeError, ShapeError
from clprim.gradients.request import is_floating
from clprim.ops.attention.fused import (
    Drop,
    attend,
    attend_few,
    differentiate,
    differentiate_by_units,
)
from clprim.ops.attention.problem import Problem
from clprim.ops.attention.static import Static, attention_of_static
from clprim.ops.attention.weights import query_sums, weights, weights_gradient
from clprim.ops.product.matmul import matmul
from clprim.ops.registry import operator
from clprim.ops.shared.checks import check_dtype, check_shape, dtype_of
from clprim.ops.shared.strings import kernel
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.runtime.randomness import State, advance, at, checked_state, get_state

_WHAT = "scaled_dot_product_attention"


_delta = Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
_sum = Reduction("", init="reduce_y0 = 0;", step="reduce_y0 += x0;", name="sum_of_groups")


@operator(autocast="lower", sample="x, x, x")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    score: str | None = None,
    score_args: Any = (),
    return_stats: bool = False,
    length: Any = None,
    window: int | None = None,
    softcap: float = 0.0,
    slopes: Any = None,
    sink: Any = None,
) -> Array:
    """Returns softmax(query keyᵀ · scale + mask) value, as `torch.nn.functional` has it.

    Memory grows with the number of queries and of keys, not with their product.

    Args:
        query: (…, heads, L, E).
        key: (…, heads, S, E).
        value: (…, heads, S, F).
        attn_mask: What broadcasts to (…, heads, L, S): bool, where a query sees a key, or numbers
            to be added. A query that sees none gets zeros. Bool and ``is_causal`` keep a NaN in a
            key out of the result; nothing does so with one in a value.
        dropout_p: Probability of a weight to be zero, with numbers from `clprim.random`.
        is_causal: Whether query i sees keys up to i alone.
        scale: By default 1 / √E.
        enable_gqa: Whether several heads of queries may share one of keys and values.
        score: A snippet on ``y0``, a scaled product of a query and a key, run before the mask and
            ``is_causal``: a bias, a cap, a window, in the kernel that computes all of it. It reads
            arrays ``x0``, …, numbers ``w0``, …, and where it is, ``coord(d)`` and ``size(d)`` of
            (…, heads, L, S): ``coord(-2)`` is the query, ``coord(-1)`` the key. -INFINITY hides a
            key as a mask does.
        score_args: Those arrays, which broadcast to (…, heads, L, S), then the numbers.
        return_stats: Whether to return what the gradient needs as well.
        length: Keys and values are a static cache, `KeyValueCache`, of which the first ``length``
            are there: a number, or integers (1,) or (N,). Nothing is compiled anew as it grows.
            Query i is at the place ``length`` − L + i, which ``is_causal`` counts from. Keys and
            values may be of fewer bits than queries; there is no mask, dropout nor gradient.
        window: With ``length`` and ``is_causal``, how many keys a query sees, its own the last one.
        softcap: With ``length``, c of c · tanh(score / c), at which scores are capped; 0 is none.
        slopes: With ``length`` and ``is_causal``, numbers (heads,) of float32: what a score loses
            for each token that its key is before the query (ALiBi: Press and others, 2021).
        sink: With ``length``, numbers (heads,) of float32: of each head one more score, whose key
            has no value (Xiao and others, 2023).

    Returns:
        (…, heads, L, F), or a tuple of it, the logarithm of each query's sum (…, heads, L), and the
        state that dropout drew from.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> q = cp.asarray(np.zeros((1, 2, 4), np.float32))
        >>> v = cp.asarray(np.float32([[[1, 2], [3, 4]]]))
        >>> ops.scaled_dot_product_attention(q, q, v, is_causal=True).get()
        array([[[1., 2.],
                [2., 3.]]], dtype=float32)
    """
    arrays = (query, key, value)
    if length is not None:
        if attn_mask is not None or dropout_p or return_stats:
            raise ShapeError(f"{_WHAT}: length= goes without attn_mask, dropout_p and return_stats")
        options = length, is_causal, scale, enable_gqa, window, softcap, slopes, sink
        return attention_of_static(arrays, Static(*options, score, score_args))
    if softcap or any(a is not None for a in (window, slopes, sink)):
        raise ShapeError(
            f"{_WHAT}: window=, softcap=, slopes= and sink= need length=; see `cached_attention`"
        )
    p = Problem(_WHAT, arrays, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    p.scored(_WHAT, score, score_args)
    out = new_dense((*query.shape[:-1], value.shape[-1]), p.dtype)
    sums = new_dense(query.shape[:-1], p.wide)
    state = get_state() if p.dropout else None
    if not p.full[-1] or not value.shape[-1]:
        out.fill(0)
        sums.fill(-math.inf)
    elif out.size:
        grouped, rows = p.split(out), _rows(p, sums)
        if not _attend(p, grouped, rows, state):
            _by_blocks(p, grouped, rows)
        elif p.dropout:
            for _ in p.blocks():
                advance()
    result: Any = (out, sums, state) if return_stats else out
    return result


def _attend(p: Problem, out: Any, sums: Any, state: State | None) -> bool:
    """Computes the result and the logarithms of sums in one kernel, if the device has one."""
    plain = not (p.causal or p.dropout)
    if plain and attend_few((p.query, p.key, p.value, p.mask), (p.scale,), out, sums, p.score):
        return True
    results, drop = (out, sums), _drop(p, state)
    if p.query.device.traits.matrix_units and attend(p, p.key, p.value, results, drop):
        return True
    return attend(p, _as(p.key, p.wide), _as(p.value, p.wide), results, drop)


def _drop(p: Problem, state: State | None) -> Drop | None:
    if not p.dropout or state is None:
        return None
    below, scale = p.dropped()
    return Drop(p.rows, (below, scale), checked_state(state))


def _by_blocks(p: Problem, out: Any, logarithms: Any) -> None:
    """Likewise, by a product of matrices, two kernels and another product for each block."""
    for block in p.blocks():
        arrays, numbers = p.products(block)
        rows = [logarithms[..., block, :]]
        rows += [new_dense(rows[0].shape, p.wide) for _ in range(2)]
        query_sums(p.mask_kind, p.causal)(
            *arrays, *numbers, axis=-1, keepdims=True, out=tuple(rows)
        )
        kernel = weights(p.mask_kind, p.causal, bool(p.dropout))
        kernel(*arrays, *rows[1:], *numbers, *p.dropped(), out=arrays[0])
        _multiply(arrays[0], p.value[..., p.seen(block), :], out[..., block, :])


def _rows(p: Problem, sums: Any) -> Any:
    """A number for each query as a column."""
    column = view_of(sums, (*sums.shape, 1), (*sums.strides, 0), sums.offset)
    return p.split(column)


def _multiply(weights: Any, right: Any, out: Any) -> None:
    """Weights, which are float32, times rows of another dtype."""
    if right.dtype != weights.dtype:
        right = _as(right, weights.dtype)
    if out.dtype == weights.dtype:
        matmul(weights, right, out=out)
    else:
        _copy(matmul(weights, right), out=out)


_copy = Pointwise("y0 = x0;", name="copy")


def _as(array: Any, dtype: Any) -> Any:
    return array if array.dtype == dtype else kernel("y0 = x0;", "copy", dtype)(array)


def scaled_dot_product_attention_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    logsumexp: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    state: State | None = None,
    mask_gradient: bool = False,
    score: str | None = None,
    score_args: Any = (),
    score_gradient: bool = False,
) -> tuple[Array | tuple[Array | None, ...], ...]:
    """Returns the gradients of `scaled_dot_product_attention` in query, key, value and mask.

    Args:
        query: As it was then; so are the others.
        out: The result.
        logsumexp: What was returned beside it.
        state: What was returned beside the result, with dropout.
        mask_gradient: Whether that of ``attn_mask`` is wanted, which was added. It has the mask's
            shape, and no more memory is needed.
        score: As it was then.
        score_args: Likewise.
        score_gradient: Whether gradients of the string's arrays are wanted: they are computed by
            blocks of queries, as where a device has no kernel for attention.

    Returns:
        Gradients of query, key and value, of the mask where it is wanted, and then a tuple of those
        of the string's arrays, None of integers.

    Raises:
        DefinitionError: No gradient passes through the string; with its line and a caret.
    """
    what = "scaled_dot_product_attention_backward"
    arrays = (query, key, value)
    p = Problem(what, arrays, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    p.scored(what, score, score_args)
    if score_gradient and p.score is None:
        raise ShapeError(f"{what}: score_gradient=True, but score is None")
    expected = (*query.shape[:-1], value.shape[-1])
    for label, array in {"grad": grad, "out": out}.items():
        check_dtype(what, label, array, p.dtype, "query")
        check_shape(what, label, array, expected)
    if dtype_of(what, "logsumexp", logsumexp).kind in "biu":
        raise DTypeError(f"{what}: logsumexp is {logsumexp.dtype}, expected {p.wide}")
    check_shape(what, "logsumexp", logsumexp, query.shape[:-1])
    if p.dropout and state is None:
        raise ShapeError(f"{what}: dropout_p={dropout_p} needs state=, to draw the mask again")
    if mask_gradient and attn_mask is None:
        raise ShapeError(f"{what}: mask_gradient=True, but attn_mask is None")
    if mask_gradient and p.mask_kind == "bool":
        raise DTypeError(f"{what}: attn_mask is bool, which has no gradient: mask_gradient=False")
    dscore = p.score.zeros(p.wide) if p.score and score_gradient else None
    results = dmask = None
    if mask_gradient:
        ones = (1,) * (len(p.full) - attn_mask.ndim)
        dmask = new_dense(ones + attn_mask.shape, p.wide)
    if grad.size and p.full[-1]:
        turned = None if dmask is None else p.split(dmask)
        if dscore is None:
            results = _by_units(p, grad, out, logsumexp, state, turned)
        results = results or _differentiated(p, grad, out, logsumexp, state, turned, dscore)
    elif dmask is not None:
        dmask.fill(0)
    dq, dk, dv = _zeros(p) if results is None else results
    if p.groups > 1:
        dk, dv = (_sum(a, axis=-3) for a in (dk, dv))
    found = zip((dq, dk, dv), (query, key, value), strict=True)
    dq, dk, dv = (_as(a, p.dtype).reshape(like.shape) for a, like in found)
    made: tuple[Any, ...] = dq, dk, dv
    if dmask is not None:
        made = *made, _as(dmask, attn_mask.dtype).reshape(attn_mask.shape)
    if dscore is None or p.score is None:
        return made
    return *made, p.score.shaped(dscore)


def _differentiated(
    p: Problem, grad: Any, out: Any, logsumexp: Any, state: State | None, dmask: Any, dscore: Any
) -> list[Any]:
    """The gradients by one kernel, if the device has one for them, or by blocks of queries."""
    given = [_as(a, p.wide) for a in (p.query, p.key, p.value, p.split(grad))]
    delta = _delta(given[-1], p.split(out), axis=-1, keepdims=True)
    given += [_as(_rows(p, logsumexp), p.wide), delta]
    dtype = p.dtype if p.groups == 1 else p.wide
    # Where a mask is one for several queries or keys, or weights drop out, blocks add it up.
    alone = dmask is not None and dmask.shape[-2:] == p.full[-2:] and not (p.dropout or p.score)
    fused = dscore is None and (dmask is None or alone)
    results = None
    if p.query.size and fused:
        results = differentiate(p, given, dtype, _drop(p, state), dmask)
    if results is not None:
        results[0] = _sum(results[0], axis=-3)
        return results
    results = _zeros(p)
    with nullcontext() if state is None else at(state):
        _accumulate(p, given, results, dmask, dscore)
    return results


def _by_units(
    p: Problem, grad: Any, out: Any, logsumexp: Any, state: State | None, dmask: Any
) -> list[Any] | None:
    """The gradients by matrix units, if the device has some for them; of no mask that is shared."""
    has = p.query.device.traits.matrix_units and p.dtype.itemsize == 2
    shared = dmask is not None and dmask.shape != (*p.query.shape[:-1], p.full[-1])
    if shared or not (p.query.size and has):
        return None
    above = p.split(grad)
    delta = new_dense((*above.shape[:-1], 1), p.wide)
    _delta(above, p.split(out), axis=-1, keepdims=True, out=delta)
    given = p.query, p.key, p.value, above, _as(_rows(p, logsumexp), p.wide), delta
    dtype = p.dtype if p.groups == 1 else p.wide
    return differentiate_by_units(p, given, dtype, _drop(p, state), dmask)


_factors = Pointwise("y0 = rand() < w0 ? 0 : w1;", name="attention_dropout")


def dropout_factors(
    query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, gqa: bool, state: State
) -> Array:
    """Returns what `scaled_dot_product_attention` multiplied its weights with, (…, heads, L, S).

    It is what takes as much memory as all weights, for gradients that are made of them.

    Args:
        query: As it was then; so are the others.
        key: Likewise.
        value: Likewise.
        dropout_p: Likewise.
        is_causal: Likewise; of what no query sees, factors are 0.
        gqa: Whether several heads of queries share one of keys.
        state: What was returned beside the result.
    """
    arrays = (query, key, value)
    p = Problem("attention_dropout", arrays, None, dropout_p, is_causal, None, gqa)
    out = new_dense(p.full, p.wide)
    out.fill(0)
    with at(state):
        for block in p.blocks():
            _factors(*p.dropped(), out=out[..., block, p.seen(block)])
    return out


def _zeros(p: Problem) -> list[Any]:
    """Wide zeros of the shapes of queries, keys and values."""
    found = [new_dense(a.shape, p.wide) for a in (p.query, _grown(p, p.key), _grown(p, p.value))]
    for array in found:
        array.fill(0)
    return found


def _grown(p: Problem, array: Any) -> Any:
    """Keys or values as if every group had its own."""
    if p.groups == 1:
        return array
    shape = (*array.shape[:-3], p.groups, *array.shape[-2:])
    return view_of(array, shape, array.strides, array.offset)


def _add_slopes(slopes: Any, part: Any, again: bool) -> None:
    """Adds up the gradient in what a mask was added to, over what shared its elements."""
    pairs = enumerate(zip(part.shape, slopes.shape, strict=True))
    axes = tuple(n for n, (one, every) in pairs if one < every)
    _sum(slopes, axis=axes, keepdims=True, out=part, beta=int(again))


_add = Pointwise("y0 = x0 + x1;", name="add")


def _through_score(
    p: Problem, products: Any, back: Any, block: slice, dscore: Any, derived: Any
) -> None:
    """Makes of the gradient in scores of a block that in products, and adds that in arrays."""
    assert p.score is not None  # else there is nothing to go through
    seen = p.seen(block)
    arrays = [_as(a, p.wide) if is_floating(a.dtype) else a for a in p.score.block(block, seen)]
    found = derived(products, *arrays, *p.score.told_to(p.scale, block.start), grad=back)
    first, *others = found if isinstance(found, tuple) else (found,)
    _copy(first, out=back)
    for total in dscore or ():
        if total is not None:
            rows = block if total.shape[-2] > 1 else slice(None)
            part = total[..., rows, seen if total.shape[-1] > 1 else slice(None)]
            _add(part, others.pop(0), out=part)


def _accumulate(p: Problem, given: list[Any], results: list[Any], dmask: Any, dscore: Any) -> None:
    """Adds what each block of queries gives to the gradients."""
    query, key, value, grad, _, delta = given
    dq, dk, dv = results
    derived = None
    if p.score is not None:
        asked = [f"x{n + 1}" for n, total in enumerate(dscore or ()) if total is not None]
        scored = kernel(p.score.pointwise, "attention_score", p.wide)
        derived = scored.gradient(("x0", *asked))
    for n, block in enumerate(p.blocks()):
        arrays, numbers = p.products(block)
        above = grad[..., block, :]
        seen = p.seen(block)
        back = matmul(above, value[..., seen, :], transpose_b=True)
        slopes_of = weights_gradient(p.mask_kind, p.causal, bool(p.dropout), dmask is not None)
        _, *rows = query_sums(p.mask_kind, p.causal)(*arrays, *numbers, axis=-1, keepdims=True)
        rows += [back, delta[..., block, :]]
        slopes = []
        if dmask is not None:
            shared = dmask.shape[-2] == 1
            part = dmask if shared else dmask[..., block, :]
            alone = part.shape == back.shape
            slopes = [part if alone else new_dense(back.shape, p.wide)]
        slopes_of(*arrays, *rows, *numbers, *p.dropped(), out=(arrays[0], back, *slopes))
        if slopes and not alone:
            _add_slopes(slopes[0], part, shared and n > 0)
        if derived is not None:
            products = matmul(query[..., block, :], key[..., seen, :], transpose_b=True)
            _through_score(p, products, back, block, dscore, derived)
        matmul(back, key[..., seen, :], out=dq[..., block, :])
        added: dict[str, Any] = {"transpose_a": True, "beta": int(n > 0)}
        matmul(back, query[..., block, :], out=dk[..., seen, :], **added)
        matmul(arrays[0], above, out=dv[..., seen, :], **added)
