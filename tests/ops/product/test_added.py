"""Products that are added to something, beside PyTorch in float64."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

CASES = {
    "addmm": ((5,), (3, 4), (4, 5)),
    "addmv": ((3,), (3, 4), (4,)),
    "baddbmm": ((3, 5), (2, 3, 4), (2, 4, 5)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)),
    "mm": ((3, 4), (4, 5)),
    "mv": ((3, 4), (4,)),
    "bmm": ((2, 3, 4), (2, 4, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_products(device, name):
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32) for shape in CASES[name]]
    ours = [cp.asarray(a) for a in arrays]
    theirs = [torch.tensor(a, dtype=torch.float64) for a in arrays]
    factors = [{"alpha": 0.5, "beta": 2}, {"beta": 0}] if len(arrays) == 3 else [{}]
    for options in factors:
        expected = getattr(torch, name)(*theirs, **options)
        out = cp.empty(tuple(expected.shape), np.float32)
        found = getattr(ops, name)(*ours, **options, out=out)
        assert found is out
        np.testing.assert_allclose(found.get(), expected.numpy(), rtol=1e-5)


def test_what_is_not_read_and_whole_numbers(device):
    a, b = cp.full((3, 4), 1.0), cp.full((4, 5), 1.0)
    nan = cp.full((3, 5), np.nan)
    assert (ops.addmm(nan, a, b, beta=0).get() == 4).all()
    whole = [cp.full(shape, 2, np.int32) for shape in ((3, 5), (3, 4), (4, 5))]
    assert (ops.addmm(*whole, alpha=3, beta=-1).get() == 46).all()
    with pytest.raises(cp.DTypeError, match="expected integers"):
        ops.addmm(*whole, alpha=0.5)


def test_refusals(device):
    a, b = cp.zeros((2, 3, 4)), cp.zeros((1, 4, 5))
    for message, call in [
        ("batches of 2 and 1 matrices", lambda: ops.bmm(a, b)),
        (r"mm: a has shape \(2, 3, 4\), expected 2 dimensions", lambda: ops.mm(a, b)),
        ("addmv: v has shape", lambda: ops.addmv(a[0, 0], a[0], a[0])),
    ]:
        with pytest.raises(cp.ShapeError, match=message):
            call()
