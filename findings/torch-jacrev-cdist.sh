#!/usr/bin/env bash
# Guess: torch.func.jacrev gives the Jacobian of torch.cdist, whether it goes row by row
#   (chunk_size=1) or by all rows at once, as it does by default.
# Truth: by all rows at once the result is wrong, without an error: where only the gradient has a
#   batch, its entries are added up over that batch.
# Matters: to Jacobians, Hessians and per-sample gradients through distances (kernels of Gaussian
#   processes, k-NN losses); chunk_size=1, or distances by elementwise operators, are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "torch==2.13.0" "numpy==2.2.6"
venv/bin/python - <<'PYTHON'
import sys

import torch
from torch.func import jacrev

torch.manual_seed(0)
x = torch.rand(3, 2, dtype=torch.float64)
y = torch.rand(4, 2, dtype=torch.float64)


def distances(x):
    return torch.cdist(x, y)


exact = torch.zeros(3, 4, 3, 2, dtype=torch.float64)
for i in range(3):
    exact[i, :, i] = (x[i] - y) / distances(x)[i, :, None]
errors = {
    name: float((jacrev(distances, chunk_size=size)(x) - exact).abs().max())
    for name, size in (("all rows at once", None), ("row by row", 1))
}
print("torch", torch.__version__)
print("largest error of the Jacobian, whose entries are at most 1:", errors)
as_described = errors["all rows at once"] > 0.1 and errors["row by row"] < 1e-12
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
