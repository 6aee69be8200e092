"""Windows as columns and back, against PyTorch."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

CASES = [(3, 1, 1, 2), ((2, 3), (2, 1), (0, 1), (1, 2)), (2, 1, 0, 2)]


@pytest.mark.parametrize("args", CASES, ids=str)
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_unfold_and_fold(device, args, memory_format):
    a = numbers((2, 3, 7, 8))
    x = cp.asarray(a, memory_format=memory_format)
    columns = F.unfold(torch.tensor(a), *args)
    y = ops.unfold(x, *args)
    equal(y, columns.numpy(), np.float32)
    equal(ops.fold(y, (7, 8), *args), F.fold(columns, (7, 8), *args).numpy(), np.float32)
    equal(ops.unfold_backward(y, x.shape, *args), F.fold(columns, (7, 8), *args).numpy())
    equal(ops.fold_backward(x, *args), columns.numpy())


def test_fold_of_views(device):
    a = numbers((2, 12, 12))
    part = a[:, ::-1, ::2]
    found = ops.fold(cp.asarray(a)[:, ::-1, ::2], (3, 4), 2)
    equal(found, F.fold(torch.tensor(part.copy()), (3, 4), 2).numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.unfold(x[0], 2), "4 dimensions"),
        (lambda x: ops.unfold(x, 9), "no window"),
        (lambda x: ops.unfold(x, 0), "kernel_size=0"),
        (lambda x: ops.fold(x[0], (5, 5), 2), r"expected x of shape \(N, C · 4, 16\)"),
    ],
)
def test_errors(device, call, message):
    with pytest.raises(cp.ShapeError, match=message):
        call(cp.zeros((1, 2, 4, 4)))
