#!/usr/bin/env bash
# Guess: embedding_bag(scale_grad_by_freq=True) divides the gradient of a row by how often that row
#   occurs among the indices, as embedding does and as its documentation says.
# Truth: on the CPU the count is that of another index, so that a row that occurs once may get a
#   third of its gradient and one that occurs three times more than it should.
# Matters: to EmbeddingBag layers that are trained on the CPU, and to who takes the CPU's gradients
#   for the reference of another device; embedding followed by a sum is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "torch==2.13.0" "numpy==2.2.6"
venv/bin/python - <<'PYTHON'
import sys

import torch
from torch.nn import functional as F

indices = torch.tensor([1, 1, 2, 5, 2, 2])


def gradient(of_weight):
    weight = torch.zeros(6, 1, requires_grad=True)
    of_weight(weight).sum().backward()
    return weight.grad.flatten()


def bag(weight):
    return F.embedding_bag(
        indices, weight, torch.tensor([0]), mode="sum", scale_grad_by_freq=True)


rows = gradient(lambda w: F.embedding(indices, w, scale_grad_by_freq=True))
bags = gradient(bag)
print("torch", torch.__version__)
print("rows 1, 2 and 5 occur 2, 3 and 1 times; the sum of each one's gradients, by its count: 1")
print("embedding:    ", rows.tolist())
print("embedding_bag:", bags.tolist())
ones = torch.tensor([0.0, 1, 1, 0, 0, 1])
as_described = torch.allclose(rows, ones) and not torch.allclose(bags, ones)
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
