"""Fixtures shared by all tests: every OpenCL device in turn, one cache of compiled kernels."""

import dataclasses
import gc
import os
import shutil
import tempfile
import zlib

import pytest
from support import TRAITS, device_ids

import clprim as cp
from clprim.call.signature import Calls
from clprim.runtime import device as device_module
from clprim.runtime import program
from clprim.runtime.device import devices, set_device

_CACHE = "CLPRIM_CACHE_DIR"
_OPTIONS, _UNOPTIMISED = "CLPRIM_BUILD_OPTIONS", "-cl-opt-disable"
_own_cache, _as_users = pytest.StashKey(), pytest.StashKey()
# Operators whose kernels take longest to compile, and marks of tests that run everywhere or once.
_LARGE, _EVERYWHERE = {"conv", "product"}, ("everywhere", "oclgrind", "optimised")
_ALONE = ("refusal", "large", "alone")
_built_last: dict[str, str | None] = {}
BROKEN: list[str] = []


def pytest_report_header(config):
    return BROKEN


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/*.cl and pass"
    )


def pytest_configure(config):
    # Tests that render the same kernel share its binary, also with the next run (a changed kernel
    # or driver has another key), and leave none in the user's cache. The workers of pytest-xdist
    # inherit the folder.
    if _CACHE in os.environ:
        return
    os.environ.setdefault("CLPRIM_CACHE_SIZE", "2048")
    if config.pluginmanager.hasplugin("cacheprovider"):
        folder = config.cache.mkdir("clprim")
        folder.chmod(0o700)  # where others could write, nothing is read
        os.environ[_CACHE] = str(folder)
    else:
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
FIRST = DEVICES[0].values[0] if DEVICES else None


def _is_first(item):
    """Whether a test runs on the first device, or on none in particular."""
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return chosen.get("device") in (None, FIRST)


def _is_asked_elsewhere(item, number):
    """Whether other devices run some case of a function, the given one of its file."""
    operators = "ops" in item.path.parts
    differ = (None, "modest") if operators else (None, "gpu", "modest")
    ordinary = "traits" in item.fixturenames and item.callspec.params["traits"] not in differ
    if ordinary or any(map(item.get_closest_marker, _ALONE)):
        return False
    if not operators or any(map(item.get_closest_marker, _EVERYWHERE)):
        return True
    return number % 3 == 0 and not _LARGE & {*item.path.parts}


def pytest_collection_modifyitems(config, items):
    """Chooses what runs where: compiling kernels is nearly all of the suite's time.

    The first device runs every case. The others are asked whether plans and templates hold on their
    runtimes: of each function one case, of tests of traits one for those that differ most from the
    device's own. Of operators they run every third function, and where kernels are large what is
    marked so. ``CLPRIM_TEST_DEVICES`` names one to make it the first.
    """
    cases, functions, left_out = {}, {}, []
    for item in items:
        name, which = (item.path, item.originalname), ""
        if not _is_first(item):
            names = functions.setdefault(item.path, {})
            if not _is_asked_elsewhere(item, names.setdefault(name, len(names))):
                left_out.append(item)
                continue
            which = f"{item.callspec.params['device'].index} {item.callspec.params.get('traits')}"
        cases.setdefault((*name, which), []).append(item)
    for (path, name, which), found in cases.items():
        # Not always the first one, so that dtypes, formats and shapes all have their turn.
        one = found[zlib.crc32(f"{path.name} {name}".encode()) % len(found)]
        if which:
            left_out += [item for item in found if item is not one]
        else:
            one.stash[_as_users] = True
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


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
    """Kernels as they are written, but for one case of each function on the first device.

    Optimising a large kernel takes five to twenty times as long as building it. Tests that are
    marked ``optimised`` have kernels as users have them in every case and on every device: random
    definitions, dtypes, accuracy, layers of networks, the examples.
    """
    if not _is_first(request.node) and "runtime" not in request.path.parts:
        # Few tests share binaries, and one runtime compiles once more to have one.
        monkeypatch.setenv(_CACHE, "off")
    asked = {"unoptimised", "traits", "modest"} & {*request.fixturenames}
    usual = any(map(request.node.get_closest_marker, ("optimised", "large")))
    usual = usual or _as_users in request.node.stash
    if usual and not asked:
        monkeypatch.delenv(_OPTIONS, raising=False)
    else:
        monkeypatch.setenv(_OPTIONS, _UNOPTIMISED)
    options = os.environ.get(_OPTIONS)
    if options != _built_last.get("options"):
        Calls.forget()  # they hold kernels
    _built_last["options"] = options


@pytest.fixture
def unoptimised():
    """Kernels as they are written in every case: for loops over many cases, whose plans matter."""


def _pretend(device, monkeypatch, name):
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
    return (lambda values, _: values) if device == FIRST else _every


def _every(values, few):
    return values[few // 2 :: few]


@pytest.fixture
def modest(device, monkeypatch):
    """The device with 64 work-items a group and 4 KiB of local memory."""
    return _pretend(device, monkeypatch, "modest")
