"""What is on the device of ai.onnx.ml, and Det."""

from __future__ import annotations

from typing import Any

import numpy as np

from clprim import ops
from clprim.onnx.operators.elementwise import string
from clprim.onnx.table import handler
from clprim.onnx.values import FLOAT32

_ML = "ai.onnx.ml"


@handler("Binarizer", domain=_ML)
def _binarizer(context: Any, attributes: Any, x: Any) -> Any:
    return string("y0 = x0 > w0 ? 1 : 0;", x.dtype, x, attributes["threshold"])


@handler("Scaler", domain=_ML)
def _scaler(context: Any, attributes: Any, x: Any) -> Any:
    offset, scale = (
        context.device(np.array(attributes[n], np.float32)) for n in ("offset", "scale")
    )
    return string("y0 = (x0 - x1) * x2;", FLOAT32, x, offset, scale)


@handler("Normalizer", domain=_ML)
def _normalizer(context: Any, attributes: Any, x: Any) -> Any:
    x = x.astype(FLOAT32)
    how = attributes["norm"]
    if how == "MAX":
        by = ops.amax(x, x.ndim - 1, keepdims=True)
    elif how == "L1":
        by = ops.sum(ops.abs(x), x.ndim - 1, keepdims=True)
    else:
        by = ops.sqrt(ops.sum(ops.square(x), x.ndim - 1, keepdims=True))
    return string("y0 = x1 == 0 ? x0 : x0 / x1;", FLOAT32, x, by)


@handler("Imputer", domain=_ML)
def _imputer(context: Any, attributes: Any, x: Any) -> Any:
    whole = x.dtype.kind in "iu"
    values = attributes["imputed_value_int64s" if whole else "imputed_value_floats"]
    missing = attributes["replaced_value_int64" if whole else "replaced_value_float"]
    filling = context.device(np.array(values, x.dtype))
    test = "isnan(x0)" if not whole and np.isnan(missing) else "x0 == w0"
    numbers = [missing] if "w0" in test else []
    return string(f"y0 = {test} ? x1 : x0;", x.dtype, x, filling, *numbers)


@handler("LinearRegressor", domain=_ML)
def _linear_regressor(context: Any, attributes: Any, x: Any) -> Any:
    n = attributes["targets"]
    y = _scores(context, attributes, x, n)
    return y if attributes.get("post_transform", "NONE") == "NONE" else _transformed(attributes, y)


def _scores(context: Any, attributes: Any, x: Any, n: int) -> Any:
    w = np.array(attributes["coefficients"], np.float32).reshape(n, -1)
    y = ops.linear(x.astype(FLOAT32), context.device(w))
    bias = attributes.get("intercepts")
    return ops.add(y, context.device(np.array(bias, np.float32))) if bias else y


def _transformed(attributes: Any, y: Any) -> Any:
    how = attributes.get("post_transform", "NONE")
    if how == "LOGISTIC":
        return ops.sigmoid(y)
    return ops.softmax(y, y.ndim - 1) if how == "SOFTMAX" else y
