import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pyopencl as cl
import pytest

import clprim as cp
from clprim.errors import BuildError, DeviceError
from clprim.runtime import disk_cache, program
from clprim.runtime.program import build, cl_std_option, forget
from clprim.runtime.stats import stats
from clprim.traits import DeviceTraits

OPTIONS = ("-cl-std=CL1.2",)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    forget()
    yield tmp_path / "programs"
    forget()


def render(expr="y0 = 2 * x0;", step="", after=""):
    source = "__kernel void k(__global const float* px0, __global float* py0)\n{\n"
    source += "    const size_t i = get_global_id(0);\n    float x0 = px0[i], y0 = 0;\n"
    for name, snippet in ("expr", expr), ("step", step):
        source += f'    {{\n#line 1 "snippet:{name}"\n{snippet}\n'
        source += f'#line {source.count(chr(10)) + 2} "kernel"\n    }}\n'
    return source + f"    {after}py0[i] = y0;\n}}\n"


def run(device, built):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    flags = cl.mem_flags
    source = cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    target = cl.Buffer(device.context, flags.WRITE_ONLY, y.nbytes)
    kernel = cl.Kernel(built, "k")
    kernel.set_args(source, target)
    cl.enqueue_nd_range_kernel(device.queue, kernel, x.shape, None)
    cl.enqueue_copy(device.queue, y, target)
    return y


def check(device, built):
    np.testing.assert_array_equal(run(device, built), 2 * np.arange(64))


def counted(before):
    now = stats() - before
    return now.builds, now.disk_hits, now.memory_hits


def test_source_then_memory_then_disk(device, own_cache):
    before = stats()
    first = build(device, render(), OPTIONS)
    assert counted(before) == (1, 0, 0)
    check(device, first)
    kept = sorted(own_cache.iterdir())  # the program, and what was probed
    assert build(device, render(), list(OPTIONS)) is first
    assert counted(before) == (1, 0, 1)
    forget()
    again = build(device, render(), OPTIONS)
    assert counted(before) == (1, 1, 1)
    check(device, again)
    assert sorted(own_cache.iterdir()) == kept


def test_options_and_source_make_another_program(device):
    before = stats()
    build(device, render(), OPTIONS)
    build(device, render(), (*OPTIONS, "-DQ=1"))
    build(device, render() + "\n", OPTIONS)
    assert counted(before) == (3, 0, 0)


def test_no_warning_and_no_output(device, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # from source, from disk
            build(device, render("int unused; y0 = x0;"), OPTIONS)
            forget()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b""])
def test_a_damaged_entry_is_compiled_again(device, own_cache, damage):
    build(device, render(), OPTIONS)
    (entry,) = own_cache.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    forget()
    before = stats()
    check(device, build(device, render(), OPTIONS))
    assert counted(before) == (1, 0, 0)
    forget()
    check(device, build(device, render(), OPTIONS))
    assert counted(before) == (1, 1, 0)


def test_a_binary_that_the_driver_refuses_is_compiled_again(device, own_cache):
    if device.platform == "rusticl":
        pytest.skip("this driver ends the process; it is never handed what was not stored for it")
    build(device, render(), OPTIONS)
    (entry,) = own_cache.iterdir()
    disk_cache.store(entry.stem, b"no program at all" * 50)
    forget()
    before = stats()
    check(device, build(device, render(), OPTIONS))
    assert counted(before) == (1, 0, 0)
    assert disk_cache.load(entry.stem)[:17] != b"no program at all"


def test_a_binary_without_the_kernel_is_compiled_again(device, own_cache):
    # It loads, and only `clCreateKernel` tells.
    program.kernel_of(device, render(), OPTIONS, "k")
    (entry,) = own_cache.iterdir()
    program.kernel_of(device, render().replace("void k(", "void other("), OPTIONS, "other")
    (other,) = set(own_cache.iterdir()) - {entry}
    disk_cache.store(entry.stem, disk_cache.load(other.stem))
    forget()
    before = stats()
    kernel = program.kernel_of(device, render(), OPTIONS, "k")
    assert kernel.function_name == "k"
    assert counted(before) == (1, 1, 0)
    forget()
    before = stats()
    check(device, build(device, render(), OPTIONS))
    assert counted(before) == (0, 1, 0)


def test_an_operator_survives_a_binary_without_its_kernel(device, own_cache):
    x = cp.asarray(np.arange(7, dtype=np.float32))
    cp.Pointwise("y0 = x0 + 3;").source(x)
    printed = set(own_cache.iterdir()) if own_cache.exists() else set()
    cp.Pointwise("y0 = x0 + 3;")(x)
    (entry,) = set(own_cache.iterdir()) - printed
    build(device, render(), OPTIONS)
    (other,) = set(own_cache.iterdir()) - {entry, *printed}
    disk_cache.store(entry.stem, disk_cache.load(other.stem))
    forget()
    before = stats()
    np.testing.assert_array_equal(cp.Pointwise("y0 = x0 + 3;")(x).get(), np.arange(7) + 3)
    assert counted(before) == (1, 1, 0)


def test_a_program_that_another_thread_has_built_meanwhile_is_taken(device, own_cache):
    first = build(device, render(), OPTIONS)
    key = program._key(device, render(), OPTIONS)
    forget()
    second = build(device, render(), OPTIONS)
    program._drop(key, first)
    assert build(device, render(), OPTIONS) is second
    program._drop(key, second)
    assert not list(own_cache.iterdir())


def test_a_kernel_that_is_not_there_is_an_error(device):
    before = stats()
    with pytest.raises(DeviceError, match=r"Pointwise 'y0': .* gives no kernel: "):
        program.kernel_of(device, render(), OPTIONS, "missing", title="Pointwise 'y0'")
    assert counted(before) == (2, 0, 0)  # once more, and no more


def test_without_a_folder_everything_works(device, monkeypatch, tmp_path, capfd):
    (tmp_path / "file").write_bytes(b"")
    for folder in "off", str(tmp_path / "file" / "below"):
        monkeypatch.setenv("CLPRIM_CACHE_DIR", folder)
        if folder != "off":
            with pytest.warns(UserWarning, match="is not used"):
                disk_cache.store("key", b"binary")
        before = stats()
        check(device, build(device, render(), OPTIONS))
        forget()
        build(device, render(), OPTIONS)
        assert counted(before) == (2, 0, 0)
        forget()
    assert capfd.readouterr() == ("", "")


SECOND_PROCESS = """
import sys
from clprim.runtime.device import devices
from clprim.runtime.program import build
from clprim.runtime.stats import stats
device = devices()[int(sys.argv[1])]
build(device, sys.argv[2], ("-cl-std=CL1.2",))
print(stats().builds, stats().disk_hits)
"""


@pytest.mark.alone
def test_a_second_process_compiles_nothing(device):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SECOND_PROCESS, str(device.index), render()]

    def process():
        return subprocess.check_output(command, env=environment, timeout=60, text=True).split()

    assert process() == ["1", "0"]
    assert process() == ["0", "1"]


def test_threads_build_a_program_once(device):
    before = stats()
    built = []
    gate = threading.Barrier(4)

    def work():
        gate.wait()
        built.append(build(device, render(), OPTIONS))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 4
    assert all(one is built[0] for one in built)
    assert counted(before)[:2] == (1, 0)
    assert not program._building


def test_programs_in_memory_are_bounded(device, monkeypatch):
    monkeypatch.setattr(program, "_MOST", 2)
    sources = [render() + "\n" * n for n in range(3)]
    first, second = (build(device, source, OPTIONS) for source in sources[:2])
    assert build(device, sources[0], OPTIONS) is first  # the second is now older
    build(device, sources[2], OPTIONS)
    assert len(program._programs) == 2
    assert build(device, sources[0], OPTIONS) is first
    before = stats()
    again = build(device, sources[1], OPTIONS)
    assert again is not second
    assert counted(before) == (0, 1, 0)  # from disk
    check(device, second)  # what is still in use stays
    check(device, again)


@pytest.mark.parametrize("step", ["", "y0 = foo(x0);"])
def test_an_error_names_the_snippets_line(device, step):
    snippets = {"expr": "y0 = x0; // fine\n  y0 = x0 + qq;", "step": step}
    source = render(**snippets)
    before = stats()
    with pytest.raises(BuildError) as caught:
        build(device, source, OPTIONS, title="Pointwise 'y0'", lines=snippets)
    lines = str(caught.value).split("\n")
    assert lines[:4] == [
        f"Pointwise 'y0': the OpenCL compiler refused it on {device.name}",
        "  expr, line 2:",
        "      y0 = x0 + qq;",
        "                ^",
    ]
    assert lines[4].startswith("  error: ")
    assert "'qq'" in lines[4]
    if step:
        assert lines[5:8] == ["  step, line 1:", "    y0 = foo(x0);", "         ^"]
        assert "'foo'" in lines[8]
    assert "qq" in caught.value.log
    assert caught.value.source == source
    assert caught.value.__cause__ is None
    assert counted(before) == (0, 0, 0)
    assert not program._building


def test_a_missing_semicolon_is_found_in_the_snippet(device):
    with pytest.raises(BuildError) as caught:
        build(device, render("y0 = x0"), OPTIONS, lines={"expr": "y0 = x0"})
    assert "expr, line 1:\n    y0 = x0\n           ^\n  error: expected ';'" in str(caught.value)


def test_a_wrong_argument_of_a_builtin_is_found_in_the_snippet(device):
    snippet = "y0 = clamp(x0, 1);"
    with pytest.raises(BuildError) as caught:
        build(device, render(snippet), OPTIONS, lines={"expr": snippet})
    assert "expr, line 1:\n    y0 = clamp(x0, 1);\n         ^\n" in str(caught.value)
    assert "call to 'clamp'" in str(caught.value)


def test_an_error_in_the_generated_code_quotes_it(device):
    source = render(after="none + ")
    with pytest.raises(BuildError) as caught:
        build(device, source, OPTIONS)
    number = next(n for n, line in enumerate(source.split("\n"), 1) if "none" in line)
    assert f"generated code, line {number}: error: " in str(caught.value)
    assert f"> {number:4} |     none + py0[i] = y0;" in str(caught.value)
    assert "op.source(...)" in str(caught.value)


def test_preambles_may_include_files_of_which_errors_show_lines(device, tmp_path):
    # As docs/language.md promises: who gives the strings reads what the process may read.
    file = tmp_path / "own.h"
    file.write_text("float own(float a) { return 3 * a; }\n")
    preamble = f'#include "{file}"'
    x = cp.asarray(np.arange(4, dtype=np.float32))
    assert cp.Pointwise("y0 = own(x0);", preamble=preamble)(x).tolist() == [0, 3, 6, 9]
    file = tmp_path / "secret.h"
    file.write_text("the line of a secret\n")
    with pytest.raises(BuildError) as caught:
        cp.Pointwise("y0 = x0;", preamble=f'#include "{file}"')(x)
    assert "'the'" in caught.value.log  # its first word


def test_options_of_the_environment_follow(device, monkeypatch):
    source = render("y0 = FACTOR * x0;")
    monkeypatch.setenv("CLPRIM_BUILD_OPTIONS", "-cl-opt-disable -DFACTOR=2")
    check(device, build(device, source))
    # They are a part of what a program is found by.
    monkeypatch.setenv("CLPRIM_BUILD_OPTIONS", "-DFACTOR=3")
    np.testing.assert_array_equal(run(device, build(device, source)), 3 * np.arange(64))


def test_options_that_no_compiler_takes_are_reported_with_the_drivers_words(device):
    with pytest.raises(BuildError) as caught:
        build(device, render(), ("-cl-std=CL9.9", "-no-such-option"))
    assert "the OpenCL compiler refused it on" in str(caught.value)
    assert len(str(caught.value).split("\n")) > 2


def test_a_failed_build_may_be_tried_again(device):
    for _ in range(2):
        with pytest.raises(BuildError):
            build(device, render("y0 = qq;"), OPTIONS)
    check(device, build(device, render(), OPTIONS))


def test_the_language_is_1_2_unless_asked_for():
    assert cl_std_option(DeviceTraits(c_version=(1, 2))) == "-cl-std=CL1.2"
    assert cl_std_option(DeviceTraits(c_version=(3, 0))) == "-cl-std=CL1.2"
    assert cl_std_option(DeviceTraits(c_version=(3, 0)), (3, 0)) == "-cl-std=CL3.0"
    with pytest.raises(DeviceError, match=r"OpenCL C 3\.0, the device compiles OpenCL C 1\.2"):
        cl_std_option(DeviceTraits(c_version=(1, 2)), (3, 0))
