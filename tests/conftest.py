"""Fixtures shared by all tests: every OpenCL device in turn, one cache of compiled kernels."""

import ctypes
import dataclasses
import gc
import os
import sys
import zlib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import TRAITS, chosen_devices, device_ids
from turns import of_other_turns

import clprim as cp
from clprim.call.signature import Calls
from clprim.plan.product import matrix_tile
from clprim.runtime import device as device_module
from clprim.runtime import program
from clprim.runtime.device import devices, set_device
from clprim.runtime.stats import stats

_CACHE, _SIZE = "CLPRIM_CACHE_DIR", "CLPRIM_CACHE_SIZE"
_OPTIONS, _UNOPTIMISED = "CLPRIM_BUILD_OPTIONS", "-cl-opt-disable"
_as_users = pytest.StashKey()
# Operators whose kernels take longest to compile, and marks of tests that run elsewhere or once.
_LARGE, _ELSEWHERE = {"conv", "product"}, ("oclgrind", "optimised")
_ALONE = ("refusal", "large", "alone")
# Folders of which a run takes all cases: what was reported, and what users read and type.
_WHOLE = {"reports", "project", "examples", "bench", "command"}
# Which of many cases a run takes: a number or "all"; unless it is set, the first's.
_TURN, _TURNS = "CLPRIM_TEST_TURN", 6
_built_last: dict[str, object] = {}
BROKEN: list[str] = []
# glibc keeps what a compiler has freed, some 2 MiB a program, until it is told to give it back.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


# Nothing of 21,000 items is garbage: searching for it takes as long as collecting half of them.
gc.disable()


def pytest_report_header(config):
    return [f"parameters: turn {os.environ[_TURN]} of {_TURNS} ({_TURN})", *BROKEN]


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/*.cl and pass"
    )


def _use_own_cache():
    """Lets tests share binaries, also with the next run, and leave none in the user's cache.

    A changed kernel or driver has another key. The workers of pytest-xdist inherit the folder, and
    find there what this process asks of the devices.
    """
    if _CACHE in os.environ:
        return
    folder = Path(__file__).resolve().parents[1] / ".pytest_cache" / "clprim"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # where others could write, nothing is read
    os.environ.update({_CACHE: str(folder), _SIZE: os.environ.get(_SIZE, "2048")})


_use_own_cache()
os.environ.setdefault(_TURN, "0")  # the workers' as well
# For pytest-xdist's workers, which this process starts with its own environment: threads of a
# reference's product go on spinning for some 20 ms, on the cores that compile for other tests.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")


def _wanted_devices():
    """The devices to test on: all, or those that CLPRIM_TEST_DEVICES names (``intel,pocl-3.0``)."""
    named = device_ids(devices())
    with ThreadPoolExecutor() as threads:  # each is asked by processes of its own
        compile_ = list(threads.map(lambda device: device.compiles, named.values()))
    for name in [name for name, works in zip([*named], compile_, strict=True) if not works]:
        BROKEN.append(f"{name}: its compiler refuses an empty kernel on this machine, not tested")
        del named[name]
    return [pytest.param(named[name], id=name) for name in chosen_devices(named)]


DEVICES = _wanted_devices()
FIRST = DEVICES[0].values[0] if DEVICES else None


def _is_first(item):
    """Whether a test runs on the first device, or on none in particular."""
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return chosen.get("device") in (None, FIRST)


def _is_asked_elsewhere(item, number):
    """Whether another device runs some case of a function, the given one of its file.

    Several others share the functions among them, but for those that every device runs.
    """
    parts = item.path.parts
    operators = "ops" in parts
    differ = (None, "modest") if operators else (None, "gpu", "modest")
    ordinary = "traits" in item.fixturenames and item.callspec.params["traits"] not in differ
    if ordinary or any(map(item.get_closest_marker, _ALONE)):
        return False
    if item.get_closest_marker("everywhere"):
        return True
    marked = any(map(item.get_closest_marker, _ELSEWHERE))
    if operators and not marked and (number % 10 or _LARGE & {*parts}):
        return False
    if "runtime" not in parts and number % 5:
        return False
    others = [param.values[0] for param in DEVICES[1:]]
    turn = zlib.crc32(f"{item.path.name} {item.originalname}".encode())
    if "traits" in item.fixturenames:
        turn += differ.index(item.callspec.params["traits"])
    device = item.callspec.params["device"]
    # A test's own device, such as one that claims other traits, is not among them.
    return device not in others or others[turn % len(others)] == device


def _not_their_turn(items):
    """The cases of the first device that leave their turn to others, where parameters cross.

    Of a product of two parameters or more, the planned-for devices of `TRAITS` among them, a run
    takes a half or a third, and of many cases of one as well (`of_other_turns`). What runs as
    users have it in all cases, what is refused, and some folders are left whole.
    """
    turn = os.environ[_TURN]
    if turn == "all":
        return set()
    families = defaultdict(list)
    for item in items:
        whole = any(map(item.get_closest_marker, ("optimised", "refusal")))
        whole = whole or _WHOLE & {*item.path.parts}
        if "device" in item.fixturenames and _is_first(item) and not whole:
            families[item.path, item.originalname].append((item, item.callspec._idlist))
    return {item for family in families.values() for item in of_other_turns(family, int(turn))}


def pytest_collection_modifyitems(config, items):
    """Chooses what runs where: compiling kernels is nearly all of the suite's time.

    The first device runs every case of few; of many, planned for the six devices of `TRAITS` or
    not, those whose turn it is (`_not_their_turn`). The others are asked whether
    plans and templates hold on their runtimes, whose compilers take several times as long: of every
    fifth function one of them runs one case, of tests of traits one for those that differ most from
    the device's own. Of operators it is every tenth, and where kernels are large what is marked so;
    what drives a runtime they share whole. ``CLPRIM_TEST_DEVICES`` names one to make it the first.
    """
    cases, numbers, in_file, in_folder, left_out = {}, {}, Counter(), Counter(), []
    # Who names marks, such as those of Oclgrind, or a case asks for all of theirs.
    named = config.option.markexpr or any("[" in argument for argument in config.args)
    of_others = set() if named else _not_their_turn(items)
    for item in items:
        name, which = (item.path, item.originalname), ""
        if name not in numbers:
            numbers[name] = in_file[item.path]
            in_file[item.path] += 1
        if not _is_first(item):
            if not _is_asked_elsewhere(item, numbers[name]):
                left_out.append(item)
                continue
            which = f"{item.callspec.params['device'].index} {item.callspec.params.get('traits')}"
        elif item in of_others:
            left_out.append(item)
            continue
        cases.setdefault((*name, which), []).append(item)
    for (path, name, which), found in cases.items():
        # Not always the first one, so that dtypes, formats and shapes all have their turn.
        one = found[zlib.crc32(f"{path.name} {name}".encode()) % len(found)]
        if which:
            left_out += [item for item in found if item is not one]
        else:
            one.stash[_as_users] = in_folder[path.parent] % 16 == 0
            in_folder[path.parent] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish():
    # What was collected stays: a search for garbage need not go through it, some hundred times, nor
    # begin after every 700 objects, of which planning a kernel makes more.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


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
    built = stats().builds
    most = 150 if nextitem is not None and nextitem.path == item.path else 40
    if nextitem is None or built > _built_last.get("builds", 0) + most:
        _built_last["builds"] = built
        program.forget()
        Calls.forget()
        gc.collect()
        gc.freeze()  # as after collection: what is still here is modules and what they remember
        for parameter in DEVICES:
            pool = parameter.values[0].__dict__.get("pool")
            # After a test of the largest arrays that is 7 GB. Little is kept: Oclgrind takes a
            # buffer in the place of a smaller, freed one for memory that nobody wrote.
            if pool is not None and pool.managed_bytes - pool.active_bytes > 1 << 30:
                pool.free_held()
        if _trim is not None:
            _trim(0)


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
def first_device_alone():
    """Refuses what lets PyTorch's tensors be on every device, for good: that is a process's own."""
    yield
    numbers = sys.modules.get("clprim.torch.numbers")
    assert numbers is None or not numbers._order, "tensors were made on a further device"


@pytest.fixture(autouse=True)
def built(request, monkeypatch):
    """Kernels as they are written, but for some cases on the first device.

    Optimising a kernel takes up to twenty times as long as building it: it is one case of every
    sixteenth function of a folder, the first one's among them. Tests that are marked ``optimised``
    have kernels as users have them in every case, on whichever device runs it: random definitions,
    dtypes, accuracy, layers of networks, the examples.
    """
    # Whichever device a test makes the current one, the next begins with the first.
    monkeypatch.setattr(device_module, "_current", device_module._current)
    if not _is_first(request.node) and not {"runtime", "bench"} & {*request.path.parts}:
        # Few tests share binaries, and one runtime compiles once more to have one. (Children find
        # there what was asked of a compiler.)
        monkeypatch.setenv(_CACHE, "off")
    asked = {"unoptimised", "traits", "modest"} & {*request.fixturenames}
    asked = asked or "bench" in request.path.parts  # which looks at pages and not at kernels
    usual = any(map(request.node.get_closest_marker, ("optimised", "large")))
    usual = usual or request.node.stash.get(_as_users, False)
    if usual and not asked:
        monkeypatch.delenv(_OPTIONS, raising=False)
    else:
        monkeypatch.setenv(_OPTIONS, _UNOPTIMISED)
    options = os.environ.get(_OPTIONS)
    if options != _built_last.get("options"):
        Calls.forget()  # they hold kernels
    _built_last["options"] = options
    yield
    # What a test leaves to be computed may still be compiled, by a thread of the driver that starts
    # a linker with this environment: it would abort the process if that changed meanwhile.
    for device in devices():
        if "context" in device.__dict__:  # it was opened
            device.queue.finish()


@pytest.fixture
def unoptimised():
    """Kernels as they are written in every case: for loops over many cases, whose plans matter."""


def _pretend(device, monkeypatch, name):
    planned = dataclasses.replace(device.traits, **TRAITS[name])
    if "Portable Computing Language 3.0" in str(device):
        # Its functions take vectors wider than the device's elsewhere than its compiler puts them.
        widest = min(planned.vector_bytes, device.traits.vector_bytes)
        planned = dataclasses.replace(planned, vector_bytes=widest)
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


@pytest.fixture
def units(device, monkeypatch):
    """Gives the device matrix units of some names, which work-items emulate, and one small tile."""

    def use(*names, tile=(2, 1, 1, 2, 2, 3), **traits):
        emulated = tuple(f"emulated/{name}" for name in names)
        planned = dataclasses.replace(device.traits, matrix_units=emulated, **traits)
        monkeypatch.setitem(device.__dict__, "traits", planned)
        monkeypatch.setattr(matrix_tile, "_tiles", lambda _: (matrix_tile.MatrixTile(*tile),))
        matrix_tile.matrix_tiles.cache_clear()
        Calls.forget()

    yield use
    matrix_tile.matrix_tiles.cache_clear()
    Calls.forget()
