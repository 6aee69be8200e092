"""What public reports ask of sums and products of integers."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")
import clprim.torch  # noqa: E402

RUNNING = [
    ("cumsum", "uint8", [200, 100, 50], [200, 300, 350]),
    ("cumprod", "uint8", [200, 100, 50], [200, 20000, 1000000]),
    ("cumsum", "int8", [100, 100, 50], [100, 200, 250]),
    ("cumsum", "int32", [2**30, 2**30, 5], [2**30, 2**31, 2**31 + 5]),
]


@pytest.mark.parametrize(("name", "dtype", "values", "expected"), RUNNING)
def test_running_sums_of_short_integers_have_64_bits(device, name, dtype, values, expected):
    host = np.array(values, dtype)
    assert getattr(ops, name)(cp.asarray(host), 0).get().tolist() == expected
    found = getattr(torch.from_numpy(host).to("opencl"), name)(0)
    assert found.dtype == torch.int64 and found.tolist() == expected


def test_bools_are_counted(device):
    host = np.ones(128, bool)
    assert ops.cumsum(cp.asarray(host), 0).get()[-1] == ops.sum(cp.asarray(host)).get() == 128
    assert torch.from_numpy(host).to("opencl").cumsum(0)[-1].item() == 128


def test_a_sum_in_a_short_dtype_wraps_and_stays_in_it(device):
    host = np.array([255, 2, 1, 5, 3, 6], np.uint8)
    found = ops.sum(cp.asarray(host), dtype=np.uint8).get()
    assert found.dtype == np.uint8 and found == 16
    there = torch.from_numpy(host).to("opencl").sum(dtype=torch.uint8)
    assert there.dtype == torch.uint8 and there.item() == 16
