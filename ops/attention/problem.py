"""The arguments of attention, checked, and their blocks of queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim.arrays.array import new_dense, view_of
from clprim.errors import DTypeError, ShapeError
from clprim.ops.attention.score import Score, checked_score
from clprim.ops.product.matmul import matmul
from clprim.ops.shared.checks import dtype_of, real
from clprim.ops.shared.dims import spread
from clprim.plan.strides import broadcasts_to

# Bytes of products that are in memory at a time; with fewer of them keys are packed, and gradients
# in them read again, too often.
BLOCK_BYTES = 8 << 20
# The part of a GPU's largest buffer that they may take instead: its caches hold neither, and a
# block is five launches.
PART = 64
# Of causal attention, at least: a block multiplies keys in vain that its last query alone may see.
BLOCKS = 8


class Problem:
    """The arguments of a call, checked, with groups of queries as a dimension of their own."""

    def __init__(
        self,
        what: str,
        arrays: tuple[Any, Any, Any],
        attn_mask: Any,
        dropout_p: Any,
        is_causal: bool,
        scale: Any,
        enable_gqa: bool,
        any_keys: bool = False,
    ) -> None:
        query, key, value = arrays
        batch, self.groups = _checked(what, query, key, value, enable_gqa, any_keys)
        self.dropout = real(what, "dropout_p", dropout_p)
        if not 0 <= self.dropout <= 1:
            raise ShapeError(f"{what}: dropout_p={dropout_p} is no probability: expected 0 to 1")
        if attn_mask is not None and is_causal:
            raise ShapeError(f"{what}: attn_mask and is_causal=True exclude each other")
        self.mask, self.mask_kind = None, ""
        self.full = (*batch, query.shape[-2], key.shape[-2])
        if attn_mask is not None:
            self.mask_kind, mask = _mask(what, attn_mask, self.full)
            self.mask = self.split(mask)
        self.score: Score | None = None
        self.causal = bool(is_causal)
        size = query.shape[-1]
        self.scale = 1 / math.sqrt(max(1, size)) if scale is None else real(what, "scale", scale)
        self.query, self.key, self.value = self.split(query), self.spread(key), self.spread(value)
        self.dtype = query.dtype
        # Products and sums are calculated in float32 at least.
        self.wide = np.dtype(np.float64 if self.dtype == np.float64 else np.float32)
        row = max(1, math.prod(self.full[:-2]) * self.full[-1] * self.wide.itemsize)
        traits = query.device.traits
        room = BLOCK_BYTES if traits.is_cpu else max(BLOCK_BYTES, traits.max_allocation // PART)
        rows = room // row
        if self.causal:  # half of a block's rows and columns is multiplied in vain
            rows = min(rows, -(-query.shape[-2] // BLOCKS))
        self.rows = max(16, rows)

    def scored(self, what: str, score: Any, args: Any) -> Problem:
        """Returns the same with a string on scores, if there is one."""
        self.score = checked_score(what, score, args, self.full, self.groups, self.split)
        return self

    def split(self, array: Any) -> Any:
        """Heads of queries as (heads of keys, groups); one that all share as (1, 1)."""
        if self.groups == 1:
            return array
        at = array.ndim - 3
        heads = array.shape[at]
        groups = max(1, min(heads, self.groups))
        shape = (*array.shape[:at], heads // groups, groups, *array.shape[at + 1 :])
        step = array.strides[at]
        strides = (*array.strides[:at], step * groups, step, *array.strides[at + 1 :])
        return view_of(array, shape, strides, array.offset)

    def spread(self, array: Any) -> Any:
        """Keys or values with a dimension for the groups, which share them."""
        if self.groups == 1:
            return array
        at = array.ndim - 2
        shape = (*array.shape[:at], 1, *array.shape[at:])
        strides = (*array.strides[:at], 0, *array.strides[at:])
        return view_of(array, shape, strides, array.offset)

    def blocks(self) -> list[slice]:
        """The queries of each block."""
        length = self.full[-2]
        return [slice(n, min(n + self.rows, length)) for n in range(0, length, self.rows)]

    def products(self, block: slice) -> tuple[list[Any], list[float]]:
        """Scores of a block's queries and the keys they see, the mask; and numbers beside them."""
        query = self.query[..., block, :]
        seen = self.seen(block)
        shape = (*query.shape[:-1], seen.stop)
        out = new_dense(shape, self.wide)
        scored: dict[str, Any] = {}
        if self.score is not None:
            args = *self.score.block(block, seen), *self.score.told_to(self.scale, block.start)
            scored = {"epilogue": self.score.epilogue, "epilogue_args": args}
        matmul(query, self.key[..., seen, :], transpose_b=True, out=out, **scored)
        arrays = [out] if self.mask is None else [out, self.mask[..., block, :]]
        numbers: list[float] = [self.scale if self.score is None else 1.0]
        if self.causal:
            numbers.append(block.start)
        return arrays, numbers

    def seen(self, block: slice) -> slice:
        """The keys that queries of a block may see."""
        return slice(0, min(block.stop, self.full[-1]) if self.causal else self.full[-1])

    def dropped(self) -> list[float]:
        """The numbers of dropout."""
        kept = 1 - self.dropout
        return [self.dropout, 1 / kept if kept else 0.0] if self.dropout else []


def _checked(
    what: str, query: Any, key: Any, value: Any, enable_gqa: bool, any_keys: bool
) -> tuple[tuple[int, ...], int]:
    """Returns the dimensions before queries, heads among them, and how many share a key."""
    arrays = {"query": query, "key": key, "value": value}
    dtypes = {dtype_of(what, label, a) for label, a in arrays.items()}
    if any_keys:  # of a cache, which may have fewer bits
        dtypes = {query.dtype}
    if len(dtypes) != 1 or any(d.kind in "biu" for d in dtypes):
        given = ", ".join(str(a.dtype) for a in arrays.values())
        raise DTypeError(f"{what}: query, key, value are {given}: expected one floating dtype")
    if not query.ndim == key.ndim == value.ndim >= 2:
        raise _unfit(what, query, key, value)
    if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        raise _unfit(what, query, key, value)
    groups = 1
    if enable_gqa:
        if query.ndim < 3 or not key.shape[-3] or query.shape[-3] % key.shape[-3]:
            raise ShapeError(
                f"{what}: enable_gqa: heads of query must be a multiple of those of key; "
                f"shapes are {_shapes(query, key, value)}"
            )
        groups = query.shape[-3] // key.shape[-3]
    batch, heads = query.shape[:-2], key.shape[:-2]
    if groups > 1:
        heads = (*heads[:-1], query.shape[-3])
    if batch != heads:
        shared = len(batch) == len(heads) and not batch[-1] % max(heads[-1], 1)
        hint = "; enable_gqa=True lets heads of query share one of key and value"
        raise _unfit(what, query, key, value, hint if shared and not enable_gqa else "")
    return batch, groups


def _mask(what: str, mask: Any, shape: tuple[int, ...]) -> tuple[str, Any]:
    """Returns whether a mask is bool or float, and a view of it in the shape of all products."""
    kind = dtype_of(what, "attn_mask", mask)
    if kind.kind in "iu":
        raise DTypeError(f"{what}: attn_mask is {kind}, expected bool or a floating dtype")
    if not broadcasts_to(mask.shape, shape):
        raise ShapeError(f"{what}: attn_mask of shape {mask.shape} does not broadcast to {shape}")
    return "bool" if kind.kind == "b" else "float", spread(mask, shape)


def _unfit(what: str, query: Any, key: Any, value: Any, hint: str = "") -> ShapeError:
    shapes = _shapes(query, key, value)
    return ShapeError(f"{what}: query, key, value of shapes {shapes} do not fit{hint}")


def _shapes(*arrays: Any) -> str:
    return ", ".join(str(a.shape) for a in arrays)
