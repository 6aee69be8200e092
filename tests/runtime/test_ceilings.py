"""Ceilings: the candidates do the work they claim, and what they claim is plausible."""

import dataclasses

import numpy as np
import pyopencl as cl
import pytest

from clprim.errors import DeviceError
from clprim.runtime import ceilings as module
from clprim.runtime.device import devices

DEVICES = [device for device in devices() if device.compiles]
# These kernels are nobody else's, a dozen a case: the least size is asked of one device.
CASES = [*((device, 1) for device in DEVICES[:1]), *((device, 1_000_000) for device in DEVICES)]
each_device = pytest.mark.parametrize(
    ("device", "nbytes"), CASES, ids=lambda value: str(getattr(value, "index", value))
)
as_cpu_and_gpu = pytest.mark.parametrize("is_cpu", [True, False], ids=["cpu forms", "gpu forms"])


@pytest.fixture
def buffers(monkeypatch):
    """The buffers that candidates are made with, in order."""
    made, fill = [], module._filled

    def record(*args):
        made.append(fill(*args))
        return made[-1]

    monkeypatch.setattr(module, "_filled", record)
    return made


@pytest.fixture
def posing(device, is_cpu, monkeypatch):
    """The device with one trait changed: every form of kernel runs anywhere."""
    device.open()
    monkeypatch.setitem(
        device.__dict__, "traits", dataclasses.replace(device.traits, is_cpu=is_cpu)
    )
    return device


@each_device
@as_cpu_and_gpu
def test_copies_copy(posing, nbytes, buffers):
    candidates = module.copy_candidates(posing, nbytes)
    source, target = buffers
    data = np.random.default_rng(0).random(source.size // 4, dtype=np.float32)
    cl.enqueue_copy(posing.queue, source, data)
    assert len(candidates) > 4
    for candidate in candidates:
        cl.enqueue_copy(posing.queue, target, np.zeros_like(data))
        candidate.enqueue().wait()
        result = np.empty_like(data)
        cl.enqueue_copy(posing.queue, result, target)
        np.testing.assert_array_equal(result, data, err_msg=candidate.name)
        assert candidate.work == 2 * data.nbytes


@each_device
@as_cpu_and_gpu
def test_reads_read_everything_once(posing, nbytes, buffers):
    candidates = module.read_candidates(posing, nbytes)
    for candidate, target in zip(candidates, buffers[1:], strict=True):
        candidate.enqueue().wait()
        sums = np.empty(target.size // 4, np.float32)
        cl.enqueue_copy(posing.queue, sums, target)
        assert 4 * sums.sum(dtype=np.float64) == candidate.work  # a source of ones
    assert len(candidates) > 4


@pytest.mark.parametrize("nbytes", [1, 1 << 16, 100_000, 25_690_112, (1 << 28) - 1, 1 << 28])
def test_sizes_shrink_little(nbytes):
    even = module._even(nbytes)
    assert even % 4096 == 0
    assert max(nbytes, 1 << 16) * 15 / 16 <= even <= max(nbytes, 1 << 16)


def test_no_candidate_is_an_error():
    with pytest.raises(DeviceError, match="no kernel of those tried could be built"):
        module.best([])
