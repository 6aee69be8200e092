"""What `explain` prints, and what measuring leaves as it is."""

import re

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError

pytestmark = pytest.mark.usefixtures("device", "peaks")


def array(*shape, seed=0):
    return cp.asarray(numbers(shape, seed=seed).astype(np.float32))


def test_kernels_bytes_operations_formats_and_memory():
    def function(x, w):
        return ops.softmax(ops.conv2d(ops.relu(x).transpose(0, 3, 1, 2), w, padding=1), 1)

    x, w = array(2, 6, 7, 4), array(5, 4, 3, 3, seed=1)
    text = cp.jit(function).explain(x, w)
    for part in ("conv2d", "MiB", "Mflop", "channels_last", "test_explain.py", "with inputs"):
        assert part in text
    assert "% of peak" not in text


def test_measured_kernels_have_time_and_share():
    compiled = cp.jit(lambda x: ops.softmax(x, 0))
    x = array(300, 500)
    text = compiled.explain(x, measure=True)
    rows = [line for line in text.splitlines() if re.match(r"\d+ +softmax", line)]
    kernels = compiled.graph(x).nodes[0].plan.stages
    assert len(rows) == len(kernels)
    assert all(re.search(r"\d+\.\d +\d+ (bytes|flops)", row) for row in rows)
    assert "µs on the device; its peaks: copy 8.0 GB/s" in text


def test_measuring_changes_nothing():
    total, x = cp.zeros(3, np.float32), array(3)

    @cp.jit
    def function(x):
        x *= 2
        total[...] += x
        return cp.random.uniform((4,))

    before = x.get()
    cp.random.seed(11)
    function.explain(x, measure=True)
    equal(x, before)
    equal(total, np.zeros(3, np.float32))
    found = function(x).get()
    equal(total, 2 * before)
    cp.random.seed(11)
    equal(cp.random.uniform((4,)), found)


def test_what_cannot_be_measured_is_refused():
    @cp.jit(fallback=True)
    def splits(x):
        return x + 1 if float(x.sum().get()) > 0 else x

    splits(array(3))
    with pytest.raises(ClprimError, match="several graphs"):
        splits.explain(array(3), measure=True)
    with pytest.raises(ClprimError, match="measure"):
        splits.explain(array(3), measure="yes")


def reasons(function, *given):
    text = cp.jit(function).explain(*given)
    return [line for line in text.splitlines() if "stands alone" in line]


def test_why_elementwise_kernels_stand_alone(device):
    x = cp.asarray(np.float32([[1, 2], [3, 4]]))

    def function(x):
        y = ops.cumsum(x, 1)
        return ops.exp(y), ops.cumsum(y, 0)

    (line,) = reasons(function, x)
    assert line.endswith("stands alone: t0 is read by 2 kernels; t1 is a result")
    (line,) = reasons(lambda x: ops.cumsum(ops.exp(x), 0), x)
    assert line.endswith("stands alone: a0 is given; cumsum reads t0 from memory")
    (line,) = reasons(lambda x: ops.cumsum(x, 0) * 2, x)
    assert line.endswith("stands alone: cumsum takes no string of this kind; t0 is a result")
    assert not reasons(lambda x: ops.relu(ops.matmul(x, x)), x)
