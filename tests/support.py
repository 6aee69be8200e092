"""What the tests share that is no fixture: data, views, references, traits."""

import os
import re

import ml_dtypes
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import clprim as cp
from clprim.errors import ClprimError
from clprim.runtime import probe

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(t) for t in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()]
FLOATS = [np.dtype(t) for t in "float16 float32 float64".split()] + [BFLOAT16]
DTYPES = [np.dtype(bool), *INTEGERS, *FLOATS]

# Devices that are not here, planned for on those that are.
MODEST = {
    "is_cpu": False,
    "compute_units": 4,
    "max_work_group_size": 64,
    "local_memory": 4096,
    "vector_bytes": 16,
    "sub_group_size": 1,
    "sub_groups": (),
}
TRAITS = {
    "gpu": {
        "is_cpu": False,
        "compute_units": 16,
        "max_work_group_size": 256,
        "local_memory": 32768,
        "vector_bytes": 16,
        "sub_group_size": 32,
        "sub_groups": (),
    },
    "modest": MODEST,
    "cpu16": {"is_cpu": True, "vector_bytes": 16, "sub_group_size": 1},
    "cpu32": {"is_cpu": True, "vector_bytes": 32, "sub_group_size": 1},
    "cpu64": {"is_cpu": True, "vector_bytes": 64, "sub_group_size": 1},
    "simd": {"is_cpu": True, "vector_bytes": 64, "sub_group_size": 16},
}


def device_ids(devices):
    """Short names: ``intel``, ``pocl-3.1``; a second device of a name gets its index."""
    found = {}
    for device in devices:
        if "Portable" in device.platform:
            version = re.match(r"\d+\.\d+", device.driver)
            name = f"pocl-{version[0]}" if version else "pocl"
        else:
            name = re.sub(r"\W.*", "", device.platform.lower()) or "device"
        found[f"{name}-{device.index}" if name in found else name] = device
    return found


def chosen_devices(names):
    """Returns those of the devices' names that CLPRIM_TEST_DEVICES asks for, all if it is empty."""
    asked = os.environ.get("CLPRIM_TEST_DEVICES", "")
    words = [word.strip() for word in asked.split(",") if word.strip()]
    found = [name for name in names if not words or any(word in name for word in words)]
    if words and not found:
        known = ", ".join(names) or "no device at all"
        pytest.exit(f"CLPRIM_TEST_DEVICES={asked} names none of the devices here: {known}", 4)
    return found


def numbers(shape, dtype=np.float32, seed=0, low=None, high=6):
    """Small whole numbers of any dtype, whose sums and products are exact."""
    dtype = np.dtype(dtype)
    if low is None:
        low = 0 if dtype.kind in "bu" else -5
    values = np.random.default_rng(seed).integers(low, high, shape)
    return (values % 2 == 1 if dtype.kind == "b" else values).astype(dtype)


def near_infinity(dtype):
    """Scales of two factors: of `numbers` products are finite, but not sums of the first one."""
    exponent = np.finfo(np.float32 if np.dtype(dtype).itemsize < 8 else dtype).maxexp - 3
    return 2.0**exponent, 2.0**-40


def wide(array):
    """The array in a dtype in which NumPy's sums of test data are exact."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return array.astype(np.uint64 if array.dtype == np.uint64 else np.int64)
    return array.astype(np.float64)


def aligned(shape, dtype=np.float32):
    """Zeros in host memory that a CPU device may share."""
    count = int(np.prod(shape))
    memory = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)


def equal(result, expected, dtype=None):
    """Checks shape and every element for equality, after a download."""
    found = result.get()
    assert found.shape == np.shape(expected)
    if dtype is not None:
        assert found.dtype == dtype
    np.testing.assert_array_equal(wide(found), wide(expected))


def same_bits(a, b):
    """Whether two device arrays hold the same bytes."""
    a, b = a.get(), b.get()
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def roundoff(dtype, terms, magnitude=1.0):
    """The error that a sum of ``terms`` may have: half a unit in the last place each, as a bound.

    `|Σ̂ − Σ| ≤ (n − 1) u Σ|x| + O(u²)` (Higham, Accuracy and Stability, 4.2), and half a unit more
    for rounding the result; ``magnitude`` is Σ|x|.
    """
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}.get(
        np.dtype(dtype).name, 2.0**-24
    )
    accumulator = min(unit, 2.0**-24)
    return ((terms - 1) * accumulator * 1.01 + unit) * magnitude


def answers_in(folder, device):
    """Leaves what is known of a compiler in an empty cache: asking again takes processes."""
    found = probe.abilities(device.cl)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLPRIM_CACHE_DIR", str(folder))
        patch.setattr(probe, "_ask", lambda _: {name: name in found for name in probe.ANSWERS})
        probe.abilities.__wrapped__(device.cl)


VIEWS = {
    "whole": lambda a: a,
    "every second": lambda a: a[..., ::2],
    "backwards": lambda a: a[..., ::-1],
    "offset": lambda a: a[..., 1:],
    "transposed": lambda a: a.transpose(*reversed(range(a.ndim))),
    "middle rows backwards": lambda a: a[1:-1][::-1],
    "every third of the transposed": lambda a: a.transpose(*reversed(range(a.ndim)))[..., ::-3],
}


def pair(host, view=lambda a: a):
    """A view of an uploaded array, on the host and on the device."""
    return view(host), view(cp.asarray(host))


class Guard:
    """A device array amid others in one memory, to see what is written beside it.

    Args:
        shape, dtype: Of the array.
        fill: What it and its surroundings hold at first.
        step: Elements from one to the next along the last dimension.
    """

    def __init__(self, shape, dtype=np.float32, fill=77, step=1):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        around = tuple(s + 4 for s in shape[:-1])
        last = shape[-1] * step + 8 if shape else 9
        self.inside = (*(slice(2, 2 + s) for s in shape[:-1]),)
        self.inside += (slice(4, 4 + shape[-1] * step, step),) if shape else (4,)
        self.host = np.full((*around, last), fill, dtype)
        self.whole = cp.asarray(self.host)
        self.array = self.whole[self.inside]
        assert self.array.shape == shape

    def check(self, expected):
        """Checks that the array holds ``expected`` and its surroundings what they held."""
        self.host[self.inside] = expected
        np.testing.assert_array_equal(wide(self.whole.get()), wide(self.host))

    def check_untouched(self):
        np.testing.assert_array_equal(wide(self.whole.get()), wide(self.host))


class Given:
    """Arrays that wrong calls are made with; `check` tells whether any was written to."""

    def __init__(self, device, **hosts):
        self.device, self.hosts = device, hosts
        for name, host in hosts.items():
            setattr(self, name, cp.asarray(host))

    def foreign(self, name):
        self.context = cl.Context([self.device.cl])  # some drivers want it kept alive
        return cl_array.to_device(cl.CommandQueue(self.context), self.hosts[name])

    def complex(self, name):
        return cl_array.to_device(self.device.queue, self.hosts[name].astype(np.complex64))

    def check(self):
        for name, host in self.hosts.items():
            equal(getattr(self, name), host)

    def refused(self, error, problem, call, named=""):
        for _ in range(2):  # the second time as well
            with pytest.raises(error, match=problem) as caught:
                call(self)
            assert isinstance(caught.value, ClprimError) and named in str(caught.value)
        self.check()


def clock_of(factors):
    """A clock that gives each tile a time; a list of them is one a round."""

    def clock(device, calls, rounds, stop):
        found = {}
        for choice in calls:
            times = factors.get(str(choice), 1.0)
            times = times if isinstance(times, list) else [times]
            found[choice] = [times[n % len(times)] for n in range(rounds)]
        return found

    return clock


def subsets(ndim):
    """All subsets of the axes, as tuples."""
    return [tuple(d for d in range(ndim) if bits >> d & 1) for bits in range(1 << ndim)]


def free_memory():
    """Bytes of the host's memory that nobody uses."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
