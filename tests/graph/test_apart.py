"""What `explain` says of elementwise kernels that no other kernel runs."""

import numpy as np

import clprim as cp
from clprim import ops


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
