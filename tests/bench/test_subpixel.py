"""The sub-pixel network: what each form launches, and that it is the published one."""

import pytest

import clprim as cp
from bench.__main__ import main
from bench.cases import subpixel
from bench.cases.subpixel import LAYERS, Network, flops, launches, run

# Launches of convolutions (nine layers), of depth_to_space alone, of others.
EXPECTED = {
    ("fused", "channels_last"): (9, 0, 0),
    ("separate", "channels_last"): (9, 2, 0),
    ("transposing", "channels_last"): (9, 2, 4),
    ("fused", "contiguous"): (9, 0, 0),
    ("separate", "contiguous"): (9, 2, 0),
    ("converted", "contiguous"): (9, 0, 2),
}


@pytest.mark.parametrize(("how", "memory_format"), EXPECTED, ids="-".join)
def test_what_the_profile_shows(how, memory_format):
    network = Network((5, 17), memory_format)
    x = network.device[0]
    y = run(network, x, how)  # weights are packed when they are first used
    *counts, seconds = launches(lambda: run(network, x, how))
    assert tuple(counts) == EXPECTED[how, memory_format]
    assert seconds > 0
    assert y.shape == (1, 3, 20, 68)
    assert y.strides == cp.empty(y.shape, memory_format=memory_format).strides


def test_the_network_is_the_published_one():
    # Operations at 720 × 1280, and bytes of float32 that depth_to_space alone would read and write.
    assert round(flops(720, 1280) / 1e8) == 6275
    pixels = 720 * 1280
    moved = [2 * 4 * o * pixels * side**2 for _, o, block, side in LAYERS if block > 1]
    assert [round(n / 1e7) for n in moved] == [94, 189]


def test_a_wrong_form_is_an_error(tmp_path, monkeypatch):
    two = subpixel.ops.depth_to_space
    monkeypatch.setattr(subpixel.ops, "depth_to_space", lambda x, r, _: two(x, r, "DCR"))
    words = ["subpixel", "--quick", "--repeats", "1", "--only", "Pictures"]
    assert main([*words, "--output", str(tmp_path)]) == 1
    (page,) = tmp_path.glob("*.md")
    text = page.read_text(encoding="utf-8")
    assert "NHWC: WRONG RESULT: clprim, separate" in text
    assert "RESULT: clprim**" not in text
