"""Layers of language models beside others': weights of 4 bits, one token's attention, models."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Call, Case, Data, Make, Options, Page, into, marked, normal
from bench.cases.language_models import model_tables
from bench.peers import onnx_runtime
from clprim import ops

# Steps of k and outputs of a layer, and rows at a time: one word, some, a prompt.
_LAYERS = ((896, 4864), (2048, 8192), (4096, 4096), (4096, 14336))
_ROWS = (1, 8, 64)
_BLOCK = 32
# Keys of which one token's attention has 14 heads of 64, with 2 heads of keys.
_KEYS = (1024, 4096)
_HEADS, _KEY_HEADS, _SIZE = 14, 2, 64


def _numbers(rows: int, depth: int, outputs: int) -> Data:
    """Rows, codes of 4 bits, the scale of every block, and the weight that these stand for."""
    codes = np.random.default_rng(0).integers(0, 16, (outputs, depth), np.uint8)
    scales = np.abs(normal((outputs, depth // _BLOCK), seed=1)).astype(np.float16)
    spread = np.repeat(scales.astype(np.float32), _BLOCK, axis=1)
    return Data(normal((rows, depth)), codes, scales, (codes - np.float32(8)) * spread)


def _own(data: Data) -> Call:
    # Other checkouts, which `bench compare` asks for other pages, have no such weights.
    from clprim.ops.quantized.formats import BLOCKS
    from clprim.primitives.quantized_weight import QuantizedWeight

    _, codes, scales, _ = data.host
    weight = QuantizedWeight.of(BLOCKS["q4_0"].coding, codes, [scales], "q4_0")
    return into(ops.linear, data.device[0], weight)


def _float32(data: Data) -> Call:
    """The weight is packed once."""
    return into(ops.linear, data.device[0], ops.pack_weight(data.device[3]))


def _pytorch(data: Data) -> Call:
    import torch

    x, _, _, w = data.torch
    return partial(torch.nn.functional.linear, x, w)


def _integers(data: Data) -> Call:
    """Rows are rounded to 8 bits, so that results are others."""
    return marked(onnx_runtime.matmul_nbits(4, data), differs=True)


def language_cases(args: Options) -> list[Case]:
    makers: dict[str, Make] = {
        "clprim": _own,
        "ONNX Runtime": partial(onnx_runtime.matmul_nbits, 1),
        "ONNX Runtime, integers": _integers,
        "clprim, float32": _float32,
        "PyTorch, float32": _pytorch,
    }
    found = []
    for rows in (1, 3) if args.quick else _ROWS:
        group = f"Weights of 4 bits, {rows} row{'s' if rows > 1 else ''}"
        for depth, outputs in ((64, 96),) if args.quick else _LAYERS:
            found.append(
                Case(
                    group,
                    f"{depth}→{outputs}, {rows} row{'s' if rows > 1 else ''}",
                    2 * rows * depth * outputs,
                    partial(_numbers, rows, depth, outputs),
                    makers,
                    expected=_expected,
                    tolerance=1e-4,
                )
            )
    return [*found, *(_attention(keys) for keys in ((40,) if args.quick else _KEYS))]


def _attention(keys: int) -> Case:
    shapes = [(1, _HEADS, 1, _SIZE), *2 * [(1, _KEY_HEADS, keys, _SIZE)]]
    return Case(
        "Attention of one token, 14 heads of 64, 2 of keys",
        f"{keys} keys",
        4 * _HEADS * keys * _SIZE,
        lambda: Data(*(normal(shape, seed=n) for n, shape in enumerate(shapes))),
        {"clprim": _attend, "clprim, float16": _attend_halves, "PyTorch, float32": _attend_pytorch},
        tolerance=1e-4,
    )


def _attend(data: Data, *, dtype: str = "float32") -> Call:
    query, *cache = data.device
    keys, values = (array.astype(dtype) for array in cache)
    length = cp.asarray(np.int32([keys.shape[2]]))
    options = {"is_causal": True, "enable_gqa": True, "length": length}
    return partial(ops.scaled_dot_product_attention, query, keys, values, **options)


def _attend_halves(data: Data) -> Call:
    return marked(_attend(data, dtype="float16"), differs=True)


def _attend_pytorch(data: Data) -> Call:
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    return partial(attend, *data.torch, enable_gqa=True)


def _expected(data: Data) -> Any:
    x, _, _, w = (array.astype(np.float64) for array in data.host)
    return x @ w.T


PAGES = {
    "language": Page(
        "Language models", "GFLOP/s", language_cases, (),
        "Blocks of 32 elements have a scale: Q4_0, and `MatMulNBits` of ONNX Runtime, whose sums "
        "are of float32 (`accuracy_level` 1), or of rows rounded to 8 bits (4).",
        more=model_tables,
    )
}  # fmt: skip
