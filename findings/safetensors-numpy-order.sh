#!/usr/bin/env bash
# Guess: safetensors.numpy stores the numbers of an array, in whatever order they lie in memory, or
#   refuses what is not contiguous, as safetensors.torch does.
# Truth: it writes the bytes as they lie, under the array's shape: a transposed array comes back as
#   other numbers, without an error or a warning.
# Matters: to weights taken from NHWC to NCHW (or transposed) by a view and then saved; numpy's own
#   `ascontiguousarray` before `save_file` is what is needed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check "safetensors==0.8.0" "numpy==2.2.6"
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import safetensors
from safetensors.numpy import load, save

weights = np.arange(6, dtype=np.float32).reshape(2, 3).T  # a view of contiguous memory
back = load(save({"weights": weights}))["weights"]
whole = load(save({"weights": np.ascontiguousarray(weights)}))["weights"]
print("safetensors", safetensors.__version__, "numpy", np.__version__)
print("saved:", weights.tolist())
print("loaded:", back.tolist())
print("loaded, where a contiguous copy was saved:", whole.tolist())
as_described = (
    back.shape == weights.shape
    and not np.array_equal(back, weights)
    and np.array_equal(whole, weights)
)
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
