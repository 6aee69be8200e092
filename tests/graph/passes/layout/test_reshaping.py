"""Elements in other shapes: as NumPy says, where no copy is needed, and None elsewhere."""

import itertools

import numpy as np
import pytest

from clprim.graph.passes.layout.reshaping import reshaped
from clprim.plan.strides import Operand

SHAPES = [
    (24,),
    (2, 12),
    (4, 6),
    (2, 3, 4),
    (1, 24),
    (2, 1, 3, 4),
    (4, 3, 2),
    (24, 1),
    (3, 8),
    (6, 4, 1),
]


def strided(shape):
    """Arrays of a shape: dense, with every order of axes, sliced, and repeated along an axis."""
    for order in itertools.permutations(range(len(shape))):
        base = np.arange(np.prod(shape)).reshape([shape[d] for d in order])
        yield base.transpose(np.argsort(order))
    yield np.arange(2 * np.prod(shape)).reshape(*shape[:-1], -1)[..., ::2]
    yield np.arange(2 * np.prod(shape)).reshape(-1, *shape[1:])[shape[0] :]
    yield np.broadcast_to(np.arange(shape[-1]), shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_strides_are_those_of_numpy(shape):
    for a in strided(shape):
        start = 7
        operand = Operand(a.shape, a.strides, start, a.dtype)
        for other in SHAPES:
            found = reshaped(operand, other)
            try:
                expected = np.reshape(a, other, copy=False)
            except ValueError:
                expected = None
            assert (found is None) == (expected is None), (a.strides, shape, other)
            if expected is not None:
                pairs = zip(found.strides, expected.strides, other, strict=True)
                assert all(s == t for s, t, n in pairs if n != 1) and found.offset == start
    assert reshaped(Operand((4,), (4,), 0, np.dtype("f4")), (5,)) is None
