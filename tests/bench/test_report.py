"""Tables, Markdown, names of files, pictures."""

import io
from types import SimpleNamespace

import pytest
from matplotlib.image import imread
from rich.console import Console

import clprim as cp
from bench.page.chart import draw
from bench.page.report import Line, Panel, Report, Table, markdown, setting, show, slug
from bench.page.targets import Target, judge

TARGET = Target("share", 0.8, "of the ceiling")
REPORT = Report(
    "sum",
    "Sums",
    tables=(Table("Of x", ("", "a|b", "target"), (("one", "1.0", "x\ny"), ("two", "–", ""))),),
    panels=(),
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


def test_a_chart(tmp_path):
    lines = (Line("one", 3, 4, {"NumPy": 1.0, "PyTorch": None}, "75%"), Line("two", 5, None))
    panels = [Panel("first", "GB/s", "clprim", "ceiling", "share", lines)]
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    draw(small, "Title", "Device", panels)
    draw(large, "Title", "Device", panels * 3)
    assert imread(small).std() > 0  # not an empty page
    assert imread(large).shape[0] > 1.5 * imread(small).shape[0]
    assert imread(large).shape[1] == imread(small).shape[1]
