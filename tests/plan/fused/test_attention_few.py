"""Which calls have the kernel of few queries, and how many slices of keys."""

import dataclasses

import numpy as np
import pytest
from planning import CPU, GPU, array

from clprim.plan.fused.attention_few import FEW, slices_of

LARGE = dataclasses.replace(CPU, local_memory=256 << 10, compute_units=8)


@pytest.mark.parametrize(
    ("heads", "queries", "keys", "size", "traits", "slices"),
    [
        (16, 1, 1000, 64, LARGE, 1),
        (4, FEW, 1000, 64, LARGE, 4),
        (4, 1, 200, 64, LARGE, 2),  # two blocks of keys
        (4, 1, 5, 64, LARGE, 1),
        (4, FEW + 1, 1000, 64, LARGE, 0),
        (4, 1, 1000, 63, LARGE, 0),  # no whole vectors
        (4, 1, 1000, 1 << 14, LARGE, 0),  # no room in local memory
        (4, 1, 1000, 64, GPU, 0),
    ],
)
def test_slices(heads, queries, keys, size, traits, slices):
    q, k = array((heads, queries, size)), array((heads, keys, size))
    assert slices_of(q, k, k, traits) == slices


def test_elements_that_lie_apart_are_not_read_as_vectors():
    q, apart = array((4, 1, 64)), array((4, 100, 64), np.float32, steps=2)
    assert slices_of(q, apart, apart, LARGE) == 0
