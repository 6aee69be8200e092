"""``python -m bench subpixel``: its tables, what is launched, what is wrong or missed."""

import numpy as np
import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.subpixel import subpixel_report
from bench.work import subpixel
from bench.work.subpixel import FORMS, LAYERS, Launches, Network, SizeRow, StoreRow

FORMATS = {"NHWC": "channels_last", "NCHW": "contiguous"}
# Launches of convolutions (nine layers), of depth_to_space alone, of others.
EXPECTED = {
    "fused, NHWC": (9, 0, 0),
    "separate, NHWC": (9, 2, 0),
    "transposing, NHWC": (9, 2, 4),
    "fused, NCHW": (9, 0, 0),
    "separate, NCHW": (9, 2, 0),
    "converted, NCHW": (9, 0, 2),
}


def invoke(folder):
    arguments = ["subpixel", "--quick", "--repeats", "1", "--no-chart", "--output", str(folder)]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_command(tmp_path):
    result = invoke(tmp_path)
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    text = page.read_text(encoding="utf-8")
    assert [line.split(" | ")[4:7] for line in text.splitlines() if line.startswith("| fused")] == [
        ["9", "0", "0"]
    ] * 2
    for part in ("transposing, NHWC", "64→128 of 6 × 10 | NCHW", "PyTorch, NHWC", "--quick"):
        assert part in text


def test_a_wrong_result_is_an_error(tmp_path, monkeypatch):
    two = subpixel.ops.depth_to_space
    monkeypatch.setattr(subpixel.ops, "depth_to_space", lambda x, r, _: two(x, r, "DCR"))
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert "6 × 10: the result of separate, NHWC differs" in result.output
    assert "the result of fused" not in result.output


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.title)
def test_what_the_profile_shows(form):
    network = Network()
    host = np.random.default_rng(0).random((1, 3, 5, 17), np.float32)
    x = cp.asarray(host, memory_format=FORMATS[form.layout])
    network.run(x, form.how)  # weights are packed when they are first used
    with cp.profile() as profile:
        y = network.run(x, form.how)
    found = Launches.of(profile.events)
    assert (found.convolutions, found.shuffles, found.conversions) == EXPECTED[form.title]
    assert found.seconds > 0
    assert y.shape == (1, 3, 20, 68)
    assert y.strides == cp.empty(y.shape, memory_format=FORMATS[form.layout]).strides


def test_the_network_is_the_published_one():
    # Operations at 720 × 1280, and bytes of float32 that depth_to_space alone would read and write.
    assert round(subpixel._flops(720, 1280) / 1e8) == 6275
    pixels = 720 * 1280
    moved = [2 * 4 * o * pixels * times**2 for _, o, block, times in LAYERS if block > 1]
    assert [round(n / 1e7) for n in moved] == [94, 189]


def row(share, times, conversions=0, wrong=()):
    titles = [form.title for form in FORMS]
    spread = Spread(times, times, times)
    return SizeRow(
        (90, 160),
        10**10,
        dict.fromkeys([*titles, "PyTorch, NHWC"], 0.01),
        dict.fromkeys(titles, Launches(9, 0, conversions, 0.01)),
        dict.fromkeys(titles, Spread(share, share, share)),
        {"PyTorch, NHWC": spread},
        wrong,
    )


@pytest.mark.parametrize(
    "share, times, conversions, ratio, missed",
    [
        (0.01, 1.2, 0, 1.0, 0),
        (0.03, 1.2, 0, 1.0, 2),
        (0.01, 1.0, 0, 1.0, 1),
        (0.01, 1.2, 2, 1.0, 1),
        (0.01, 1.2, 3, 1.03, 4),
    ],
)
def test_promises_are_judged(share, times, conversions, ratio, missed):
    stores = [StoreRow("64→128", "NHWC", 0.01, Spread(ratio, ratio, ratio))]
    report = subpixel_report([row(share, times, conversions)], stores, [])
    assert [v.outcome for v in report.verdicts].count("MISSED") == missed
    assert not report.failures


def test_a_different_result_is_a_failure():
    report = subpixel_report([row(0.01, 1.2, wrong=("PyTorch, NHWC",))], [], [])
    assert report.failures == ("90 × 160: the result of PyTorch, NHWC differs",)
