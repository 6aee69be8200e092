#!/usr/bin/env bash
# Guess: in ONNX Runtime's MatMulNBits a g_idx that names each column's own block says what is so
#   anyway, and changes nothing.
# Truth: with a g_idx the CPU provider leaves packed zero points out and takes 8 for all of them,
#   without an error; zero points that are floats are honoured.
# Matters: to 4-bit weights of GPTQ with "act order" and asymmetric zero points, whose products are
#   silently others than the model's; subtract them from the codes, or store zero points as floats.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "onnxruntime==1.32.0" \
    "onnx==1.23.2" "numpy==2.2.6"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

ROWS, COLUMNS, BLOCK = 3, 64, 32
dice = np.random.default_rng(0)
codes = dice.integers(0, 16, (ROWS, COLUMNS))
zeros = np.array([[3, 12], [5, 1], [15, 7]])
scales = np.ones((ROWS, COLUMNS // BLOCK), np.float32)
x = np.ones((1, COLUMNS), np.float32)
pairs = codes.reshape(ROWS, COLUMNS // BLOCK, BLOCK // 2, 2)
packed = (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8)
constants = {
    "codes": packed,
    "scales": scales.reshape(-1),
    "bytes": (zeros[:, 0] | zeros[:, 1] << 4).astype(np.uint8),
    "floats": zeros.astype(np.float32),
    "order": (np.arange(COLUMNS) // BLOCK).astype(np.int32),
}


def product(*inputs):
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales", *inputs], ["y"], domain="com.microsoft",
        K=COLUMNS, N=ROWS, bits=4, block_size=BLOCK)
    used = [numpy_helper.from_array(v, n) for n, v in constants.items() if n in node.input]
    values = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, COLUMNS]), ("y", None))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], used)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0][0]


def expected(of_columns):
    return (codes - of_columns).sum(1)


wide = np.repeat(zeros, BLOCK, 1)
plain, indexed, floats = product("bytes"), product("bytes", "order"), product("floats", "order")
print("onnxruntime", onnxruntime.__version__)
print("the products:", expected(wide), "and with 8 for all zero points:", expected(8))
print("packed zero points:", plain)
print("packed zero points and the natural g_idx:", indexed)
print("zero points of floats and the natural g_idx:", floats)
as_described = (
    np.allclose(plain, expected(wide))
    and np.allclose(indexed, expected(8))
    and np.allclose(floats, expected(wide))
)
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
