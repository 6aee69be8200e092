"""What a compiler can do is found out by running it, in a process that may die of it."""

import dataclasses
import re
import subprocess
import sys
import time

import numpy as np
import pyopencl as cl
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.runtime import disk_cache, probe, probe_forms, probe_walks, query
from clprim.traits import DeviceTraits


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(probe, "_TIMEOUT", 120.0)  # a machine that is busy with other tests
    forget = probe.abilities.cache_clear
    forget()
    yield tmp_path / "programs"
    forget()


def of_few_uses(monkeypatch):
    """Lets fewer programs be asked, where each costs a process."""
    few = {use: probe._USES[use] for use in ("prefetch", "loops", "streaming")}
    monkeypatch.setattr(probe, "_USES", few)


def test_answers_are_found_once_kept_and_refine_traits(device, own_cache, monkeypatch):
    found = probe.abilities(device.cl)
    assert "kernel" in found
    assert found <= set(probe.ANSWERS)
    assert len(list(own_cache.iterdir())) == 1
    probe.abilities.cache_clear()
    monkeypatch.setattr(probe, "_run_child", None)
    assert probe.abilities(device.cl) == found
    # Traits are what the driver says and the compiler bears out.
    said = query.query_traits(device.cl)
    refined = probe.refine(said, device.cl)
    # What a launch takes is timed anew.
    assert dataclasses.replace(refined, spared=device.traits.spared) == device.traits
    assert refined.prefetch == ("prefetch" in found)
    assert refined.fp64 == (said.fp64 and "fp64" in found)
    assert refined.is_cpu == (said.is_cpu and "lanes" not in found)
    sizes = [size for size in said.sub_groups if f"sub_groups_{size}" in found]
    assert refined.sub_groups == tuple(sizes)
    assert refined.block_reads <= said.block_reads
    assert refined.short_block_reads <= said.short_block_reads


def test_each_answer_is_that_of_its_program(device, monkeypatch):
    # What one program shows all at once, each shows by itself.
    given = []
    real = probe._run_children

    def singly(handle, questions):
        given.append(real(handle, questions))
        return [False, *given[0][1:]] if len(given) == 1 else given[1]

    monkeypatch.setattr(probe, "_run_children", singly)
    answers = probe._ask(device.cl)
    together, apart = given
    assert list(answers.values()) == apart + together[1:]
    assert all(apart) or not together[0]


def test_no_vector_is_wider_than_the_devices(device, monkeypatch):
    # Libraries of functions were built for other registers than those that the compiler takes.
    promised = dataclasses.replace(query.query_traits(device.cl), vector_bytes=16)
    monkeypatch.setattr(query, "query_traits", lambda _: promised)
    asked, printed = [], []
    monkeypatch.setattr(probe, "_run_children", lambda _, uses: asked.extend(uses))
    probe._ask(device.cl)
    monkeypatch.setattr(probe_forms, "kernel_of", lambda _, text: printed.append(text) or 1 / 0)
    queue = cl.CommandQueue(device.context)
    forms = [uses for (uses, *_) in asked if uses.startswith(probe_forms.KINDS)]
    for uses in forms:
        with pytest.raises(ZeroDivisionError):
            probe._is_so(queue, [uses])
    assert len(printed) == 6
    assert not any(re.search(r"float(8|16)|double(4|8|16)", text) for text in printed)


def test_a_compiler_that_ends_the_process_is_survived(device, monkeypatch):
    of_few_uses(monkeypatch)
    # The child ends itself where it comes to the second program, as the compiler would.
    deadly = probe._CHILD.replace(
        "main({task!r})",
        "probe = sys.modules[main.__module__]; works = probe._works; import os; "
        "probe._works = lambda q, uses: os.abort() if 'prefetch' in uses else works(q, uses); "
        "main({task!r})",
    )
    monkeypatch.setattr(probe, "_CHILD", deadly)
    found = probe.abilities(device.cl)
    assert "prefetch" not in found
    assert {"kernel", "streaming"} <= found or not probe._ask(device.cl)["streaming"]
    x = cp.asarray(numbers((200, 300)))
    monkeypatch.setitem(device.__dict__, "traits", probe.refine(device.traits, device.cl))
    equal(cp.Pointwise("y0 = x0 + 12321;")(x), x.get() + 12321)


def hanging(monkeypatch, condition, seconds):
    """Lets children wait for ever where they come to a program, and have some seconds for all."""
    child = probe._CHILD.replace(
        "main({task!r})",
        "probe = sys.modules[main.__module__]; works = probe._works; import time; "
        f"probe._works = lambda q, uses: time.sleep(99) if {condition} else works(q, uses); "
        "main({task!r})",
    )
    monkeypatch.setattr(probe, "_CHILD", child)
    monkeypatch.setattr(probe, "_TIMEOUT", seconds)


@pytest.mark.alone
def test_a_compiler_that_hangs_is_survived(device, own_cache, monkeypatch):
    hanging(monkeypatch, "uses != ['kernel']", 1.0)
    late = []
    real = probe._run_child

    def watched(handle, questions):
        given, in_time = real(handle, questions)
        late.append(not in_time)
        return given, in_time

    monkeypatch.setattr(probe, "_run_child", watched)
    others = {"kernel", *probe.ANSWERS[probe.ANSWERS.index("lanes") :]}
    assert probe.abilities(device.cl) <= others
    assert sum(late) <= 2 * probe._TIMEOUTS  # not each of the programs
    asked = len(late)
    probe.abilities.cache_clear()  # as another process
    assert probe.abilities(device.cl) <= others
    assert len(late) == asked  # it does not wait again


@pytest.mark.parametrize("later", [probe._PATIENCE + 1, -10.0], ids=["later", "set back"])
def test_what_was_not_answered_in_time_is_asked_again_after_a_while(device, monkeypatch, later):
    answers = {"kernel": True, "trigonometry": None}
    asked = []
    monkeypatch.setattr(probe, "_ask", lambda device: asked.append(device) or answers)
    now = time.time()

    def found(after):
        probe.abilities.cache_clear()  # as another process
        monkeypatch.setattr(time, "time", lambda: now + after)
        return probe.abilities(device.cl)

    assert found(0) == found(1) == {"kernel"}
    assert len(asked) == 1
    answers["trigonometry"] = True
    assert found(later) == {"kernel", "trigonometry"}
    assert found(10 * probe._PATIENCE) == {"kernel", "trigonometry"}
    assert len(asked) == 2  # what was answered is kept for good


def test_an_entry_of_nonsense_is_asked_again():
    assert probe._still_true("until:never kernel") is None
    assert probe._still_true("") == frozenset()
    assert probe._still_true("fp64 kernel") == {"fp64", "kernel"}


@pytest.mark.alone
def test_every_child_has_the_whole_time(device, monkeypatch):
    of_few_uses(monkeypatch)
    deadly = probe._CHILD.replace(
        "main({task!r})",
        "probe = sys.modules[main.__module__]; import os, time; "
        "probe._works = lambda q, uses: time.sleep(0.1) or os.abort(); main({task!r})",
    )
    monkeypatch.setattr(probe, "_CHILD", deadly)
    limits = []
    communicate = subprocess.Popen.communicate

    def watched(child, given=None, timeout=None):
        limits.append(timeout)
        return communicate(child, given, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", watched)
    assert "kernel" not in probe.abilities(device.cl)
    assert len(limits) > 3
    assert set(limits) - {None} == {probe._TIMEOUT}  # none for the dead


def test_vectors_are_no_wider_than_what_the_compiler_splits_them_into(device, monkeypatch):
    said = dataclasses.replace(device.traits, vector_bytes=64, registers=32)
    monkeypatch.setattr(query.platform, "machine", lambda: "x86_64")
    for found, size in (({"vectors_32", "vectors_64"}, 64), ({"vectors_32"}, 32), (set(), 16)):
        monkeypatch.setattr(probe, "abilities", lambda device, found=found: frozenset(found))
        refined = probe.refine(said, None)
        # Narrower ones are fewer as well.
        assert (refined.vector_bytes, refined.registers) == (size, 32 if size == 64 else 16)
    # On a processor with wider ones, PoCL 3.0 gave no kernel for this.
    x = cp.asarray(numbers((1000,)))
    equal(cp.Pointwise("y0 = x0 * 2;")(x), x.get() * 2)


@pytest.mark.parametrize("executable", ["", None, "/usr/bin/an-application", "/nowhere/python3"])
def test_without_a_child_the_driver_is_believed(device, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert probe.abilities(device.cl) is None
    said = query.query_traits(device.cl)
    assert probe.refine(said, device.cl) == said
    assert not said.prefetch


def test_answers_refine_traits(monkeypatch):
    said = DeviceTraits(is_cpu=True, fp16=True, fp64=True)
    found = frozenset({"kernel", "lanes", "fp16", "vectors_32", "vectors_64", "functions_64"})
    monkeypatch.setattr(probe, "abilities", lambda device: found)
    assert probe.refine(said, None) == dataclasses.replace(
        said,
        is_cpu=False,
        fp64=False,
        prefetch=False,
        streaming=False,
        vector_trigonometry=False,
        function_bytes=64,
        estimate_bytes=said.vector_bytes,  # the compiler dies of those of 64
        widened_comparisons=False,
        byte_choices=False,
        long_loops=False,
        own_ways=False,
    )


def test_positions_are_long_from_the_beginning_where_widened_ones_compare_wrongly(
    device, monkeypatch
):
    traits = dataclasses.replace(device.traits, widened_comparisons=False)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    monkeypatch.setattr(device, "index", f"{device.index} narrow")
    x = cp.zeros((3, 4))
    for text in ("y0 = x0 + index;", "y0 = x0 + coord(1);", "y0 = x0 + size(0);"):
        assert "typedef long index_t" in cp.Pointwise(text).source(x)
    assert "typedef int index_t" in cp.Pointwise("y0 = x0 + 1;").source(x)
    scan = cp.Scan("y0 = x0 * index;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    assert "typedef long index_t" in scan.source(x, axis=1)
    last = cp.Reduction("y0 = x0 * index;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    assert "typedef long index_t" in last.source(x, axis=1)


@pytest.mark.oclgrind
def test_bytes_or_constants_are_refused_where_choices_of_them_are_wrong(device, monkeypatch):
    # llvmpipe's compiler died of them, or took other elements.
    if device.platform == "rusticl":
        assert not device.traits.byte_choices
    traits = dataclasses.replace(device.traits, byte_choices=False)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    monkeypatch.setattr(device, "index", f"{device.index} bytes")
    host = np.arange(-5, 6, dtype=np.int8)
    x = cp.asarray(host)
    wrong = ("x0 < 0 ? 0 : x0", "!(x0 <= 3) ? (int)x0 : -7", "x0 < 0 ? 0 : x0 > 6 ? 6 : x0")
    for text in wrong:
        with pytest.raises(cp.DefinitionError, match="constant and x0 of int8; write min and max"):
            cp.Pointwise(f"y0 = {text};").source(x)
    step = "reduce_y0 += x0 < 0 ? 0 : x0;"
    with pytest.raises(cp.DefinitionError, match="x0 of int8"):
        cp.Reduction("", init="reduce_y0 = 0;", step=step).source(x)
    with pytest.raises(cp.DefinitionError, match="x0 of int8"):
        cp.Scan("y0 = x0 < 0 ? 0 : x0;", init="scan_y0 = 0;", step="scan_y0 += y0;").source(x)
    for text in ("x0 < 0 ? -x0 : x0", "x0 > 0 ? 1 : x0 < 0 ? -1 : 0", "x0; if (x0 < 0) y0 = 0"):
        assert cp.Pointwise(f"y0 = {text};").source(x)
    assert cp.Pointwise("y0 = x0 < 0 ? 0 : x0;").source(cp.asarray(host.astype(np.uint8)))
    written = cp.Pointwise("y0 = x0; if (x0 < 0) y0 = 0;")
    np.testing.assert_array_equal(written(x).get(), np.maximum(host, 0))


def test_long_work_of_a_work_item_is_refused_where_loops_are_cut_short(device, monkeypatch):
    # llvmpipe's sums lacked what came after 65,535 steps of all loops of a work-item.
    if device.platform == "rusticl":
        assert not device.traits.long_loops
    monkeypatch.setattr(device, "index", f"{device.index} short loops")
    traits = dataclasses.replace(
        device.traits, long_loops=False, compute_units=2, vector_bytes=16, max_work_group_size=256
    )
    monkeypatch.setitem(device.__dict__, "traits", traits)
    refused = []
    for rows, depth, columns in ((2, 64, 3), (64, 576, 196), (256, 2048, 256)):
        a, b = numbers((rows, depth)), numbers((depth, columns))
        try:
            y = ops.matmul(cp.asarray(a), cp.asarray(b), algorithm="panels").get()
        except cp.DefinitionError as error:
            assert "after 65,535 steps" in str(error)
            refused.append(depth)
        else:
            np.testing.assert_allclose(y, a @ b, rtol=1e-4, atol=1e-3)
    assert 64 not in refused
    assert 2048 in refused


def test_sub_groups_that_do_not_hand_values_over_are_not_used(monkeypatch):
    said = DeviceTraits(sub_groups=(8, 16, 32), block_reads=True)
    found = frozenset({"kernel", "sub_groups_8", "block_reads_8", "sub_groups_16"})
    monkeypatch.setattr(probe, "abilities", lambda device: found)
    refined = probe.refine(said, None)
    assert (refined.sub_groups, refined.block_reads) == ((8, 16), False)
    said = DeviceTraits(sub_groups=(8,), block_reads=True, short_block_reads=True)
    for short in (True, False):
        found = frozenset({"sub_groups_8", "block_reads_8", *["short_block_reads_8"] * short})
        monkeypatch.setattr(probe, "abilities", lambda device, found=found: found)
        refined = probe.refine(said, None)
        assert (refined.block_reads, refined.short_block_reads) == (True, short)


def test_a_sub_group_may_leave_before_another_one(device, monkeypatch):
    # Some runtimes let all sub-groups of a group do what the first one does: none may leave alone.
    if not device.traits.sub_groups:
        pytest.skip("the device has no sub-groups")
    size = device.traits.sub_groups[0]
    assert probe._hands_over(device.queue, "sub_groups", size)
    stay = probe._SUB_GROUPS.replace("return;\n    a[", ";\n    a[")
    assert stay != probe._SUB_GROUPS
    monkeypatch.setattr(probe, "_SUB_GROUPS", stay)
    assert not probe._hands_over(device.queue, "sub_groups", size)


def test_a_device_is_found_by_another_process(device):
    assert query.find(query.whereabouts(device.cl)) == device.cl


def answering(device):
    """Answers without a child."""
    return {name: name != "lanes" for name in probe.ANSWERS}


def test_another_driver_is_asked_anew(device, own_cache, monkeypatch):
    monkeypatch.setattr(probe, "_ask", answering)
    probe.abilities(device.cl)
    probe.abilities.cache_clear()
    monkeypatch.setattr(query, "identity", lambda device: (b"another driver",))
    probe.abilities(device.cl)
    assert len(list(own_cache.iterdir())) == 2


@pytest.mark.parametrize(
    "setting", ["RUSTICL_FEATURES", "CL_CONFIG_CPU_TARGET_ARCH", "POCL_KERNELLIB_NAME"]
)
def test_another_setting_of_a_runtime_is_another_driver(device, monkeypatch, setting):
    monkeypatch.delenv(setting, raising=False)
    before = query.identity(device.cl)
    monkeypatch.setenv(setting, "other")
    assert query.identity(device.cl) != before
    monkeypatch.delenv(setting)
    assert query.identity(device.cl) == before


def test_other_extensions_are_another_driver(device, monkeypatch):
    before = query.identity(device.cl)
    monkeypatch.setattr(query, "_extensions", lambda device: frozenset({"cl_khr_new"}))
    assert query.identity(device.cl) != before


def test_a_damaged_answer_is_asked_anew(device, own_cache, monkeypatch):
    monkeypatch.setattr(probe, "_ask", answering)
    found = probe.abilities(device.cl)
    (entry,) = own_cache.iterdir()
    entry.write_bytes(entry.read_bytes() + b" lanes")
    probe.abilities.cache_clear()
    assert probe.abilities(device.cl) == found
    assert disk_cache.load(entry.stem) is not None


FAULTS = {
    "old lines": ("* x[l * groups]", "* (step == 7 ? y : x)[l * groups]"),
    "no barrier": ("    barrier(CLK_LOCAL_MEM_FENCE);\n", ""),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_whoever_reads_what_was_written_before_walks_no_phases(device, monkeypatch, fault):
    if not device.traits.walks:
        pytest.skip("the device launches kernels apart")
    text = probe_walks._TEXT
    if fault is not None:
        text = text.replace(*FAULTS[fault])
        assert text != probe_walks._TEXT
        monkeypatch.setattr(probe_walks, "_TEXT", text)
    for items in (1, 64):
        monkeypatch.setattr(probe_walks, "items_of", lambda queue, items=items: items)
        right = fault is None or (fault == "no barrier" and items == 1)
        assert probe_walks.walks(device.queue, calls=False) is right
