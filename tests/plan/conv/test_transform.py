"""The algebra of Winograd's convolutions is exact, and its errors are what it says."""

import itertools
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from clprim.plan.conv.winograd.tile import OUTPUTS, TAPS, winograd_error
from clprim.plan.conv.winograd.transform import Linear, Transform, relative_error, transform

CASES = [(m, r, 1) for r in (1, 2, 3, 5) for m in range(1, 9) if 1 <= m + r - 2 <= 8]
CASES += [(m, r, s) for m in (2, 3, 4) for r in range(1, 8) for s in (2, 3) if r == 1 or r >= s]


def _numbers(random_: random.Random, count: int) -> list[Fraction]:
    return [Fraction(random_.randint(-99, 99), random_.randint(1, 9)) for _ in range(count)]


@pytest.mark.parametrize(("m", "r", "stride"), CASES)
def test_the_transforms_give_the_correlation_exactly(m: int, r: int, stride: int) -> None:
    t = transform(m, r, stride)
    random_ = random.Random(m * 10 + r)
    taps, inputs = _numbers(random_, r), _numbers(random_, t.reads)
    assert (t.reads, t.step) == (stride * (m - 1) + r, stride * m)
    assert t.size <= t.reads  # of a stride no more products than inputs
    u = Linear.of(t.weight, "g", "u").run(taps)
    v = Linear.of(t.input, "d", "v").run(inputs)
    y = Linear.of(t.output, "p", "y").run([u[n] * b for n, b in zip(t.shares, v, strict=True)])
    assert y == [sum(inputs[stride * i + k] * taps[k] for k in range(r)) for i in range(m)]


@pytest.mark.parametrize(("m", "size", "weights"), [(2, 5, 4), (3, 7, 5), (4, 9, 6)])
def test_a_phase_of_one_tap_has_one_weight(m: int, size: int, weights: int) -> None:
    t = transform(m, 3, 2)
    assert (t.size, t.weights) == (size, weights)
    assert list(t.shares) == sorted(t.shares)
    assert transform(m, 5, 2).weights == transform(m, 5, 2).size


@pytest.mark.parametrize(("m", "r", "stride"), CASES)
def test_factors_of_data_are_exact_in_float32(m: int, r: int, stride: int) -> None:
    t = transform(m, r, stride)
    for row in (*t.input, *t.output):
        assert all(Fraction(float(np.float32(float(f)))) == f for f in row)


def test_pairs_of_points_share_their_sums() -> None:
    def count(m: int, r: int, stride: int = 1) -> list[int]:
        t = transform(m, r, stride)
        matrices = ((t.weight, "g", "u"), (t.input, "d", "v"), (t.output, "p", "y"))
        return [Linear.of(*names).operations for names in matrices]

    assert count(2, 3) == [5, 4, 4]  # of 6, 4 and 4 row by row
    assert count(4, 3) == [8, 12, 10]  # 10, 16 and 14
    assert count(2, 5) == [12, 12, 8]  # 18, 16 and 8
    assert count(4, 3, 2) == [6, 15, 12]  # what is only copied counts as one


def _product(matrix: object, axis: int, array: np.ndarray) -> np.ndarray:
    """The transform along an axis, in float32, each sum rounded as kernels round it."""
    factors = np.array([[float(f) for f in row] for row in matrix], np.float32)
    moved = np.moveaxis(array, axis, 0)
    found = []
    for row in factors:
        total = np.zeros(moved.shape[1:], np.float32)
        for f, values in zip(row, moved, strict=True):
            total = total + f * values
        found.append(total)
    return np.moveaxis(np.array(found), 0, axis)


def _transforms(m: int, taps: tuple[int, int], stride: int) -> list[Transform]:
    return [transform(m if r > 1 else 1, r, stride) for r in taps]


def _error(
    m: int, taps: tuple[int, int], x: np.ndarray, w: np.ndarray, stride: int = 1, chain: int = 0
) -> float:
    """The error of tiles x, of channels, and filters w, of channels, relative to the result."""
    down, across = _transforms(m, taps, stride)
    v = _product(across.input, 3, _product(down.input, 2, x))
    u = _product(across.weight, 3, _product(down.weight, 2, w))
    u = u[:, :, list(down.shares)][..., list(across.shares)]
    earlier = total = np.zeros((len(w), *v.shape[1:]), np.float32)
    for k, image in enumerate(v):  # the product is not rounded, as in a fused multiply-add
        products = image.astype(np.float64) * u[:, k, None]
        total = (total.astype(np.float64) + products).astype(np.float32)
        if chain and (k + 1) % chain == 0:
            earlier, total = earlier + total, np.zeros_like(total)
    total = earlier + total if chain else total
    y = _product(across.output, 3, _product(down.output, 2, total)).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), taps, (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    expected = np.einsum("ctyxij,ocij->otyx", windows, w.astype(np.float64), optimize=True)
    return float(np.sqrt(np.mean((y - expected) ** 2) / np.mean(expected**2)))


@pytest.mark.parametrize(
    ("m", "r", "stride"),
    [(2, 3, 1), (4, 3, 1), (6, 3, 1), (2, 5, 1), (4, 2, 1), (2, 3, 2), (4, 3, 2), (4, 5, 2)],
)
@pytest.mark.parametrize(("channels", "chain"), [(16, 0), (256, 0), (16, 4), (256, 64)])
def test_errors_are_what_they_are_stated_to_be(
    m: int, r: int, stride: int, channels: int, chain: int
) -> None:
    t = transform(m, r, stride)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((channels, 100, t.reads, t.reads)).astype(np.float32)
    w = rng.standard_normal((1, channels, r, r)).astype(np.float32)
    stated = relative_error(t, t, channels, 2.0**-24, chain=chain or None, random_taps=True)
    assert stated / 1.5 < _error(m, (r, r), x, w, stride, chain) < stated


# Inputs and taps of a channel: such as follow a ReLU, have a mean, or blur.
KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "random": (np.random.Generator.standard_normal, np.random.Generator.standard_normal),
    "uniform": (np.random.Generator.random, np.random.Generator.standard_normal),
    "relu": (lambda g, s: np.maximum(g.standard_normal(s), 0), lambda g, s: g.uniform(-1, 1, s)),
    "shifted": (lambda g, s: g.standard_normal(s) + 3, np.random.Generator.standard_normal),
    "blur": (np.random.Generator.standard_normal, np.random.Generator.random),
    "mean": (np.random.Generator.standard_normal, lambda g, s: np.ones(s)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_window_and_tile_has_a_larger_error_than_is_stated(kind: str) -> None:
    inputs, factors = KINDS[kind]
    channels, found = 24, {}
    for stride, taps in [
        *((1, taps) for taps in itertools.product(TAPS, TAPS)),
        *((2, taps) for taps in itertools.product((1, 3, 4, 5, 6), repeat=2)),
    ]:
        for m in OUTPUTS[-(-max(taps) // stride)] if taps != (1, 1) else ():
            down, across = _transforms(m, taps, stride)
            rng = np.random.default_rng(0)
            x = inputs(rng, (channels, 50, down.reads, across.reads)).astype(np.float32)
            w = factors(rng, (8, channels, *taps)).astype(np.float32)
            stated = winograd_error(down, across, channels, np.dtype(np.float32))
            found[m, taps, stride] = _error(m, taps, x, w, stride) / stated
    assert not {key: ratio for key, ratio in found.items() if ratio > 1}
