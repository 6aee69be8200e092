#!/usr/bin/env bash
# Guess: under torch.compile, list.pop(n) with an integer n that changes between calls does as
#   list[n], del list[n] and list.insert(n, ...) do: the integer is specialised, the code compiled anew.
# Truth: the second value of n ends with InternalTorchDynamoError (a symbolic integer "is not a
#   constant"), whatever the backend; the other three are right.
# Matters: to what pops operands by their positions, as opt_einsum.contract does, and so to Fourier
#   neural operators compiled for a second number of dimensions; dynamic=False keeps it right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "torch==2.13.0" "numpy==2.2.6"
cat >positions.py <<'PYTHON'
import sys

import torch


def by_pop(x, numbers, n):
    found = list(numbers)
    return x + found.pop(n)


def by_index(x, numbers, n):
    found = list(numbers)
    return x + found[n]


def by_del(x, numbers, n):
    found = list(numbers)
    del found[n]
    return x + found[0]


def by_insert(x, numbers, n):
    found = list(numbers)
    found.insert(n, 5.0)
    return x + found[0]


def outcomes(function, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=dynamic)
    x, numbers = torch.ones(1), (1.0, 2.0, 3.0)
    found = []
    for n in range(3):
        try:
            right = torch.equal(compiled(x, numbers, n), function(x, numbers, n))
        except Exception as error:
            found.append(type(error).__name__)
        else:
            found.append("right" if right else "wrong")
    return found


print("torch", torch.__version__)
others = []
for function in (by_pop, by_index, by_del, by_insert):
    usual, static = outcomes(function, None), outcomes(function, False)
    print(f"{function.__name__}: {usual}; with dynamic=False: {static}")
    others += static if function is by_pop else usual + static
popped = outcomes(by_pop, None)
as_described = popped == ["right", *["InternalTorchDynamoError"] * 2] and {*others} == {"right"}
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
venv/bin/python positions.py
