"""Products of float32 in parts of few bits: where three of them have float32's own error.

The scheme by itself, in NumPy; how a device's units round their sums is measured on the device.
"""

import numpy as np
import pytest

from clprim.plan.product.matrix_tile import PARTS_STEPS

ROUNDING = {"tf32": (0x1000, 0xFFFFE000), "bfloat16": (0x8000, 0xFFFF0000)}


def parts(x, kind):
    """The nearest number of few bits, and what it lacks, of which a unit sees as many."""
    half, mask = ROUNDING[kind]
    bits = x.view(np.uint32)
    large = ((bits + np.uint32(half)) & np.uint32(mask)).view(np.float32)
    small = ((x - large).view(np.uint32) & np.uint32(mask)).view(np.float32)
    return large, small


def in_parts(a, b, kind, number):
    """The product of sums in float32, one step of k after another."""
    (large_a, small_a), (large_b, small_b) = parts(a, kind), parts(b, kind)
    pairs = [(small_a, large_b), (large_a, small_b), (large_a, large_b)][3 - number :]
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], 8):
        for left, right in pairs:  # a unit adds eight steps up, then rounds
            exact = left[:, k : k + 8].astype(np.float64) @ right[k : k + 8].astype(np.float64)
            sums = (sums + exact).astype(np.float32)
    return sums


def plain(a, b):
    """The product as kernels of work-items add it up."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        product = a[:, k : k + 1].astype(np.float64) * b[k].astype(np.float64)
        sums = (sums + product).astype(np.float32)  # a fused multiply-add
    return sums


def error(found, a, b):
    """Root mean square error, of every element beside the size of its row and its column."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    sizes = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
    return np.sqrt(np.mean(((found - a @ b) / sizes) ** 2))


def operands(kind, depth, seed=0):
    rng = np.random.default_rng((depth, seed))
    a, b = rng.standard_normal((48, depth)), rng.standard_normal((depth, 40))
    if kind == "positive":
        a, b = abs(a), abs(b)
    if kind == "scaled":  # rows, columns and steps of k of very different sizes
        a *= 10.0 ** rng.uniform(-12, 12, (48, 1)) * 10.0 ** rng.uniform(-3, 3, (1, depth))
        b *= 10.0 ** rng.uniform(-12, 12, (1, 40)) * 10.0 ** rng.uniform(-3, 3, (depth, 1))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("depth", [PARTS_STEPS, 512, 8192])
@pytest.mark.parametrize("kind", ["random", "positive", "scaled"])
def test_three_of_tf32_are_as_exact_as_float32(kind, depth):
    for seed in range(3):
        a, b = operands(kind, depth, seed)
        assert error(in_parts(a, b, "tf32", 3), a, b) <= error(plain(a, b), a, b)


def test_few_steps_are_not():
    """Why products of few steps of k stay with work-items."""
    a, b = operands("random", 2)
    assert error(in_parts(a, b, "tf32", 3), a, b) > error(plain(a, b), a, b)


def test_other_parts_are_what_the_words_admit():
    a, b = operands("random", 512)
    assert error(in_parts(a, b, "tf32", 1), a, b) < 1e-3  # "high"
    assert error(in_parts(a, b, "bfloat16", 3), a, b) < 1e-4
    assert error(in_parts(a, b, "bfloat16", 1), a, b) < 1e-2  # "medium"
