"""Fourier transforms of pairs against NumPy in float64."""

import dataclasses
import math

import numpy as np
import pytest

import clprim as cp
from clprim.arrays.memory import operand_of
from clprim.call.primitive import NoPlanError, Request, built, sources
from clprim.plan.fourier.lengths import convolution_length, recipe, split, table_of
from clprim.primitives.fourier import Options, _fourier, transform

RNG = np.random.default_rng(0)
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 22, 26, 47, 49, 60, 97, 128, 210, 509, 1000)
LONG = (1009, 1024, 1155, 1499, 2047, 2048, 2050, 4093, 4096, 9973, 65536, 100_003, 2**20)


def drawn(*shape):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def plain(n, axis, **changed):
    found = Options(n, axis, inverse=False, kept=n, half=False, real=False, pairs=True)
    return found._replace(**changed)


def check(found, expected):
    """The error that rounding of so many steps makes."""
    found = found[..., 0] + 1j * found[..., 1]
    error = np.sqrt(np.mean(abs(found - expected) ** 2) / np.mean(abs(expected) ** 2))
    assert found.shape == expected.shape
    assert error <= 4e-7 * max(1, math.log2(expected.shape[-1]))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("lines", [1, 3, 40])
def test_lengths(device, n, lines):
    z = drawn(lines, n)
    x = cp.asarray(pairs(z))
    check(transform(x, plain(n, 1), 1.0).get(), np.fft.fft(z.astype(complex)))
    found = transform(x, plain(n, 1, inverse=True), 1 / n)
    check(found.get(), np.fft.ifft(z.astype(complex)))


@pytest.mark.parametrize("n", LONG)
def test_long_lines(device, n):
    lines = 20 if n < 3000 else 1
    z = drawn(lines, n)
    check(transform(cp.asarray(pairs(z)), plain(n, 1), 1.0).get(), np.fft.fft(z.astype(complex)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_and_strides(device, axis):
    z = drawn(20, 30, 24)
    given = cp.asarray(pairs(z))
    views = (given, given[::-1, ::2], given.transpose(1, 2, 0, 3), given[3:, :, :20])
    for x in views:
        n = x.shape[axis]
        host = x.get()
        expected = np.fft.fft(host[..., 0].astype(float) + 1j * host[..., 1], axis=axis)
        check(transform(x, plain(n, axis), 1.0).get(), expected)


@pytest.mark.parametrize("n", [12, 34, 2048])
@pytest.mark.parametrize("have", [5, 20, 3000])
def test_padding_and_fewer_results(device, n, have):
    z = drawn(19, have)
    x = cp.asarray(pairs(z))
    expected = np.fft.fft(z.astype(complex), n)
    check(transform(x, plain(n, 1, kept=7), 1.0).get(), expected[:, :7])
    z, x = z.T, cp.asarray(pairs(z.T))
    check(transform(x, plain(n, 0, kept=7), 1.0).get(), expected[:, :7].T)


@pytest.mark.parametrize("n", [1, 2, 7, 30, 34, 47, 94, 2048, 4096, 2 * 4099])
@pytest.mark.parametrize("axis", [0, 1])
def test_real_numbers_there_and_back(device, n, axis):
    shape = (n, 37) if axis == 0 else (37, n)
    x = RNG.normal(size=shape).astype(np.float32)
    options = plain(n, axis, kept=n // 2 + 1)
    y = transform(cp.asarray(x[..., None]), options, 1.0)
    check(y.get(), np.fft.rfft(x.astype(float), axis=axis))
    options = plain(n, axis, inverse=True, half=True, real=True)
    back = transform(y, options, 1 / n).get()[..., 0]
    np.testing.assert_allclose(back, x, atol=3e-6)


def test_float64(device):
    if not device.traits.fp64:
        pytest.skip("no float64")
    z = RNG.normal(size=(20, 60)) + 1j * RNG.normal(size=(20, 60))
    found = transform(cp.asarray(pairs(z)), plain(60, 1), 1.0).get()
    np.testing.assert_allclose(found, pairs(np.fft.fft(z)), rtol=1e-13, atol=1e-13)


def of_a_gpu(device):
    told = {"is_cpu": False, "local_memory": 32768, "cache_bytes": 1 << 20}
    return dataclasses.replace(device.traits, **told)


def as_on_a_gpu(device, x, options, scale=1.0):
    """What GPUs run, by their traits."""
    traits = of_a_gpu(device)
    problem = _fourier.problem(Request((x, x), (scale,), (), options), device)
    what = problem.transform
    made = recipe(what.n, what.count, 4, traits, what.halved)
    table = table_of(made, options.inverse).view(np.float64).astype(np.float32)
    plan = _fourier.plan(problem, traits)
    assert plan.choice.strategy == "fourier/lines"
    call = built(device, _fourier, problem, plan, problem.results)
    (y,) = call.allocate(device)
    call.run(device, (y, x, cp.asarray(table)), (scale,), {})
    return y.get()


@pytest.mark.parametrize("n", [1, 5, 8, 47, 60, 97, 1009, 1024, 4096, 4099])
@pytest.mark.parametrize("lines", [1, 21])
def test_work_groups_share_a_line(device, n, lines):
    z = drawn(lines, n)
    x = cp.asarray(pairs(z))
    check(as_on_a_gpu(device, x, plain(n, 1)), np.fft.fft(z.astype(complex)))
    found = as_on_a_gpu(device, x, plain(n, 1, inverse=True), 1 / n)
    check(found, np.fft.ifft(z.astype(complex)))


@pytest.mark.parametrize("n", [2**18, 3**7 * 70])
def test_work_groups_have_neighbouring_columns_of_long_lines(device, n):
    """By kernels that read as much of a row together; of many roots two make one."""
    z = drawn(1, n)
    x = cp.asarray(pairs(z))
    check(as_on_a_gpu(device, x, plain(n, 1)), np.fft.fft(z.astype(complex)))
    found = as_on_a_gpu(device, x, plain(n, 1, inverse=True), 1 / n)
    check(found, np.fft.ifft(z.astype(complex)))
    problem = _fourier.problem(Request((x, x), (1.0,), (), plain(n, 1)), device)
    codes = [stage.code for stage in _fourier.plan(problem, of_a_gpu(device)).stages]
    assert len(codes) > 1 and {code.beside for code in codes} == {8}
    assert [code.fine > 0 for code in codes] == [True] + [False] * (len(codes) - 1)
    assert all((code.x, code.y) == ("pairs", "pairs") for code in codes[1:-1])


@pytest.mark.parametrize("n", [2, 60, 94, 97, 4096])
def test_work_groups_share_real_lines(device, n):
    x = RNG.normal(size=(21, n)).astype(np.float32)
    found = as_on_a_gpu(device, cp.asarray(x[..., None]), plain(n, 1, kept=n // 2 + 1))
    check(found, np.fft.rfft(x.astype(float)))
    options = plain(n, 1, inverse=True, half=True, real=True)
    back = as_on_a_gpu(device, cp.asarray(found), options, 1 / n)[..., 0]
    np.testing.assert_allclose(back, x, atol=3e-6)


@pytest.mark.parametrize("n", [1, 8, 15, 19, 47, 60, 4096])
@pytest.mark.parametrize("axis", [0, 1])
def test_results_in_the_place_of_what_is_read(device, n, axis):
    """Where tiles of lines do not overlap, and a kernel reads a line before it writes it."""
    z = drawn(*((n, 64) if axis == 0 else (64, n)))
    x, table = cp.asarray(z), cp.zeros(1)
    options = plain(n, axis)._replace(pairs=False)
    expected = np.fft.fft(z.astype(complex), axis=axis)
    assert transform(x, options, 1.0, outs=(x,)) is x
    check(pairs(x.get()), expected)
    outs = [operand_of(x)]
    few = _fourier.problem(Request((*outs, operand_of(table)), (1.0,), (*outs,), options), device)
    assert few.transform.in_place
    apart = Request((*outs, operand_of(table)), (1.0,), (operand_of(cp.asarray(z)),), options)
    assert not _fourier.problem(apart, device).transform.in_place


def test_lines_that_do_not_fill_tiles_are_not_written_over(device):
    lanes = device.traits.lanes(4)
    x = cp.asarray(drawn(2 * lanes + 1, 8))
    with pytest.raises(NoPlanError):
        transform(x, plain(8, 1)._replace(pairs=False), 1.0, outs=(x,))
    with pytest.raises(NoPlanError):
        transform(x, plain(16, 1)._replace(pairs=False), 1.0, outs=(x,))


@pytest.mark.parametrize("lines", [1, 40])
def test_lengths_that_are_convolved_alike_share_kernels(device, lines):
    def texts(n, **changed):
        x = cp.zeros((lines, n, 1), np.float32)
        return sources(_fourier, (x, x), (1.0,), options=plain(n, 1, **changed))

    assert len({convolution_length(n) for n in (451, 453, 457)}) == 1
    assert len({texts(n) for n in (451, 453, 457)}) == 1
    pairs = [2 * n for n in (451, 453, 457)]
    assert len({texts(n, kept=n // 2 + 1) for n in pairs}) == 1


@pytest.mark.parametrize("n", [2**22, 3**12, 2**10 * 13, 2 * 13**5])
def test_lengths_are_split_evenly(n):
    found = split(n, 1024)
    assert math.prod(found) == n and max(found) <= 1024 and len(found) <= 3
