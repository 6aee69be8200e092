"""Derived kernels have the same text in every process, so that the disk cache finds them."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, clprim as cp
from clprim.call import launch
texts, source_of = [], launch.source_of
def noted(template, code):
    texts.append(source_of(template, code))
    return texts[-1]
launch.source_of = noted
x = cp.asarray(np.arange(1, 13, dtype=np.float32).reshape(3, 4))
for first in ("reduce_y0 *= y0;", "reduce_y0 = max(reduce_y0, y0);"):
    product = cp.Reduction(
        "y0 = x0 * x1; y1 = x0 + x1;", init="reduce_y0 = 1; reduce_y1 = 1;",
        step=first + "reduce_y1 *= y1;",
    )
    product.gradient()(x, x, grad=(cp.ones(4), cp.ones(4)), axis=0)
print("".join(texts))
"""


@pytest.mark.alone
def test_hashes_do_not_decide():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(2)
    }
    assert len(found) == 1 and "__kernel" in found.pop()
