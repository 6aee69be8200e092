"""What public reports ask of bags of embeddings."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402

F = torch.nn.functional
TABLE = np.arange(16, dtype=np.float32).reshape(4, 4)


def bags(indices, offsets=None, **options):
    """The bags by `clprim.ops`, and on the PyTorch device with the table's gradient."""
    given = [None if a is None else np.asarray(a, np.int64) for a in (indices, offsets)]
    numbers, begins = (None if a is None else cp.asarray(a) for a in given)
    own = {n: v for n, v in options.items() if n != "scale_grad_by_freq"}
    y = ops.embedding_bag(numbers, cp.asarray(TABLE), begins, **own).get()
    table = torch.tensor(TABLE, device="opencl", requires_grad=True)
    tensors = [None if a is None else torch.tensor(a, device="opencl") for a in given]
    there = F.embedding_bag(tensors[0], table, tensors[1], **options)
    there.sum().backward()
    np.testing.assert_array_equal(there.tolist(), y)
    return y.tolist(), table.grad.tolist()


def test_the_last_offset_ends_the_last_bag(device):
    y, _ = bags([0, 1, 2], [0, 2], mode="sum", include_last_offset=True)
    assert y == [[4, 6, 8, 10]]


def test_gradients_are_divided_by_how_often_a_row_is_read(device):
    _, grad = bags([0, 0, 1], [0], mode="sum", scale_grad_by_freq=True)
    assert grad == [[1] * 4, [1] * 4, [0] * 4, [0] * 4]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_of_nothing_is_zeros(device, mode):
    y, grad = bags([1], [0, 0, 1], mode=mode)
    assert y == [[0] * 4, [4, 5, 6, 7], [0] * 4]
    assert grad == [[0] * 4, [1] * 4, [0] * 4, [0] * 4]
    assert bags([], [0, 0], mode=mode) == ([[0] * 4] * 2, [[0] * 4] * 4)


def test_padding_does_not_count_for_the_mean(device):
    y, grad = bags([[0, 1, 3], [3, 3, 3]], mode="mean", padding_idx=3)
    assert y == [[2, 3, 4, 5], [0] * 4]
    assert grad == [[0.5] * 4, [0.5] * 4, [0] * 4, [0] * 4]


def test_a_negative_number_is_no_row():
    """An error would wait for the device, which reads zeros instead."""
    table = torch.tensor(TABLE, device="opencl")
    found = F.embedding_bag(torch.tensor([[0, -1]], device="opencl"), table, mode="sum")
    assert found.tolist() == [[0, 1, 2, 3]]
    assert F.embedding(torch.tensor([-1], device="opencl"), table).tolist() == [[0] * 4]
