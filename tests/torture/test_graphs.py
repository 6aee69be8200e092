"""A short run of `python -m bench torture --graphs` from fixed seeds; and it would see a fault."""

import re
from collections import Counter

import pytest

import clprim as cp
from bench.__main__ import main
from bench.torture.case import WrongError
from bench.torture.draw import Draw
from bench.torture.graphs import networks, run
from bench.torture.graphs.compare import compared
from bench.torture.graphs.draw import Drawing
from bench.torture.graphs.functions import draw_program
from bench.torture.graphs.program import Given, Program
from bench.torture.graphs.shrink import shrunk
from clprim.graph.passes.rewrite import Rewrite

SEED = 20260
pytestmark = pytest.mark.usefixtures("unoptimised", "device")


def test_drawn_graphs_are_what_they_are_uncompiled(device):
    for number in range(6):
        run.run_graph(device, SEED, number)


def test_a_graph_is_drawn_the_same_from_the_same_seed():
    first, again, other = (draw_program(SEED, n) for n in (1, 1, 5))
    assert first == again != other
    assert "def f(" in first[1].script()


def test_some_functions_have_the_same_lines_in_another_order():
    (_, first), (_, second) = (draw_program(SEED, n) for n in (0, 1))
    assert first.lines != second.lines and sorted(first.lines) == sorted(second.lines)
    assert first.returned == second.returned


def test_what_networks_repeat_meets_the_passes_for_it(device):
    changed = Counter()
    for number, part in enumerate(networks.PARTS):
        drawing = Drawing(Draw(SEED + 1, number), (SEED,), "smooth")
        shape = (6, 8) if part is networks.gradients else (2, 16, 5, 6)
        last = ".transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)" if len(shape) == 4 else ""
        drawing.add(Given("a0", shape, "float32", last, kind="smooth"))
        assert part(drawing)
        assert not compared(drawing.program(), "smooth", changed)
    assert {"batch norm folding", "rematerialisation"} <= {*changed}
    if device.traits.is_cpu:
        assert {"squeeze and excitation", "prologue fusion"} <= {*changed}


A, C = Given("a0", (4, 6), "float32"), Given("c1", (6,), "float32")
LINES = (
    "v0 = a0 * 2",
    "v1 = ops.softmax(a0, -1)",
    "v2 = v0 + c1",
    "a0[...] = v1",
    "v3 = v2 - 1",
    "v4, v5 = ops.chunk(v3, 2, 0)",
    "v6 = ops.cat([v5, v4], 1)",
)
PROGRAM = Program((A, C), LINES, ("v6", "v1"))


def faulty(monkeypatch):
    """Lets nodes run where what they read was overwritten."""
    monkeypatch.setattr(Rewrite, "can_sink", lambda *_: True)


def test_a_fault_is_seen_and_made_small(device, monkeypatch):
    assert not compared(PROGRAM, "smooth")
    monkeypatch.setattr(run, "draw_program", lambda *_: ("smooth", PROGRAM))
    assert run.run_graph(device, SEED, 0)
    faulty(monkeypatch)
    with pytest.raises(WrongError, match="elements differ") as error:
        run.run_graph(device, SEED, 0)
    message = str(error.value)
    assert f"bench torture --graphs --seed {SEED} --case 0" in message
    script = message[message.index("from collections") :]
    body = script[script.index("def f(") : script.index("def given")]
    assert body.count("\n    ") <= 5
    with pytest.raises(AssertionError):
        exec(script, {})
    monkeypatch.undo()
    exec(script, {})


def test_sums_over_an_image_that_lies_otherwise_may_round_otherwise():
    image = Given("a1", (2, 8, 4, 4), "float32", kind="smooth")
    weight = Given("a2", (8, 8, 1, 1), "float32", kind="smooth", most=1)
    lines = (
        "v0 = ops.conv2d(a1, a2)",
        "v1 = ops.contiguous(v0 + v0, memory_format='channels_last')",
        "v2 = ops.mean(v1, (2, 3), keepdims=True)",
    )
    assert not compared(Program((image, weight), lines, ("v2",)), "smooth")


def test_what_is_captured_is_in_the_script(capsys):
    exec(PROGRAM.script(), {})
    assert "def f(a0: float32[4, 6])" in capsys.readouterr().out


def test_a_program_shrinks_to_what_fails():
    small = shrunk(PROGRAM, lambda p: any("a0[...]" in line for line in p.lines), 30.0)
    assert len(small.lines) == 1


def test_the_command_prints_its_seed_and_counts(device, monkeypatch, capsys):
    arguments = ["torture", "--graphs", "--minutes", "0.01", "--device", str(device.index)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert re.search(r"^\d+ graphs without a difference$", said, re.MULTILINE)
    seed = re.search(r"^seed (\d+), on:$", said, re.MULTILINE)[1]
    assert main([*arguments, "--seed", seed, "--case", "0"]) == 0
    assert "numbers: right" in capsys.readouterr().out
    monkeypatch.setattr(run, "draw_program", lambda *_: ("smooth", PROGRAM))
    faulty(monkeypatch)
    assert main(arguments) == 1 and "def f(" in capsys.readouterr().err
    assert cp.current_device() == device
