"""Tables, Markdown, names of files, pictures."""

import io
import os
from types import SimpleNamespace

import pytest
from matplotlib.image import imread
from rich.console import Console

import clprim as cp
from bench.commands.options import RESULTS
from bench.page.chart import TALLEST, draw
from bench.page.looks import look_of
from bench.page.panels import Line, Panel, panels_of, summary_of
from bench.page.recorded import index_of, read_page, redraw
from bench.page.report import Report, Table, markdown, setting, show, slug
from bench.page.targets import Target, judge
from bench.peers.compute import compute_peers
from bench.peers.peer import available_peers
from bench.work.blocks import Separate
from bench.work.depthwise import Grouped

TARGET = Target("share", 0.8, "of the ceiling")
REPORT = Report(
    "sum",
    "Sums",
    tables=(Table("Of x", ("", "a|b", "target"), (("one", "1.0", "x\ny"), ("two", "–", ""))),),
    verdicts=tuple(judge([TARGET], "one", {"share": 0.5})),
    notes=("What a is.",),
    failures=("two is wrong",),
)


def test_markdown():
    page = markdown(REPORT, {"device": "D"}, "sum.png")
    assert page == (
        "# Sums\n\n- device: D\n\n**two is wrong**\n\n"
        "## Targets\n\n| target | hits | worst | where | outcome |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| ≥ 80% of the ceiling | 0 of 1 | 50.0% | one | MISSED |\n\n"
        "## Of x\n\n|  | a\\|b | target |\n| --- | ---: | ---: |\n"
        "| one | 1.0 | x<br>y |\n| two | – |  |\n\n"
        "![Sums](sum.png)\n\n## Notes\n\n- What a is.\n"
    )


def test_markdown_without_a_chart():
    assert "![" not in markdown(REPORT, {})


def test_the_terminal_shows_everything():
    text = io.StringIO()
    show(REPORT, {"device": "[bold]D"}, Console(file=text, width=100))
    for part in ("Sums", "device: [bold]D", "Of x", "MISSED", "50.0%", "What a is.", "is wrong"):
        assert part in text.getvalue()


def test_the_setting_names_what_matters():
    device = cp.current_device()
    where = setting(device, "reduce --repeats 3")
    assert device.name in where["device"]
    assert device.driver in where["device"]
    assert f"clprim {cp.__version__}" in where["versions"]
    assert "numpy " in where["versions"]
    assert "python -m bench reduce --repeats 3" in where["run"]


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


RATES = Table(
    "Layers (GFLOP/s)",
    ("", "GFLOP", "clprim", "share of peak", "oneDNN", "target"),
    (
        ("1×1 (×3)", "1.2", "300", "75% (70–80)", "200 (1.50×)", ""),
        ("3×3", "1", "8", "2%", "–", ""),
    ),
)
BYTES = Table(
    "Sums (GB/s)",
    ("", "data", "clprim", "ceiling", "share", "with launch", "NumPy"),
    (("small", "1 KB", "20.0", "read 40.0", "50% (40–60)", "5.0", "6.0"),),
)


def test_charts_show_what_a_user_waits_for_and_a_share_of_one_clock():
    rates, sums = panels_of([RATES, BYTES, Table("no contenders", ("", "a"), (("b", "c"),))])
    assert rates.lines[0] == Line("1×1", 300, None, 400, {"oneDNN": 200}, "75%")
    assert rates.lines[1].marks == {}
    (line,) = sums.lines
    assert (line.bar, line.inner, line.tick, line.marks) == (5, 20, 40, {"NumPy": 6})
    assert line.note == f"{line.inner / line.tick:.0%}"
    assert sums.inner == "clprim, on the device"


def test_times_of_normalisations_are_drawn_as_rates():
    columns = ("", "x", "clprim", "share", "PyTorch", "times as fast", "target")
    rows = (("a", "10.0 MB", "2.0", "–", "4.0", "2.00× (1–3)", ""), ("geometric mean", *[""] * 6))
    (panel,) = panels_of([Table("Net: forward (ms)", columns, rows)])
    assert panel.lines == (Line("a", 5, marks={"PyTorch": 2.5}, note="2.0×"),)


def test_a_summary_has_geometric_means_of_peers_that_did_every_row():
    (panel,) = panels_of([RATES])
    assert summary_of([panel] * 2) is None
    (line, *_) = summary_of([panel] * 3).lines
    assert line.bar == pytest.approx((300 * 8) ** 0.5)
    assert line.marks == {}
    assert line.note == "12%"


def test_every_contender_has_one_colour_and_mark():
    device = cp.current_device()
    peers = [*compute_peers(device), *available_peers(device), Grouped(device), Separate(device)]
    looks = {peer.name: look_of(peer.name) for peer in peers}
    assert len(set(looks.values())) == len(looks)
    assert look_of("PyTorch, NHWC") == look_of("PyTorch")


def test_a_chart(tmp_path):
    lines = (Line("one", 3, 3.5, 4, {"NumPy": 1.0}, "75%"), Line("two", 5, None))
    panels = [Panel("first", "GB/s", "clprim", "ceiling", "share", lines)]
    small, large, most = tmp_path / "small.png", tmp_path / "large.png", tmp_path / "most.png"
    draw(small, "Title", "Device", panels)
    draw(large, "Title", "Device", panels * 5)
    draw(most, "Title", "Device", panels * 20)
    assert imread(small).std() > 0  # not an empty page
    assert imread(large).shape[0] > 1.5 * imread(small).shape[0]
    assert imread(large).shape[1] == imread(small).shape[1]
    assert imread(most).shape[0] <= TALLEST


def test_a_recorded_page_is_read_back_and_drawn_again(tmp_path):
    page = tmp_path / "sums.md"
    report = Report("sum", "Sums", tables=(RATES, BYTES), verdicts=REPORT.verdicts)
    page.write_text(markdown(report, {"device": "D", "run": "2026-01-02 03:04 UTC, `x`"}))
    found = read_page(page)
    assert (found.title, found.date, found.outcome) == (
        "Sums",
        "2026-01-02 03:04",
        "0 of 1 targets",
    )
    assert found.tables == (RATES, BYTES)
    assert redraw(found)
    assert found.picture.exists()
    older = tmp_path / "older.md"
    older.write_text("# Older\n\n- run: 2025-01-02 03:04 UTC, `y`\n")
    assert not redraw(read_page(older))
    index = index_of(tmp_path)
    assert index.index("sums.md") < index.index("older.md")
    assert '<img src="sums.png"' in index
    assert "older.png" not in index


def test_the_index_of_the_recorded_results_is_up_to_date():
    if not (RESULTS / "README.md").exists():
        pytest.skip("no recorded results here")
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == index_of(RESULTS)


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="this system has no such call")
@pytest.mark.parametrize(
    ("policy", "said"), [("SCHED_OTHER", ""), ("SCHED_RR", ", real-time priority 10")]
)
def test_a_page_says_that_threads_had_priority(monkeypatch, policy, said):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: getattr(os, policy))
    monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(10))
    machine = setting(cp.current_device(), "reduce")["machine"]
    assert machine.endswith("real-time priority 10") if said else "priority" not in machine
