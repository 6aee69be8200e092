"""Memory shared and passed on: NumPy's and PyTorch's views, DLPack, lifetimes, order of writes."""

import gc

import numpy as np
import pytest
from support import BFLOAT16, DTYPES, aligned, equal, numbers

import clprim as cp
from clprim.arrays import exchange
from clprim.arrays.host import host_view
from clprim.errors import DeviceError, DTypeError, ExchangeError
from clprim.graph.repeat import repeatable

pytestmark = pytest.mark.usefixtures("unoptimised")


@pytest.fixture
def shared(device):
    """A device that computes in the host's memory; CPU runtimes do, Mesa's may not."""
    if host_view(cp.zeros(4)) is None:
        assert device.type != "cpu" or "rusticl" in device.platform.lower()
        pytest.skip("this device has memory of its own")
    return device


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_numpy_sees_the_memory_itself(shared, dtype):
    a = numbers((4, 5), dtype)
    x = cp.asarray(a)
    view = np.asarray(x)
    assert view.dtype == dtype
    np.testing.assert_array_equal(view, a)
    view[1, 2] = 1
    a[1, 2] = 1
    equal(x, a)
    x[2] = 0
    cp.synchronize()
    a[2] = 0
    np.testing.assert_array_equal(view, a)
    assert np.shares_memory(view, np.asarray(x.T))


def test_views_are_seen_in_place(shared):
    a = numbers((4, 5, 6))
    x = cp.asarray(a)
    for index in (np.s_[::2, ::-1], np.s_[1], np.s_[:, 1:3, ::-2], np.s_[..., None]):
        np.testing.assert_array_equal(np.asarray(x[index]), a[index])
        assert np.asarray(x[index]).strides == a[index].strides
    x = cp.asarray(numbers((2, 3, 4, 5)), memory_format="channels_last")
    assert np.asarray(x).strides == x.strides
    assert np.array(x, copy=False).flags.writeable
    assert not np.shares_memory(np.array(x), np.asarray(x))
    assert np.asarray(x, np.float64).dtype == np.float64
    with pytest.raises(ExchangeError, match="without a copy"):
        np.array(cp.zeros((0, 3)), copy=False)


def test_what_is_launched_is_done_before_anybody_looks(shared):
    x = cp.zeros(1 << 18)
    for n in range(1, 40):
        x += 1
        assert np.asarray(x)[[0, -1]].tolist() == [n, n]


def test_memory_lives_as_long_as_who_sees_it(shared):
    view = np.asarray(cp.asarray(numbers(1 << 16)))
    last = view[100:]
    del view
    gc.collect()
    others = [cp.full(1 << 16, 77.0) for _ in range(8)]  # would get that memory
    np.testing.assert_array_equal(last, numbers(1 << 16)[100:])
    del others


def test_a_host_that_looks_is_no_launch_to_repeat(shared):
    double = cp.Pointwise("y0 = 2 * x0;")

    @repeatable
    def looks(x):
        y = double(x)
        np.asarray(y)[0] = 5  # written from outside: no launch shows it
        return double(y)

    for _ in range(3):
        equal(looks(cp.full(3, 1.0)), [10, 4, 4])


def test_dlpack_of_numpy(device):
    a = aligned((4, 5))
    a[...] = numbers((4, 5))
    x = cp.from_dlpack(a)
    equal(x, a)
    if host_view(x) is not None:
        x *= 2
        cp.synchronize()
        np.testing.assert_array_equal(a, 2 * numbers((4, 5)))
        a[0] = 9
        equal(x, a)
        back = np.from_dlpack(x)
        assert np.shares_memory(back, a)
    equal(cp.from_dlpack(a, copy=True), a)
    equal(cp.from_dlpack(aligned((64,))[1:]), np.zeros(63))  # not aligned: copied
    with pytest.raises(DeviceError, match=r"not aligned|does not share"):
        cp.from_dlpack(aligned((64,))[1:], copy=False)
    assert cp.from_dlpack(x) is x
    with pytest.raises(DTypeError, match=r"__dlpack__, got list; cp\.asarray"):
        cp.from_dlpack([1, 2])
    with pytest.raises((DTypeError, ExchangeError), match=r"complex|dtype"):
        cp.from_dlpack(np.zeros(3, np.clongdouble))


def test_dlpack_says_where_memory_is(shared):
    assert cp.zeros(3).__dlpack_device__() == (1, 0)
    for version in (None, (1, 0)):
        capsule = cp.zeros(3).__dlpack__(max_version=version)
        assert "dltensor" in repr(capsule)
    copied = np.from_dlpack(_Asks(cp.ones(3), copy=True))
    assert copied.tolist() == [1, 1, 1]


class _Asks:
    """A consumer's wishes."""

    def __init__(self, array, **wishes):
        self.array, self.wishes = array, wishes

    def __dlpack__(self, **_):
        return self.array.__dlpack__(**self.wishes)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_no_capsule_runs_backwards(device, dtype):
    rng = np.random.default_rng(51)
    for _ in range(60):
        shape = tuple(rng.integers(0, 5, rng.integers(1, 5)))
        x = cp.asarray(numbers(shape, np.dtype("float32"))).astype(dtype)
        x = x.transpose(tuple(rng.permutation(x.ndim)))
        x = x[tuple(slice(None, None, int(rng.choice([-2, -1, 1, 2]))) for _ in shape)]
        if dtype == "bfloat16":
            taken = np.from_dlpack(_Uint16(x)).view(x.dtype)
        else:
            taken = np.from_dlpack(x)
        assert all(step >= 0 for step in taken.strides)
        np.testing.assert_array_equal(taken, x.get())
        backwards = any(step < 0 for step in x.strides)
        assert not backwards or not np.shares_memory(taken, np.asarray(x))
        if backwards:
            with pytest.raises(ExchangeError, match=r"run backwards.*x\.copy\(\)"):
                x.__dlpack__(copy=False)


def test_a_device_with_memory_of_its_own_is_not_looked_into(shared, monkeypatch):
    monkeypatch.setattr(exchange, "host_view", lambda array: None)
    monkeypatch.setattr(shared, "type", "gpu")
    x = cp.ones(3)
    assert x.__dlpack_device__() == (4, shared.index)
    with pytest.raises(BufferError, match=r"x\.get\(\) downloads"):
        x.__dlpack__()
    assert np.from_dlpack(x, device="cpu").tolist() == [1, 1, 1]
    assert np.asarray(x).tolist() == [1, 1, 1]


class _Uint16(_Asks):
    """An array of bfloat16, as its bits: NumPy's reader knows no such dtype."""

    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__()
        exchange._dtype_code(capsule)[0] = 1
        return capsule


class _OnGPU:
    """An array of a GPU's, as CuPy (``get``) and PyTorch (``cpu``) have them."""

    def __init__(self, host, download):
        self.__dict__[download] = lambda: host

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **_):
        raise BufferError("on a GPU")


@pytest.mark.parametrize("download", ["get", "cpu"])
def test_arrays_of_other_gpus_go_through_the_host(device, download):
    theirs = _OnGPU(numbers((2, 3)), download)
    equal(cp.from_dlpack(theirs), numbers((2, 3)))
    equal(cp.asarray(theirs), numbers((2, 3)))
    with pytest.raises(ExchangeError, match="_OnGPU: on a GPU"):
        cp.asarray(_OnGPU(None, "elsewhere"))


def test_pytorch_and_back(device):
    torch = pytest.importorskip("torch")
    t = torch.arange(1024, dtype=torch.float32).reshape(32, 32)
    x = cp.from_dlpack(t)
    equal(x, t.numpy())
    equal(cp.asarray(t.T), t.numpy().T)
    half = torch.tensor([1.5, 2], dtype=torch.bfloat16)
    equal(cp.asarray(half), [1.5, 2], BFLOAT16)
    with pytest.raises((DTypeError, ExchangeError), match=r"torch\.Tensor.*grad"):
        cp.asarray(torch.ones(3, requires_grad=True))
    if host_view(x) is None:
        return
    back = torch.from_dlpack(x)
    back += 1
    equal(x, back.numpy())
    if t.data_ptr() % 64 == 0:
        assert back.data_ptr() == t.data_ptr()
    assert torch.from_dlpack(x[::-1, ::-2]).tolist() == x[::-1, ::-2].tolist()
    y = cp.asarray([1.5, 2], dtype="bfloat16")
    seen = torch.from_dlpack(y)
    assert seen.dtype == torch.bfloat16
    seen *= 2
    equal(y, [3, 4], BFLOAT16)
