"""Fixtures shared by all tests: every OpenCL device in turn, one cache of compiled kernels."""

import dataclasses
import gc
import os
import shutil
import tempfile

import pytest
from support import TRAITS, device_ids

import clprim as cp
from clprim.call.signature import Calls
from clprim.runtime import device as device_module
from clprim.runtime import program
from clprim.runtime.device import devices, set_device

_CACHE = "CLPRIM_CACHE_DIR"
_OPTIONS, _UNOPTIMISED = "CLPRIM_BUILD_OPTIONS", "-cl-opt-disable"
_own_cache = pytest.StashKey()
BROKEN: list[str] = []


def pytest_report_header(config):
    return BROKEN


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/*.cl and pass"
    )


def pytest_configure(config):
    # Tests that render the same kernel share its binary, and leave none in the user's cache. The
    # workers of pytest-xdist inherit the folder.
    if _CACHE not in os.environ:
        config.stash[_own_cache] = os.environ[_CACHE] = tempfile.mkdtemp(prefix="clprim-tests-")


def pytest_unconfigure(config):
    folder = config.stash.get(_own_cache, None)
    if folder is not None:
        os.environ.pop(_CACHE, None)
        shutil.rmtree(folder, ignore_errors=True)


def _wanted_devices():
    """The devices to test on: all, or those that CLPRIM_TEST_DEVICES names (``intel,pocl-3.0``)."""
    named = device_ids(devices())
    for name in [name for name, device in named.items() if not device.compiles]:
        BROKEN.append(f"{name}: its compiler refuses an empty kernel on this machine, not tested")
        del named[name]
    words = [w for w in os.environ.get("CLPRIM_TEST_DEVICES", "").split(",") if w.strip()]
    return [
        pytest.param(device, id=name)
        for name, device in named.items()
        if not words or any(word.strip() in name for word in words)
    ]


DEVICES = _wanted_devices()


def pytest_collection_modifyitems(config, items):
    # All traits on the first device; on the others those that differ most from their own, and of
    # operators, whose kernels take longest to compile, only the one that changes most.
    kept, left_out = [], []
    for item in items:
        chosen = getattr(item, "callspec", None) and item.callspec.params
        other = chosen and chosen.get("device") not in (None, DEVICES[0].values[0])
        differ = (None, "modest") if "ops" in item.path.parts else (None, "gpu", "modest")
        ordinary = chosen and chosen.get("traits") not in differ
        ordinary = ordinary and "traits" in item._fixtureinfo.name2fixturedefs
        (left_out if other and ordinary else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    # Arrays of float64 are a part of many tests; a device without it refuses them, by this message.
    try:
        return (yield)
    except cp.DTypeError as error:
        if "it lacks cl_khr_fp64" not in str(error) or cp.current_device().traits.fp64:
            raise
        pytest.skip("the device has no float64")


def pytest_runtest_teardown(item, nextitem):
    # Thousands of programs would fill gigabytes; few of one file are of use to the next.
    if nextitem is None or nextitem.path != item.path:
        program.forget()
        Calls.forget()
        gc.collect()


@pytest.fixture(params=DEVICES)
def device(request):
    """Every device found, as the current one."""
    before = device_module._current
    yield set_device(request.param)
    device_module._current = before


@pytest.fixture
def double_device():
    """The first device that calculates in float64, for values that do not depend on devices."""
    found = next((p.values[0] for p in DEVICES if p.values[0].traits.fp64), None)
    if found is None:
        pytest.skip("no device calculates in float64")
    before = device_module._current
    yield set_device(found)
    device_module._current = before


@pytest.fixture(params=TRAITS)
def traits(request, device, monkeypatch):
    """The device, planned for as if it were another: a GPU, a CPU with narrower registers…"""
    return _pretend(device, monkeypatch, request.param)


@pytest.fixture(autouse=True)
def built(request, monkeypatch):
    """Kernels as they are written on all devices but the first, unless a test is ``optimised``.

    What is asked there once more is whether plans and templates are right on another runtime. One
    of the compilers takes ten to twenty times as long to optimise a large kernel: it was most of
    the suite's time. Random definitions, dtypes, layers of networks and the examples are built
    there as users have them.
    """
    chosen = getattr(request.node, "callspec", None)
    device = chosen and chosen.params.get("device")
    if device in (None, DEVICES[0].values[0]) or request.node.get_closest_marker("optimised"):
        return
    if not os.environ.get(_OPTIONS):
        monkeypatch.setenv(_OPTIONS, _UNOPTIMISED)


@pytest.fixture
def unoptimised(monkeypatch):
    """Kernels as they are written, for tests that ask whether the plan is right.

    Unoptimised, a large kernel is built in a fifth of the time. The layers of networks, all dtypes
    and every pair of factors are tested as users run them.
    """
    monkeypatch.setenv(_OPTIONS, _UNOPTIMISED)


def _pretend(device, monkeypatch, name):
    monkeypatch.setenv(_OPTIONS, _UNOPTIMISED)
    planned = dataclasses.replace(device.traits, **TRAITS[name])
    monkeypatch.setitem(device.__dict__, "traits", planned)
    # Operators remember plans by the device's number: those for other traits are not to be used.
    monkeypatch.setattr(device, "index", f"{device.index} as {name}")
    return planned


@pytest.fixture
def some(device):
    """Returns all of some values on the first device, and every few of them on the others.

    Kernels with barriers take some runtimes a second each to compile.
    """
    return (lambda values, _: values) if device == DEVICES[0].values[0] else _every


def _every(values, few):
    return values[few // 2 :: few]


@pytest.fixture
def modest(device, monkeypatch):
    """The device with 64 work-items a group and 4 KiB of local memory."""
    return _pretend(device, monkeypatch, "modest")
