"""Sums of products by letters beside NumPy, and equations that do not fit."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

CASES = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("i,j->ij", [(3,), (4,)]),
    ("ij,ij->", [(3, 4), (3, 4)]),
    ("ij->ji", [(3, 4)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (6, 4, 5)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 2)]),
    ("i,ij,j,k->k", [(3,), (3, 4), (4,), (2,)]),
    ("abc,cd,ab->d", [(2, 3, 4), (4, 5), (2, 3)]),
    ("ij,kl->ki", [(3, 4), (2, 5)]),
    ("ij,jk->ik", [(3, 0), (0, 5)]),
]


@pytest.mark.everywhere
@pytest.mark.parametrize("equation, shapes", CASES)
def test_equal_to_numpy(device, equation, shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, s).astype(np.float32) for s in shapes]
    found = ops.einsum(equation, *map(cp.asarray, arrays)).get()
    expected = np.einsum(equation, *(a.astype(np.float64) for a in arrays))
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def test_refusals(device):
    x = cp.zeros((3, 4))
    for message, call in [
        ("2 terms for 1", lambda: ops.einsum("ij,jk", x)),
        ("does not fit", lambda: ops.einsum("ijk", x)),
        ("does not fit", lambda: ops.einsum("i1", x)),
        ("long", lambda: ops.einsum("ij,jk", x, x)),
        ("unknown", lambda: ops.einsum("ij->ik", x)),
        ("two lengths", lambda: ops.einsum("ii", x)),
        ("expected a device array", lambda: ops.einsum("ij", np.zeros((3, 4)))),
        ("expected a string for equation", lambda: ops.einsum(3, x)),
    ]:
        with pytest.raises(cp.ClprimError, match=message):
            call()
