"""Products over any strides and batches as contractions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import cast

from clprim.dtypes import AnyDType
from clprim.errors import ShapeError
from clprim.options import current_options
from clprim.plan.epilogue import Epilogue, Read
from clprim.plan.product.problem import Contraction, Digits, Gathered, Output, Packed
from clprim.plan.strides import (
    Operand,
    broadcast_shapes,
    broadcast_strides,
)


def shapes(
    what: str, a: Operand, b: Operand, transpose_a: bool, transpose_b: bool
) -> tuple[Operand, Operand, tuple[int, ...]]:
    """Returns both operands as (…, M, K) and (…, K, N), and the shape (…, M, N)."""
    if not a.shape or not b.shape:
        raise ShapeError(f"{what}: a {a.shape} and b {b.shape}: expected at least 1 dimension")
    left = _matrix(a, transpose_a, row=True)
    right = _matrix(b, transpose_b, row=False)
    if left.shape[-1] != right.shape[-2]:
        flags = f"transpose_a={transpose_a}, transpose_b={transpose_b}"
        raise ShapeError(
            f"{what}: a {a.shape} and b {b.shape} with {flags}: {left.shape[-1]} columns meet "
            f"{right.shape[-2]} rows"
        )
    try:
        batch = broadcast_shapes(what, [left.shape[:-2], right.shape[:-2]])
    except ShapeError:
        raise ShapeError(
            f"{what}: the batches of a {a.shape} and b {b.shape} do not broadcast together"
        ) from None
    return left, right, (*batch, left.shape[-2], right.shape[-1])


def _matrix(operand: Operand, transpose: bool, *, row: bool) -> Operand:
    shape, strides = operand.shape, operand.strides
    if len(shape) == 1:
        at = 0 if row else 1
        shape = (*shape[:at], 1, *shape[at:])
        strides = (*strides[:at], 0, *strides[at:])
    elif transpose:
        shape = (*shape[:-2], shape[-1], shape[-2])
        strides = (*strides[:-2], strides[-1], strides[-2])
    return Operand(shape, strides, operand.offset, operand.dtype)


def squeeze(shape: tuple[int, ...], a: int, b: int) -> tuple[int, ...]:
    """The shape of the result where an operand had one dimension."""
    kept = shape[:-2]
    kept += () if a == 1 else (shape[-2],)
    return kept if b == 1 else (*kept, shape[-1])


def expand(
    operand: Operand, final: tuple[int, ...], shape: tuple[int, ...], a: int, b: int
) -> Operand:
    """An array that broadcasts to the squeezed result, as one over (…, M, N)."""
    strides = list(broadcast_strides(operand, final))
    batch = len(shape) - 2
    if a == 1:
        strides.insert(batch, 0)
    if b == 1:
        strides.append(0)
    size = operand.dtype.itemsize
    return Operand(shape, tuple(s * size for s in strides), operand.offset, operand.dtype)


def products(
    left: Operand,
    right: Operand,
    shape: tuple[int, ...],
    y: Read,
    epilogue: Epilogue[Read],
    value: AnyDType,
    sizes: tuple[int, int],
    *,
    swap: bool,
) -> tuple[Contraction, ...]:
    """One contraction for every batch that is not part of a regular row of batches.

    Batches that share what is packed are more lanes of one product, and those that share what is
    gathered more outputs, so that neither is read once for each of them.
    """
    batch, k = shape[:-2], left.shape[-1]
    places = (y, *epilogue.arrays)
    operands = [left, right, *(read.operand for read in places)]
    full = [(*batch, *left.shape[-2:]), (*batch, *right.shape[-2:]), *(shape for _ in places)]
    strides = [broadcast_strides(o, s) for o, s in zip(operands, full, strict=True)]
    starts = [o.in_elements(o.offset) for o in operands]
    gathers, packs = (1, 0) if swap else (0, 1)
    row, column = (-1, -2) if swap else (-2, -1)
    inner, lanes, lane = _joined(batch, shape[row], strides, packs, row, 3)
    inner, outputs, output = _joined(batch[:inner], shape[column], strides, gathers, column, 1)
    batch = batch[:inner]
    outer, groups, steps = _grouped(batch, strides)
    products = []
    for place in itertools.product(*(range(size) for size in batch[:outer])):
        at = [
            begin + sum(i * s[d] for d, i in enumerate(place))
            for begin, s in zip(starts, strides, strict=True)
        ]
        a_k, b_k = strides[0][-1], strides[1][-2]
        depth = ((0, 0, b_k), (0, 0, a_k)) if swap else ((0, 0, a_k), (0, 0, b_k))
        first, second = ((operands[i].dtype, at[i], steps[i]) for i in (gathers, packs))
        results = {
            read.name: Output(
                read.name, read.operand.dtype, at[i], steps[i], output[i][-1], lane[i]
            )
            for i, read in enumerate(places, 2)
        }
        products.append(
            Contraction(
                name="matmul",
                groups=groups,
                lanes=lanes,
                depths=(1, 1, k),
                outputs=outputs[-1],
                value=value,
                gathered=Gathered(*first, lane[gathers], depth[0], sizes[gathers]),
                packed=Packed(*second, output[packs][-1], depth[1]),
                y=results["y0"],
                epilogue=epilogue.placed(partial(_of_name, results)),
                precision=current_options().matmul_precision,
            )
        )
    return tuple(products)


def _grouped(
    batch: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> tuple[int, int, list[int]]:
    """Joins trailing batch dimensions that every operand walks as one: groups of a contraction.

    Returned are how many dimensions are left, how many groups there are, and operands' steps.
    """
    groups, steps, outer = 1, [0] * len(strides), len(batch)
    for d in reversed(range(len(batch))):
        if batch[d] > 1:
            pairs = zip(strides, steps, strict=True)
            if groups > 1 and any(s[d] != step * groups for s, step in pairs):
                break
            if groups == 1:
                steps = [s[d] for s in strides]
            groups *= batch[d]
        outer = d
    return outer, groups, steps


def _joined(
    batch: tuple[int, ...],
    count: int,
    strides: Sequence[tuple[int, ...]],
    shared: int,
    axis: int,
    digits: int,
) -> tuple[int, Digits, list[Digits]]:
    """Joins trailing batch dimensions that one operand does not walk to rows, or to columns."""
    sizes, steps = [count], [[s[axis]] for s in strides]
    inner = len(batch)
    for d in reversed(range(len(batch))):
        size = batch[d]
        if size > 1:
            if strides[shared][d]:
                break
            if sizes[0] == 1:
                sizes[0] = size
                for s, step in zip(strides, steps, strict=True):
                    step[0] = s[d]
            elif all(
                s[d] == step[0] * sizes[0] or i == shared
                for i, (s, step) in enumerate(zip(strides, steps, strict=True))
            ):
                sizes[0] *= size
            elif len(sizes) < digits:
                sizes.insert(0, size)
                for s, step in zip(strides, steps, strict=True):
                    step.insert(0, s[d])
            else:
                break
        inner = d
    missing = 3 - len(sizes)
    return (
        inner,
        cast(Digits, (*(1,) * missing, *sizes)),
        [cast(Digits, (*(0,) * missing, *step)) for step in steps],
    )


def _of_name(outputs: dict[str, Output], read: Read) -> Output:
    return outputs[read.name]
