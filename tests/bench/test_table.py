"""Records, tables, promises, names of files, the index."""

import os
from types import SimpleNamespace

import pytest

import clprim as cp
from bench.case import Row
from bench.table import (
    RESULTS,
    Record,
    index_of,
    insert,
    pipes,
    ratio_table,
    read_tables,
    setting,
    slug,
    speed_table,
    tables_of,
    times_of,
)


def row(title, mine, theirs=None, *, share=None, count=1, **more):
    found = Row("Layers", title, 2e9, nbytes=1 << 20, count=count, **more)
    found.seconds = {"clprim": [mine] * 3}
    if theirs:
        found.seconds["oneDNN"] = [theirs] * 3
        found.times["oneDNN"] = [theirs / mine] * 3
    found.share = None if share is None else [share, share, share]
    return found


ROWS = [row("a", 1.0, 2.0, share=0.5, count=3), row("b|c", 4.0, 2.0, extra={"kind": "x"})]
RECORD = Record(
    "name", "Sums", "GFLOP/s", {"device": "D", "run": "2026-01-02 03:04 UTC, `python -m bench x`"},
    ROWS, [("More", ["", "n"], [["one", "1"]])],
    ["What it is."], ["b is wrong"],
)  # fmt: skip


def test_a_table_has_rates_ratios_means_and_the_whole():
    ((title, head, lines),) = tables_of(ROWS, "GFLOP/s")
    assert title == "Layers (GFLOP/s)"
    assert head == ["", "MB", "clprim", "share", "oneDNN", "kind"]
    assert lines[0] == ["a (×3)", "1.05", "2", "50% (50–50)", "1 (2.00×)", ""]
    assert lines[1][2:] == ["0.5", "–", "1 (0.50×)", "x"]
    totals = {line[0]: line for line in lines[2:]}
    assert totals["geometric mean"][3:5] == ["50%", "1.00×"]
    assert totals["worst row"][4] == "0.50×: b|c"
    assert totals["all together"][4] == "8000.0 ms (1.14×)"
    ((_, _, lines),) = tables_of([row("a", 0.25, 0.5)], "ms")
    assert lines == [["a", "1.05", "250", "500 (2.00×)"]]


def test_the_fastest_other_library_has_a_column():
    one, two = row("a", 1.0, 2.0), row("b", 1.0, 0.5)
    for each, theirs in ((one, 1.5), (two, 4.0)):
        each.seconds["MKL"] = [theirs] * 3
        each.times["MKL"] = [theirs] * 3
        each.times["clprim, apart"] = [0.25] * 3
        each.seconds["clprim, apart"] = [0.25] * 3
    ((_, head, lines),) = tables_of([one, two], "ms")
    best = head.index("best peer")
    assert [line[best] for line in lines] == ["1.50×", "0.50×", "0.87×", "0.50×: b"]


def test_a_record_is_printed_and_read_back(tmp_path):
    page = RECORD.write(tmp_path).read_text(encoding="utf-8")
    for part in ("# Sums\n\n- device: D\n", "**b is wrong**", "b\\|c", "- What it is."):
        assert part in page
    assert [title for title, *_ in read_tables(tmp_path / "name.md")] == [
        "Layers (GFLOP/s)", "More",
    ]  # fmt: skip
    assert times_of(read_tables(tmp_path / "name.md"), "Layers", "oneDNN") == [2.0, 0.5]
    older = tmp_path / "older.md"
    targets = "## Targets\n\n| target | outcome |\n| --- | --- |\n| a | hit |\n| b | MISSED (x) |\n"
    older.write_text(f"# Older\n\n- run: 2025-01-02 03:04 UTC, `y`\n\n{targets}\n## A\n")
    index = index_of(tmp_path)
    assert index.index("name.md") < index.index("older.md")
    assert "2026-01-02 03:04 |  |" in index and "2025-01-02 03:04 | 1 of 2 targets |" in index


def test_ratios_have_a_mean_and_a_worst():
    title, _, lines = ratio_table("Layers", [("a", 2.0), ("b", 0.5)])
    assert title == "Layers"
    assert lines[2:] == [["geometric mean", "1.000"], ["worst row: b", "0.500"]]


def test_columns_are_aligned():
    assert pipes(["", "n"], [["a|b", "1"], ["c", "10"]]) == (
        "|      |   n |\n| :--- | --: |\n| a\\|b |   1 |\n| c    |  10 |"
    )


@pytest.mark.parametrize(
    ("platform", "name", "expected"),
    [
        ("NVIDIA CUDA", "NVIDIA H200", "nvidia-cuda-h200"),
        ("Intel(R) OpenCL", "Intel(R) Xeon(R) Processor", "intel-opencl-xeon-processor"),
        ("rusticl", "AMD Radeon/TM 780M (gfx1103)", "rusticl-amd-radeon-tm-780m-gfx1103"),
    ],
)
def test_slugs(platform, name, expected):
    device = SimpleNamespace(platform=platform, name=name, driver="1.0")
    assert slug(device, [device]) == expected


def test_two_versions_of_a_driver_get_files_of_their_own():
    both = [SimpleNamespace(platform="PoCL", name="cpu", driver=d) for d in ("3.0-rc2", "3.1+d")]
    assert [slug(device, both) for device in both] == ["pocl-cpu-3.0-rc2", "pocl-cpu-3.1-d"]
    assert len({slug(device) for device in cp.devices()}) == len(cp.devices())


def test_the_setting_names_what_matters(monkeypatch):
    device = cp.current_device()
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert "ATEN_CPU_CAPABILITY=avx2" in setting(device, "reduce")["limits"]
    where = setting(device, "reduce --repeats 3")
    assert device.name in where["device"] and device.driver in where["device"]
    assert f"clprim {cp.__version__}" in where["versions"] and "numpy " in where["versions"]
    assert "`python -m bench reduce --repeats 3`" in where["run"]


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="this system has no such call")
@pytest.mark.parametrize(
    ("policy", "said"), [("SCHED_OTHER", ""), ("SCHED_RR", ", real-time priority 10")]
)
def test_a_page_says_that_threads_had_priority(monkeypatch, policy, said):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: getattr(os, policy))
    monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(10))
    machine = setting(cp.current_device(), "reduce")["machine"]
    assert machine.endswith("real-time priority 10") if said else "priority" not in machine


def test_what_is_recorded_is_in_the_index():
    if not (RESULTS / "README.md").exists():
        pytest.skip("no recorded results here")
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == index_of(RESULTS)
    assert len(speed_table().splitlines()) == 2 + 7
    assert insert("a<!-- speed: python -m bench pages -->b<!-- end of speed -->c", "T") == (
        "a<!-- speed: python -m bench pages -->\nT\n<!-- end of speed -->c"
    )
