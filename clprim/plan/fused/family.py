"""The strategies of attention, of its gradients, of gates and of inverted residuals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from clprim.dtypes import bfloat16
from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.conv.dense import CPU, GPU, dense_convolution, dense_depthwise
from clprim.plan.conv.lowering import forward
from clprim.plan.depthwise.problem import depthwise_of
from clprim.plan.fused.attention import plan_attention
from clprim.plan.fused.attention_few import FewQueries, plan_attention_few
from clprim.plan.fused.attention_gradient import HeadGradients, plan_attention_gradient
from clprim.plan.fused.attention_matrix import plan_attention_matrix
from clprim.plan.fused.attention_matrix_gradient import plan_attention_matrix_gradient
from clprim.plan.fused.gate import Gate, plan_gate
from clprim.plan.fused.heads import Heads
from clprim.plan.fused.inverted_residual import plan_inverted_residual
from clprim.plan.fused.residual_tiles import InvertedResidual
from clprim.plan.fused.score import Score
from clprim.plan.strategy import Example, Family, single
from clprim.plan.strides import Operand, dense_array
from clprim.plan.units import mma_sync, subgroup_matrix, wmma

_LARGE = replace(CPU, local_memory=256 << 10)
_FLOAT, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# How many keys of a static cache are there, in every text.
_LENGTHS = Operand((2, 1, 1, 1), (4, 0, 0, 0), 0, np.dtype(np.int32))

# Rows of 64 codes, with a number behind them.
_CODES = Operand((2, 3, 50, 64), (3 * 50 * 68, 50 * 68, 68, 1), 0, np.dtype(np.int8))

# A slope and a sink of each head, which all its queries share.
_BIAS = Operand((2, 3, 2, 2), (0, 8, 0, 4), 0, _FLOAT)


def _scored(heads: Any, text: str, *arrays: Operand, **told: str) -> Any:
    """A call with a string that reads arrays."""
    first = 5 if heads.drop_rows else 3 if heads.cached else 1
    score = Score(text, **told, batch=heads.arrays["q"].shape[:-2], first=first)
    named = {f"x{n}": a for n, a in enumerate(arrays)}
    return replace(heads, arrays={**heads.arrays, **named}, score=score)


# Of vectors, and of a number at a time; their derivatives are of what is changed and a gradient.
_ON_VECTORS = "y0 += x0 * (coord(-1) - coord(-2)) + x1 + coord(1);"
_ONE_BY_ONE = "if ((coord(1) + coord(-1)) % 2) y0 = x0 ? w0 * y0 / size(-1) : coord(-2);"
# What they read of scores (2, 3, 50 or 150, as many): a number a head, one a query.
_OF_HEADS = Operand((2, 3, 50, 50), (0, 4, 0, 0), 0, _FLOAT)
_PARTS = Operand((2, 3, 50, 50), (0, 0, 4, 0), 0, np.dtype(np.int32))
_ONES_SLOPE = "y0 = (coord(1) + coord(-1)) % 2 ? x0 ? x2 * w0 / size(-1) : 0 : x2;"


def _apart(array: Operand) -> Operand:
    """The same, every second element of its memory."""
    return replace(array, strides=tuple(2 * s for s in array.strides))


def _examples_attention() -> Iterator[Example[Heads]]:
    """Causal, of heads in one dimension; masks of pairs, keys, queries; doubles that lie apart.

    And a static cache of 16 bits, whose queries see some keys or all, and one of 8 bits, with
    slopes and sinks.
    """
    x, sums = dense_array((2, 3, 50, 64)), dense_array((2, 3, 50, 1))
    whole = (2, 3, 50, 50)
    of_keys = replace(dense_array(whole, dtype=np.bool_), strides=(0, 0, 0, 1))
    of_queries = dense_array(whole, order=(0, 1, 3, 2))
    double, wide = (dense_array(a.shape, dtype=_DOUBLE) for a in (x, sums))
    apart = _apart(double)

    def of(name: str, *arrays: Operand, causal: bool = False, drop: int = 0) -> Example[Heads]:
        named = dict(zip(("q", "k", "v", "y", "sums", "mask"), arrays, strict=False))
        return Example(name, Heads(named, causal, drop), _LARGE)

    yield of("causal", x, x, x, x, sums, causal=True, drop=16)
    yield of("mask", x, x, x, x, sums, dense_array(whole, dtype=np.float16))
    yield of("mask-of-keys", x, x, x, x, sums, of_keys)
    yield of("mask-of-queries", x, x, x, x, sums, of_queries)
    dense = dense_array(whole, dtype=np.bool_)
    yield of("double", apart, apart, apart, double, wide, dense, drop=16)
    half = dense_array(x.shape, dtype=np.float16)
    for name, causal in (("static-cache", True), ("static-cache-whole", False)):
        arrays = {"q": x, "k": half, "v": half, "y": x, "sums": sums, "length": _LENGTHS}
        yield Example(name, Heads(arrays, causal), _LARGE)
    plain = Heads(dict(zip(("q", "k", "v", "y", "sums"), (x, x, x, x, sums), strict=True)))
    yield Example("score", _scored(plain, _ON_VECTORS, _OF_HEADS, dense_array(whole)), _LARGE)
    yield Example("score-one-by-one", _scored(Heads(arrays, True), _ONE_BY_ONE, _PARTS), _LARGE)
    bias = replace(_BIAS, shape=(2, 3, 50, 2))
    more = dict.fromkeys("kv", _CODES) | {"bias": bias}
    yield Example("cache-of-8-bits", Heads({**arrays, **more}, True), _LARGE)


def _examples_matrix() -> Iterator[Example[Heads]]:
    """Causal; masks, bfloat16, an emulated unit; heads that sub-groups share; weights drop out."""
    shape, whole = (2, 3, 150, 64), (2, 3, 150, 150)
    half, brain = np.dtype(np.float16), bfloat16()
    for name, dtype, size, unit, mask, causal in (
        ("causal", half, 64, mma_sync.UNITS[0], None, True),
        ("emulated", brain, 42, mma_sync.UNITS[1].as_emulated(), np.bool_, False),
        ("shared", half, 128, subgroup_matrix.UNITS[0], np.float16, False),
        ("wmma", brain, 63, wmma.EARLIER[1], None, False),
        ("shared-emulated", half, 32, subgroup_matrix.UNITS[0].as_emulated(), None, False),
    ):
        x = dense_array((*shape[:-1], size), dtype=dtype)
        sums = dense_array((*shape[:-1], 1))
        arrays = dict(zip(("q", "k", "v", "y", "sums"), (x, x, x, x, sums), strict=True))
        if mask is not None:
            arrays["mask"] = dense_array(whole, dtype=mask)
        registers = {"shared": 512, "shared-emulated": 384}.get(name, 1024)
        traits = replace(GPU, matrix_units=(unit.name,), register_bytes=registers)
        what = Heads(arrays, causal, 16 if name == "wmma" else 0)
        yield Example(name, what, replace(traits, local_memory=64 << 10))
        if causal:
            yield Example("score", _scored(what, _ONE_BY_ONE, _PARTS), traits)


def _examples_few() -> Iterator[Example[FewQueries]]:
    """Whole; of slices, keys of 16 bits and a mask, or in static caches; doubles."""
    for name, kind, keys, mask, slices in (
        ("plain", None, None, None, 1),
        ("keys-of-16-bits", None, np.float16, np.bool_, 4),
        ("double", _DOUBLE, _DOUBLE, _DOUBLE, 1),
    ):
        own: dict[str, Any] = {} if kind is None else {"dtype": kind}
        stored = own if keys is None else {"dtype": keys}
        few, row = (dense_array((2, 3, 2, n), **own) for n in (64, min(slices, 2)))
        x = dense_array((2, 3, 50, 64), **stored)
        arrays = {"q": few, "k": x, "v": x, "y": few, "sums": row}
        if mask is not None:
            arrays["mask"] = dense_array((2, 3, 2, 50), dtype=mask)
        what = FewQueries(arrays, slices=slices)
        yield Example(name, what, _LARGE)
        if mask is None and kind is None:
            pairs = dense_array((2, 3, 2, 50))
            yield Example("score", _scored(what, _ON_VECTORS, pairs, pairs), _LARGE)
        if slices > 1:
            cached = {n: a for n, a in arrays.items() if n != "mask"} | {"length": _LENGTHS}
            what = FewQueries(cached, slices=slices)
            yield Example("static-cache", what, _LARGE)
            yield Example("score-cache", _scored(what, _ON_VECTORS, pairs, pairs), _LARGE)
            more = dict.fromkeys("kv", _CODES) | {"bias": _BIAS}
            yield Example("cache-of-8-bits", FewQueries({**cached, **more}, slices=slices), _LARGE)


def _examples_gradient() -> Iterator[Example[HeadGradients]]:
    """Causal, weights that drop out; a mask that has a gradient; doubles, and a mask of keys."""
    shape, whole = (2, 3, 50, 64), (2, 3, 50, 50)
    x, sums = dense_array(shape), dense_array((2, 3, 50, 1))
    apart, wide = _apart(dense_array(shape, dtype=_DOUBLE)), dense_array(sums.shape, dtype=_DOUBLE)
    of_keys = replace(dense_array(whole, dtype=np.bool_), strides=(0, 0, 0, 1))
    of_pairs = dense_array(whole, dtype=np.float16)
    of_batches = Operand(whole, (0, 10000, 200, 4), 0, _FLOAT)
    for name, one, column, masks, causal, drop in (
        ("causal", x, sums, {}, True, 16),
        ("mask", x, sums, {"mask": of_pairs, "dmask": of_batches}, False, 0),
        ("double", apart, wide, {"mask": of_keys}, False, 16),
    ):
        if one.dtype.itemsize < 4 or ("dmask" in masks and one.dtype != _FLOAT):
            continue  # gradients are of what sums are, and those of masks float
        arrays = dict.fromkeys(("q", "k", "v", "grad"), one) | {"sums": column, "delta": column}
        what = HeadGradients({**arrays, "dq": one, "dk": one, "dv": one, **masks}, causal, drop)
        tiles = what.tiles(_LARGE)
        assert tiles is not None  # it suits
        rows, room = tiles.partial
        dq = dense_array((2, 3, tiles.slices * rows, room), dtype=one.dtype)
        what = replace(what, arrays={**what.arrays, "dq": dq})
        yield Example(name, what, _LARGE)
        if name == "causal":
            scored = _scored(what, _ON_VECTORS, _OF_HEADS, of_batches, slope="y0 = x3;")
            yield Example("score", scored, _LARGE)
            one_by_one = _scored(what, _ONE_BY_ONE, _PARTS, slope=_ONES_SLOPE)
            yield Example("score-one-by-one", one_by_one, _LARGE)


def _examples_unit_gradient() -> Iterator[Example[HeadGradients]]:
    """Causal, in registers; of masks, through local memory, of which one has a gradient."""
    x = dense_array((2, 3, 150, 64), dtype=np.float16)
    column, whole = dense_array((2, 3, 150, 1)), (2, 3, 150, 150)
    mask, added = (dense_array(whole, dtype=dtype) for dtype in (np.bool_, np.float32))
    arrays = dict.fromkeys(("q", "k", "v", "grad", "dq", "dk", "dv"), x)
    arrays |= {"sums": column, "delta": column}
    emulated = wmma.EARLIER[0].as_emulated()
    for name, unit, masks, causal, drop in (
        ("causal", mma_sync.UNITS[0], {}, True, 0),
        ("emulated", emulated, {"mask": mask}, False, 0),
        ("added", emulated, {"mask": added, "dmask": dense_array(whole)}, False, 16),
    ):
        traits = replace(GPU, matrix_units=(unit.name,), local_memory=64 << 10)
        yield Example(name, HeadGradients({**arrays, **masks}, causal, drop), traits)
    scored = _scored(HeadGradients(arrays), _ONE_BY_ONE, _PARTS, slope=_ONES_SLOPE)
    yield Example("score", scored, traits)


def _examples_gate() -> Iterator[Example[Gate]]:
    """Of both memory formats."""
    texts = "y0 = max(y0, 0);", "y0 = exp(y0);"
    first, second = (define_epilogue("gate", text) for text in texts)
    for name, dtype, order, snippets in (
        ("plain", _FLOAT, (0, 2, 3, 1), (first, second)),
        ("planes", _DOUBLE, (0, 1, 2, 3), (None, None)),
    ):
        inner, rows, channels, y = (
            dense_array(s, dtype=dtype) for s in ((6, 40), (6,), (40,), (2, 40, 1, 1))
        )
        x = dense_array((2, 40, 6, 5), dtype=dtype, order=order)
        yield Example(name, Gate(x, inner, rows, inner, channels, y, *snippets), CPU)


def dense_residual(
    images: int,
    channels: int,
    middle: int,
    outputs: int,
    size: int,
    stride: int,
    *,
    kernel: int = 3,
    expand: bool = True,
    dtype: Any = np.float32,
) -> InvertedResidual:
    """Describes an inverted residual of square channels-last images."""
    options: dict[str, Any] = {"stride": stride, "last": True, "dtype": dtype}
    taps = depthwise_of(dense_depthwise(images, middle, size, kernel, **options))
    assert taps is not None  # it is depthwise
    after = taps.rows.outputs
    first = forward(dense_convolution(images, channels, size, middle, 1, last=True, padding=0))
    last = dense_convolution(images, middle, after, outputs, 1, last=True, padding=0, bias=True)
    return InvertedResidual(first if expand else None, taps, forward(last))


def _examples_residual() -> Iterator[Example[InvertedResidual]]:
    """With an expansion, and with loops over taps."""
    yield Example("", dense_residual(1, 24, 144, 24, 28, 1), _LARGE)
    loops = dense_residual(2, 4, 40, 3, 9, 1, kernel=4, expand=False)
    yield Example("loops", loops, _LARGE)


_UNITS = "matrix units of the heads' 16 bits"
_NEEDS = "a CPU, floats, and a head in local memory"
ATTENTIONS: Family[Heads] = Family(
    "attention",
    None,
    (
        single("fused/attention_matrix", plan_attention_matrix, _examples_matrix, _UNITS),
        single("fused/attention", plan_attention, _examples_attention, _NEEDS),
    ),
)
ATTENTION_FEW: Family[FewQueries] = Family(
    "attention of few queries",
    None,
    (single("fused/attention_few", plan_attention_few, _examples_few, _NEEDS),),
)
ATTENTION_GRADIENTS: Family[HeadGradients] = Family(
    "gradients of attention",
    None,
    (single("fused/attention_gradient", plan_attention_gradient, _examples_gradient, _NEEDS),),
)
ATTENTION_UNIT_GRADIENTS: Family[HeadGradients] = Family(
    "gradients of attention by units",
    None,
    (
        single(
            "fused/attention_matrix_gradient",
            plan_attention_matrix_gradient,
            _examples_unit_gradient,
            _UNITS,
        ),
    ),
)
GATES: Family[Gate] = Family(
    "gate",
    None,
    (single("fused/gate", plan_gate, _examples_gate, "a CPU, and planes or channels in rows"),),
)
RESIDUALS: Family[InvertedResidual] = Family(
    "inverted residual",
    None,
    (
        single(
            "fused/inverted_residual",
            plan_inverted_residual,
            _examples_residual,
            "a CPU, and local memory for some rows",
        ),
    ),
)
