"""Python in a child process: for work that a driver may end the process of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PREFIX = "clprim: "


def is_possible() -> bool:
    """Whether there can be one: not of an interpreter in another program, or frozen into one."""
    python = Path(sys.executable or "").name.startswith(("python", "pypy"))
    return python and not getattr(sys, "frozen", False)


def search_path() -> list[str]:
    """Returns where this process finds modules, for a child that begins elsewhere."""
    return [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - a string is wanted


def run(program: str, given: str = "", timeout: float | None = None) -> tuple[list[str], bool]:
    """Runs a program in Python, and returns what it says by `say` and whether it was in time."""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    in_time = True
    try:
        said, _ = child.communicate(given.encode() if given else None, timeout=timeout)
    except subprocess.TimeoutExpired:
        in_time = False
        child.kill()
        said, _ = child.communicate()
    lines = said.decode(errors="replace").split("\n")
    return [line[len(PREFIX) :] for line in lines if line.startswith(PREFIX)], in_time


def say(word: str) -> None:
    """Tells the parent a word, in the child, at once."""
    print(f"{PREFIX}{word}", flush=True)


def leave_no_core_file() -> None:
    """Lets a death, in the child, leave nothing behind."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def give_way() -> None:
    """Lets others, in the child, have most of the time of the cores, also where the parent has."""
    if hasattr(os, "SCHED_OTHER"):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if hasattr(os, "nice"):
        os.nice(10)
