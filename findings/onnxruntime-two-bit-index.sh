#!/usr/bin/env bash
# Guess: in ONNX Runtime's MatMulNBits a g_idx that names each column's own block changes nothing of
#   2-bit weights either, or is refused as it is of 8 bits.
# Truth: with a g_idx the CPU provider reads weights of 2 bits as if they had 4, the middle code being
#   8: rows are other numbers, and those of the second half lie behind the end of the tensor.
# Matters: to 2-bit weights of GPTQ with "act order": products are silently others, and contain what
#   lies in memory behind the weight; gather the columns of x instead, and leave g_idx out.
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

ROWS, COLUMNS, BLOCK = 4, 64, 32
codes = np.random.default_rng(0).integers(0, 4, (ROWS, COLUMNS))
pieces = codes.reshape(ROWS, COLUMNS // BLOCK, BLOCK // 4, 4) << np.arange(0, 8, 2)
packed = pieces.sum(-1).astype(np.uint8)
constants = {
    "codes": packed,
    "scales": np.ones(ROWS * COLUMNS // BLOCK, np.float32),
    "order": (np.arange(COLUMNS) // BLOCK).astype(np.int32),
}


def weight(*inputs):
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales", *inputs], ["y"], domain="com.microsoft",
        K=COLUMNS, N=ROWS, bits=2, block_size=BLOCK)
    used = [numpy_helper.from_array(v, n) for n, v in constants.items() if n in node.input]
    shapes = ("x", [COLUMNS, COLUMNS]), ("y", None)
    values = [helper.make_tensor_value_info(n, 1, s) for n, s in shapes]
    graph = helper.make_graph([node], "g", values[:1], values[1:], used)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.eye(COLUMNS, dtype=np.float32)})[0].T


plain, indexed = weight(), weight("", "order")
nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(-1, COLUMNS).astype(int) - 8
print("onnxruntime", onnxruntime.__version__)
print("the weight's first row:", (codes - 2)[0, :8], "of", ROWS, "rows")
print("without g_idx:", plain[0, :8])
print("with the natural g_idx:", indexed[0, :8])
print("its codes as nibbles, less 8:", nibbles[0, :8], "which are", len(nibbles), "rows")
as_described = (
    np.array_equal(plain, codes - 2)
    and np.array_equal(indexed[: len(nibbles)], nibbles)
    and not np.array_equal(indexed, codes - 2)
)
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
