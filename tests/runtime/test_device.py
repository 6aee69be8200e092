"""Devices: found, ranked, described, chosen by name, environment or index, and refused by name."""

import dataclasses
import os
import subprocess
import sys
import threading
import timeit
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from clprim.errors import DeviceError
from clprim.runtime import device as module
from clprim.runtime import query
from clprim.runtime.device import Device, current_device, devices, set_device, synchronize
from clprim.traits import DeviceTraits

DEVICES = devices()
needs_device = pytest.mark.skipif(not DEVICES, reason="no OpenCL device")
each_device = pytest.mark.parametrize("device", DEVICES, ids=lambda device: str(device.index))


@pytest.fixture(autouse=True)
def _fresh_choice(monkeypatch):
    """Every test starts without a current device and leaves the one that was."""
    monkeypatch.setattr(module, "_current", None)
    monkeypatch.delenv("CLPRIM_DEVICE", raising=False)


@pytest.fixture
def platforms(monkeypatch):
    """Replaces what the OpenCL loader finds; a test appends to the list."""
    found = []
    monkeypatch.setattr(module, "_found", [])
    monkeypatch.setattr(cl, "get_platforms", lambda: found)
    return found


class FakePlatform:
    def __init__(self, name, version="OpenCL 3.0 Fake", devices=()):
        self.name, self.version = name, version
        self._devices = list(devices)
        for device in self._devices:
            device.platform = self

    def get_devices(self):
        return self._devices


def fake(name, type=cl.device_type.GPU, **properties):
    """A device that answers what is given here, and an error to every other query."""
    answers = {
        "name": name,
        "type": type,
        "vendor": "Fake Corporation",
        "version": "OpenCL 3.0 Fake",
        "driver_version": "1.0",
        "opencl_c_version": "OpenCL C 1.2",
        "extensions": "",
        "max_compute_units": 16,
        "max_clock_frequency": 1000,
        "global_mem_size": 8 << 30,
    } | properties
    return FakeDevice(answers)


class FakeDevice:
    def __init__(self, answers):
        self.answers = answers

    def __getattr__(self, name):
        try:
            return self.answers[name]
        except KeyError:
            raise failure("clGetDeviceInfo", -30) from None


def failure(routine, code):
    """The error that pyopencl raises when an OpenCL function returns a code."""
    return cl.RuntimeError(cl._cl._ErrorRecord("", code, routine))


def nothing_found():
    raise failure("clGetPlatformIDs", -1001)


def python(code, **environment):
    """Runs code in a fresh interpreter; returns the completed process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# --- listing ----------------------------------------------------------------------------------


@needs_device
def test_devices_know_themselves_in_a_fixed_order():
    assert [device.index for device in DEVICES] == list(range(len(DEVICES)))
    assert devices() == DEVICES
    for device in DEVICES:
        assert device.type in {"cpu", "gpu", "accelerator", "other"}
        assert device.name == " ".join(device.cl.name.split())
        assert device.platform == device.cl.platform.name
        assert "\n" not in str(device)
        for part in (f"{device.index}: ", device.name, device.platform, device.type, "GiB", "unit"):
            assert part in str(device)
        assert repr(device) == f"<clprim.Device {device}>"


def test_the_list_is_the_callers_own():
    devices().clear()
    assert devices() == DEVICES


def test_each_runtime_is_listed_once():
    assert len({(device.platform, device.driver, device.name) for device in DEVICES}) == len(
        DEVICES
    )


def test_import_lists_no_platforms():
    code = (
        "import pyopencl as cl\n"
        "def refuse(): raise SystemExit('platforms were listed')\n"
        "cl.get_platforms = refuse\n"
        "import clprim.runtime.device"
    )
    ran = python(code)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_platform_without_devices_is_skipped(platforms):
    empty, broken = FakePlatform("Empty"), FakePlatform("Broken")
    broken.get_devices = nothing_found
    platforms += [empty, broken, FakePlatform("Works", devices=[fake("Card")])]
    assert [device.name for device in devices()] == ["Card"]


def test_none_found_is_asked_again(platforms):
    assert devices() == []
    platforms.append(FakePlatform("Late", devices=[fake("Card")]))
    assert [device.platform for device in devices()] == ["Late"]


@pytest.mark.parametrize("listing", [nothing_found, list])
def test_no_device_at_all_says_what_to_install(monkeypatch, platforms, listing):
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cl, "get_platforms", listing)
    assert devices() == []
    for call in (current_device, synchronize, lambda: set_device("cpu"), lambda: set_device(0)):
        with pytest.raises(DeviceError) as caught:
            call()
        assert "no OpenCL device was found" in str(caught.value)
        assert 'pip install "clprim[cpu]"' in str(caught.value)
        assert "pocl-opencl-icd" in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="vendor folders are Linux's")
@pytest.mark.parametrize("text", ["", "libnot_there.so\n", "/not/there.so", "\x01 garbage \x00"])
def test_a_broken_driver_file_is_no_traceback(tmp_path, text):
    # A loader that is pointed at one file looks nowhere else. (ocl-icd itself crashes on a file
    # that begins with a zero byte; nothing here can help it.)
    driver = tmp_path / "broken.icd"
    driver.write_text(text)
    code = (
        "from clprim.errors import DeviceError\n"
        "from clprim.runtime.device import current_device, devices\n"
        "print(devices())\n"
        "try: current_device()\n"
        "except DeviceError as error: print(error)"
    )
    ran = python(code, OCL_ICD_VENDORS=str(driver))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(("[]\nno OpenCL device was found", "[<clprim.Device 0: Oclgrind"))


@pytest.mark.skipif(sys.platform != "linux", reason="vendor folders are Linux's")
def test_a_variable_that_hides_all_drivers_is_named(monkeypatch):
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    code = "import clprim as cp\ntry: cp.zeros(1)\nexcept cp.ClprimError as error: print(error)"
    ran = python(code, OCL_ICD_VENDORS="/nonexist")
    assert "OCL_ICD_VENDORS=/nonexist names no driver" in ran.stdout or "Oclgrind" in ran.stdout


@needs_device
def test_a_broken_driver_file_beside_others_is_skipped(tmp_path):
    (tmp_path / "broken.icd").write_text("/not/there.so\n")
    (tmp_path / "garbage.icd").write_bytes(bytes(range(1, 256)))
    ran = python("from clprim.runtime.device import devices; devices()", OCL_ICD_VENDORS=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


# --- ranking ----------------------------------------------------------------------------------


def ranked(*handles):
    FakePlatform("Fake", devices=handles)
    order, backwards = sorted(handles, key=query.rank), handles[::-1]
    assert sorted(backwards, key=query.rank) == order  # whatever order they are found in
    return [handle.name for handle in order]


def test_gpus_come_first_then_accelerators_then_cpus():
    cpu = fake("cpu", cl.device_type.CPU, max_compute_units=128, max_clock_frequency=5000)
    board, gpu = fake("board", cl.device_type.ACCELERATOR), fake("gpu", max_compute_units=1)
    other = fake("other", cl.device_type.CUSTOM)
    assert ranked(other, cpu, board, gpu) == ["gpu", "board", "cpu", "other"]


def test_gpus_by_memory_of_their_own_then_by_units_times_clock():
    inside = fake("inside", max_compute_units=96, host_unified_memory=True)
    small = fake("small", max_compute_units=20, host_unified_memory=False)
    large = fake("large", max_compute_units=40, host_unified_memory=False)
    assert ranked(inside, small, large) == ["large", "small", "inside"]


def test_cpu_runtimes_by_abilities_whatever_clock_they_report():
    cpu = cl.device_type.CPU
    handles = [
        fake("new", cpu, max_clock_frequency=0, extensions="cl_khr_subgroups"),
        fake("later driver", cpu, max_clock_frequency=2300, driver_version="3.1+distribution"),
        fake("driver", cpu, max_clock_frequency=2300, driver_version="3.0-rc2"),
        fake("old", cpu, max_clock_frequency=9999, version="OpenCL 1.2", driver_version="9"),
    ]
    assert ranked(*handles) == ["new", "later driver", "driver", "old"]


def test_a_device_that_answers_nothing_is_ranked_and_listed(platforms):
    mute = FakeDevice({"type": cl.device_type.GPU})
    platforms.append(FakePlatform("Mute", devices=[mute]))
    (device,) = devices()
    assert str(device) == "0:  | Mute  | gpu, ? GiB, 8 compute units"
    assert device.traits == DeviceTraits()


# --- traits -----------------------------------------------------------------------------------


def traits(platform="Fake", **properties):
    handle = fake("Card", **properties)
    FakePlatform(platform, devices=[handle])
    return query.query_traits(handle)


def test_every_failing_query_leaves_the_default():
    handle = FakeDevice({"type": cl.device_type.CPU})
    found = query.query_traits(handle)
    # Processors are asked themselves, where the device says nothing.
    asked = ("registers", "cores", "l1_bytes", "l2_bytes")
    of_host = {name: getattr(found, name) for name in asked}
    assert found == dataclasses.replace(DeviceTraits(is_cpu=True), **of_host)


def test_traits_of_a_gpu():
    found = traits(
        max_work_group_size=1024,
        local_mem_size=49152,
        extensions="cl_khr_fp16 cl_khr_fp64 cl_khr_subgroups",
        global_mem_cache_size=50 << 20,
        max_mem_alloc_size=1 << 34,
        native_vector_width_char=1,
        native_vector_width_float=1,
        opencl_c_all_versions=[
            SimpleNamespace(version=major << 22 | minor << 12) for major, minor in [(1, 2), (3, 0)]
        ],
    )
    assert found == DeviceTraits(
        is_cpu=False,
        compute_units=16,
        max_work_group_size=1024,
        local_memory=49152,
        vector_bytes=16,
        sub_group_size=32,
        fp16=True,
        fp64=True,
        c_version=(3, 0),
        cache_bytes=50 << 20,
        max_allocation=1 << 34,
    )


@pytest.mark.parametrize(
    ("char", "single", "expected"), [(64, 16, 64), (16, 16, 64), (32, 8, 32), (1, 1, 16)]
)
def test_the_register_of_a_cpu_is_the_widest_reported(char, single, expected):
    found = traits(
        type=cl.device_type.CPU, native_vector_width_char=char, native_vector_width_float=single
    )
    assert found.vector_bytes == expected


@pytest.mark.parametrize(
    ("platform", "target", "expected"),
    [
        ("Intel(R) OpenCL", "core-avx2", 32),
        ("Intel(R) OpenCL", "skx", 64),
        ("Other", "core-avx2", 64),
    ],
)
def test_a_runtime_that_is_told_to_use_narrow_registers_has_them(
    monkeypatch, platform, target, expected
):
    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", target)
    found = traits(
        platform,
        type=cl.device_type.CPU,
        native_vector_width_char=64,
        native_vector_width_float=16,
    )
    assert found.vector_bytes == expected


@pytest.mark.parametrize(
    ("extensions", "properties", "expected"),
    [
        ("", {}, 1),
        ("", {"max_num_sub_groups": 0}, 1),
        ("", {"max_num_sub_groups": 32}, 32),
        ("cl_nv_device_attribute_query", {"warp_size_nv": 32}, 1),  # a width, but no functions
        ("cl_khr_subgroups cl_amd_device_attribute_query", {"wavefront_width_amd": 64}, 64),
        ("cl_khr_subgroups", {"type": cl.device_type.CPU}, 1),
    ],
)
def test_sub_groups(extensions, properties, expected):
    assert traits(extensions=extensions, **properties).sub_group_size == expected


@pytest.mark.parametrize(
    ("version", "c_version", "expected"),
    [
        ("OpenCL 1.2 (Build 9)", "OpenCL C 1.1 x", (1, 1)),
        ("OpenCL 3.0 Fake", "OpenCL C 1.2 Fake", (1, 2)),  # 3.0 without the list of versions
        ("OpenCL 2.0", "OpenCL C 2.0", (2, 0)),
        ("nonsense", "nonsense", DeviceTraits.c_version),
    ],
)
def test_c_version_is_the_devices(version, c_version, expected):
    assert traits(version=version, opencl_c_version=c_version).c_version == expected


def test_c_version_list_of_an_older_device_is_not_believed():
    listed = [SimpleNamespace(version=3 << 22)]
    found = traits(
        version="OpenCL 1.2", opencl_c_version="OpenCL C 1.2", opencl_c_all_versions=listed
    )
    assert found.c_version == (1, 2)


@pytest.mark.parametrize(
    ("kind", "reported", "expected"),
    [
        ("CPU", 2 << 20, 32 << 20),
        ("CPU", 48 << 20, 48 << 20),
        ("CPU", 260 << 20, 32 << 20),
        ("GPU", 0, 1 << 20),
        ("GPU", 96 << 20, 96 << 20),
    ],
)
def test_cache_size(kind, reported, expected):
    found = traits(type=getattr(cl.device_type, kind), global_mem_cache_size=reported)
    assert found.cache_bytes == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"extensions": "cl_khr_fp64"}, True),
        ({"double_fp_config": 63}, True),
        ({"double_fp_config": 0}, False),
        ({"extensions": "cl_khr_fp64_but_not"}, DeviceTraits.fp64),  # unknown: the default
    ],
)
def test_double(properties, expected):
    assert traits(**properties).fp64 is expected


@each_device
def test_traits_of_real_devices_are_sane(device):
    found = device.traits
    assert found is device.traits  # queried once
    assert found.is_cpu <= (device.type == "cpu")  # a rasteriser on the CPU works as a GPU does
    assert (1, 0) <= found.c_version <= (9, 0)
    assert found.vector_bytes in {16, 32, 64, 128}
    assert found.sub_group_size in {1, 4, 8, 16, 32, 64}
    assert found.compute_units >= 1
    assert found.max_work_group_size >= 1
    assert found.max_allocation >= 1 << 20
    assert dataclasses.replace(found) == found


@each_device
def test_the_compiler_takes_the_reported_language(device):
    if not device.compiles:
        pytest.skip("its compiler does not work on this processor")
    major, minor = device.traits.c_version
    source = "__kernel void k(__global int *p) { p[0] = __OPENCL_C_VERSION__; }"
    program = cl.Program(device.context, source).build([f"-cl-std=CL{major}.{minor}"])
    result = np.zeros(1, np.int32)
    buffer = cl.Buffer(device.context, cl.mem_flags.WRITE_ONLY, 4)
    cl.Kernel(program, "k")(device.queue, (1,), None, buffer)
    cl.enqueue_copy(device.queue, result, buffer)
    assert result[0] >= 100 * major + 10 * minor


# --- choice -----------------------------------------------------------------------------------


@needs_device
def test_the_first_device_is_the_default():
    assert current_device() == DEVICES[0]
    assert current_device() is current_device()


@each_device
def test_a_device_is_found_by_index_by_itself_and_by_its_handle(device):
    for spec in (device.index, np.int64(device.index), str(device.index), device, device.cl):
        assert set_device(spec) == device
        assert current_device() == device


@each_device
def test_a_device_is_found_by_its_names(device):
    assert set_device(f"{device.platform} {device.driver}") == device
    assert set_device(device.platform.upper()).platform == device.platform
    assert set_device(device.type).type == device.type
    assert set_device(device.name).name == device.name


@pytest.fixture
def machine(platforms):
    """A machine with two CPU runtimes of which the second names the first one's vendor."""
    cpu = cl.device_type.CPU
    acme = fake("Acme(R) Core", cpu, driver_version="2025.1", extensions="cl_khr_subgroups")
    pocl = [
        fake("pthread-Acme(R) Core", cpu, vendor="AcmeInside", driver_version=version)
        for version in ("3.1+debian", "3.0-rc2")
    ]
    platforms += [
        FakePlatform("Portable Language", "OpenCL 3.0 PoCL 3.0-rc2  Linux", [pocl[1]]),
        FakePlatform("Portable Language", "OpenCL 3.0 PoCL 3.1+debian  Linux", [pocl[0]]),
        FakePlatform("Acme(R) OpenCL", "OpenCL 3.0 LINUX", [acme]),
    ]
    return [(d.platform.split()[0], d.driver) for d in devices()]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("acme", ("Acme(R)", "2025.1")),  # the platform, though every device's name has it
        ("ACME core", ("Acme(R)", "2025.1")),
        ("pocl", ("Portable", "3.1+debian")),  # by the platform's version, the best of two
        ("portable", ("Portable", "3.1+debian")),
        ("pocl 3.0", ("Portable", "3.0-rc2")),  # the driver's version, not that of OpenCL
        ("pocl-3.0", ("Portable", "3.0-rc2")),
        ("PoCL_3.0 - rc2", ("Portable", "3.0-rc2")),
        ("PoCL rc2", ("Portable", "3.0-rc2")),
        ("cpu rc2", ("Portable", "3.0-rc2")),
        ("pthread", ("Portable", "3.1+debian")),
        ("pthread-Acme(R) Core", ("Portable", "3.1+debian")),
        ("inside", ("Portable", "3.1+debian")),
        (" cpu ", ("Acme(R)", "2025.1")),
        ("2", ("Portable", "3.0-rc2")),
    ],
)
def test_words_find_the_device_that_is_meant(machine, spec, expected):
    assert machine == [("Acme(R)", "2025.1"), ("Portable", "3.1+debian"), ("Portable", "3.0-rc2")]
    found = module._find(spec)
    assert (found.platform.split()[0], found.driver) == expected


@pytest.mark.parametrize("spec", ["voodoo", "pocl 4", "gpu", "acme gpu", "", " ", "3", 3, -1])
def test_unknown_device_is_refused_with_a_list(machine, spec):
    with pytest.raises(DeviceError) as caught:
        set_device(spec)
    message = str(caught.value)
    assert f"no OpenCL device matches {spec!r}; expected an index, part of a name" in message
    assert "\n  0: Acme(R) Core | Acme(R) OpenCL 2025.1 | cpu, 8.0 GiB, 16 compute units" in message
    assert message.count("\n") == 3


@pytest.mark.parametrize("spec", [None, True, 1.5, ["cpu"]])
def test_no_description_at_all_is_refused(machine, spec):
    with pytest.raises(DeviceError, match="a device is an index, a name or a Device, not "):
        set_device(spec)


@needs_device
def test_a_refused_choice_leaves_the_current_device():
    before = set_device(len(DEVICES) - 1)
    with pytest.raises(DeviceError):
        set_device("voodoo")
    assert current_device() is before


@each_device
def test_the_environment_chooses(device):
    # Not the whole line: some runtimes report the memory that is free at the moment.
    code = "from clprim.runtime.device import current_device as d; print(d().index, d().driver)"
    ran = python(code, CLPRIM_DEVICE=f"{device.platform} {device.driver}".upper())
    assert (ran.stdout.strip(), ran.stderr) == (f"{device.index} {device.driver}", "")


@needs_device
def test_the_environment_may_hold_an_index(monkeypatch):
    monkeypatch.setenv("CLPRIM_DEVICE", f" {len(DEVICES) - 1} ")
    assert current_device() == DEVICES[-1]


@needs_device
def test_a_choice_in_code_beats_the_environment(monkeypatch):
    monkeypatch.setenv("CLPRIM_DEVICE", "voodoo")
    set_device(0)
    assert current_device() == DEVICES[0]


@needs_device
def test_an_unknown_device_in_the_environment_is_named(monkeypatch):
    monkeypatch.setenv("CLPRIM_DEVICE", "voodoo")
    with pytest.raises(DeviceError, match=r"^CLPRIM_DEVICE=voodoo: no OpenCL device matches"):
        current_device()


# --- use --------------------------------------------------------------------------------------


@each_device
def test_opened_once_on_first_use(device):
    fresh = Device(device.cl, device.index)
    assert "context" not in vars(fresh)
    assert fresh.queue.context == fresh.context
    assert fresh.context.devices == [device.cl]
    assert fresh.queues == [fresh.queue]
    context = fresh.context
    fresh.open()
    assert fresh.context is context
    buffer = fresh.pool(1 << 12)
    assert buffer.size >= 1 << 12
    buffer.release()


@needs_device
def test_opened_devices_are_read_fast():
    device = set_device(0)
    assert "queue" in vars(device)  # a plain attribute, no property
    seconds = min(timeit.repeat(lambda: device.queue, number=10_000, repeat=5)) / 10_000
    assert seconds < 1e-6  # 0.05 µs; the margin is for a loaded machine
    assert min(timeit.repeat(current_device, number=10_000, repeat=5)) / 10_000 < 1e-6


@needs_device
def test_a_queue_can_be_swapped_for_a_while():
    device = set_device(0)
    own = device.queue
    device.queue = cl.CommandQueue(device.context, device.cl)
    try:
        synchronize()
    finally:
        device.queue = own
    assert device.queue is own
    assert own in device.queues


@needs_device
def test_unknown_attributes_stay_unknown():
    with pytest.raises(AttributeError, match="'Device' object has no attribute 'colour'"):
        _ = DEVICES[0].colour


@needs_device
def test_equal_when_the_device_is_the_same():
    again = Device(DEVICES[0].cl, 7)
    assert again == DEVICES[0]
    assert len({again, DEVICES[0]}) == 1
    assert again != DEVICES[0].cl
    for other in DEVICES[1:]:
        assert again != other


@needs_device
def test_threads_share_one_device(monkeypatch):
    monkeypatch.setattr(module, "_found", [])
    found = []
    threads = [threading.Thread(target=lambda: found.append(current_device())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(device is found[0] for device in found)


@needs_device
def test_a_device_that_vanished_is_named(monkeypatch):
    def vanish(*args, **kwargs):
        raise failure("clCreateContext", -2)

    device = Device(DEVICES[0].cl, 0)
    monkeypatch.setattr(cl, "Context", vanish)
    expected = r"device 0: .* is listed but cannot be used: .*DEVICE_NOT_AVAILABLE.*CLPRIM_DEVICE"
    for use in (device.open, lambda: device.queue, lambda: set_device(device)):
        with pytest.raises(DeviceError, match=expected):
            use()
    assert module._current is None


@needs_device
def test_a_failure_while_waiting_is_named(monkeypatch):
    def fail(queue):
        raise failure("clEnqueueMarker", -5)

    device = Device(DEVICES[0].cl, 0)
    monkeypatch.setattr(cl, "enqueue_marker", fail)
    with pytest.raises(DeviceError, match=r"device 0: .* failed: .*OUT_OF_RESOURCES"):
        device.synchronize()


@each_device
def test_synchronize_waits_for_what_was_launched(device):
    set_device(device)
    data = np.arange(1 << 16, dtype=np.float32)
    buffer = device.pool(data.nbytes)
    cl.enqueue_copy(device.queue, buffer, data, is_blocking=False)
    back = np.empty_like(data)
    event = cl.enqueue_copy(device.queue, back, buffer, is_blocking=False)
    synchronize()
    assert event.command_execution_status == cl.command_execution_status.COMPLETE
    np.testing.assert_array_equal(back, data)


# --- a device for a block -------------------------------------------------------------------------


def test_a_device_holds_for_a_block_of_one_thread(device):
    from concurrent.futures import ThreadPoolExecutor

    import clprim as cp

    usable = [d for d in cp.devices() if d.compiles]
    chosen = usable[-1]
    with cp.on(chosen) as found:
        assert found == chosen == cp.current_device()
        assert cp.zeros(3).device == chosen
        with cp.on(device):
            assert cp.current_device() == device
        assert cp.current_device() == chosen
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(cp.current_device).result() == device
    assert cp.current_device() == device
    with pytest.raises(DeviceError, match="no OpenCL device matches"), cp.on("no such device"):
        pass
    with pytest.raises(ZeroDivisionError), cp.on(chosen):
        1 / 0  # noqa: B018
    assert cp.current_device() == device


def test_threads_use_all_devices_in_turn(unoptimised):
    import threading

    import numpy as np

    import clprim as cp

    usable = [d for d in cp.devices() if d.compiles]
    square = cp.Pointwise("y0 = x0 * x0 + w0;")
    together = threading.Barrier(2 * len(usable))
    wrong = []

    def work(n):
        device = usable[n % len(usable)]
        together.wait()
        for k in range(20):
            with cp.on(device):
                y = square(cp.asarray(np.full(100, n, np.float32)), k)
                total = y.sum()
            if y.device != device or float(total) != 100 * (n * n + k):
                wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2 * len(usable))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_its_text_asks_the_driver_once(device, monkeypatch):
    """Calls of a new shape name their device, in case it refuses a dtype."""
    text = str(device)

    def asked(_):
        raise AssertionError("the driver was asked again")

    monkeypatch.setattr(query, "query_traits", asked)
    assert str(device) == text
