"""What is on the device of ai.onnx.ml."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32
from clprim.ops.registry import of_onnx

_ML = "ai.onnx.ml"
# Of the last axis by default.
_TRANSFORMS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
_IMPUTER = """replaced_value_int64 replaced_value_float imputed_value_int64s imputed_value_floats"""


def _floats(context: Any, values: Any) -> Any:
    return context.device(np.array(values, np.float32))


@handler("Binarizer", domain=_ML)
def _binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return string("y0 = x0 > w0 ? 1 : 0;", x.dtype, x, threshold)


@handler("Scaler", domain=_ML)
def _scaler(context: Any, x: Any, *, offset: Any, scale: Any) -> Any:
    numbers = _floats(context, offset), _floats(context, scale)
    return string("y0 = (x0 - x1) * x2;", FLOAT32, x, *numbers)


@handler("Normalizer", domain=_ML)
def _normalizer(x: Any, *, norm: str = "MAX") -> Any:
    x, last = x.astype(FLOAT32), x.ndim - 1
    if norm == "MAX":
        by = ops.amax(x, last, keepdims=True)
    else:
        by = ops.sum(ops.abs(x) if norm == "L1" else ops.square(x), last, keepdims=True)
    return string("y0 = x1 == 0 ? x0 : x0 / x1;", FLOAT32, x, ops.sqrt(by) if norm == "L2" else by)


@handler("Imputer", domain=_ML, takes=_IMPUTER)
def _imputer(context: Any, x: Any, **told: Any) -> Any:
    kind = "int64" if x.dtype.kind in "iu" else "float"
    missing, values = told[f"replaced_value_{kind}"], told[f"imputed_value_{kind}s"]
    nan = kind == "float" and math.isnan(missing)
    text = f"y0 = {'isnan(x0)' if nan else 'x0 == w0'} ? x1 : x0;"
    filling = context.device(np.array(values, x.dtype))
    return string(text, x.dtype, x, filling, *([] if nan else [missing]))


@handler("LinearRegressor", domain=_ML)
def _linear_regressor(
    context: Any, x: Any, *, coefficients: Any, targets: int = 1, intercepts: Any = None,
    post_transform: str = "NONE",
) -> Any:  # fmt: skip
    w = context.device(np.array(coefficients, np.float32).reshape(targets, -1))
    y = ops.linear(x.astype(FLOAT32), w)
    y = ops.add(y, _floats(context, intercepts)) if intercepts else y
    known = of_onnx(_TRANSFORMS.get(post_transform, ""))
    return known.function(y) if known else y
