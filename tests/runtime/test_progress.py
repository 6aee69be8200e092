"""The line that says what somebody is waiting for."""

import io
import sys
import time

import numpy as np

import clprim as cp
from clprim import ops
from clprim.graph import steps
from clprim.runtime import progress


def terminal(monkeypatch):
    """Lets standard error be a terminal until the test ends; returns what is written there."""
    monkeypatch.setattr(progress, "_STEP", 0.02)
    written = io.StringIO()
    written.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", written)
    return written


def test_nothing_is_written_to_files(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_STEP", 0.02)
    with progress.waiting("compiling", patience=0.01):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_terminal_sees_how_long_it_takes(monkeypatch):
    written = terminal(monkeypatch)
    with progress.waiting("compiling", patience=0.01):
        time.sleep(0.2)
    shown = written.getvalue()
    assert "\r\033[Kcompiling: 0 s" in shown
    assert shown.endswith("\033[K")


def test_steps_fill_a_bar(monkeypatch):
    written = terminal(monkeypatch)
    with progress.waiting("building", 4, patience=0.01) as done:
        done()
        time.sleep(0.1)
    bar = "█" * 6 + "░" * 18
    assert f"\r\033[Kbuilding: {bar} 1 of 4, 0 s" in written.getvalue()


def test_what_is_done_soon_shows_nothing(monkeypatch):
    written = terminal(monkeypatch)
    with progress.waiting("building", 4, patience=60) as done:
        done()
    assert written.getvalue() == ""


def test_kernels_of_a_graph_are_counted(device, monkeypatch):
    written = terminal(monkeypatch)

    def slow(*args, **options):
        time.sleep(0.1)
        return build(*args, **options)

    build = steps.built
    monkeypatch.setattr(steps, "built", slow)
    monkeypatch.setattr(steps, "_PATIENCE", 0.01)
    x = cp.asarray(np.ones((4, 5), np.float32))
    cp.jit(lambda x: ops.softmax(ops.softmax(x, 1), 0))(x)
    assert "building kernels: " in written.getvalue()
