"""``clprim doctor``: what a device is, whether all is right on it, and how fast: a report to send.

It looks at what was probed, runs every family of kernels on odd shapes, in child processes that may
die of them, measures ceilings and a few workloads against them, and times other tiles for the worst
of these. A Markdown and a JSON file say what it found.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import clprim as cp
from clprim.command.doctor_checks import Found, checks, examined
from clprim.command.doctor_speed import Timed, Tuning, timed, tune, workloads
from clprim.errors import DeviceError
from clprim.runtime import probe
from clprim.runtime.ceilings import Measurement, measure
from clprim.runtime.device import Device
from clprim.runtime.progress import Progress
from clprim.text_table import format_table
from clprim.tune.ask import keep as keep_entries

_CHECKS = 180.0  # seconds for all of them


@dataclass(frozen=True)
class Findings:
    """Everything that the doctor found."""

    about: dict[str, str]
    traits: dict[str, Any]
    answers: tuple[str, ...]
    checks: tuple[Found, ...]
    left_out: int
    ceilings: Measurement | None
    timings: tuple[Timed, ...]
    tuning: Tuning | None
    seconds: float
    quick: bool

    @property
    def wrong(self) -> list[Found]:
        """Checks that failed."""
        return [found for found in self.checks if not found.right]

    def data(self) -> dict[str, Any]:
        """Returns it as JSON would have it."""
        told = dataclasses.asdict(dataclasses.replace(self, timings=(), tuning=None))
        told["timings"] = [
            {"workload": t.workload.name, "seconds": t.seconds, "flops": t.workload.flops,
             "nbytes": t.workload.nbytes, "share": t.share, "ceiling": t.ceiling}
            for t in self.timings
        ]  # fmt: skip
        if self.tuning is not None:
            told["tuning"] = {n: v for n, v in vars(self.tuning).items() if n != "entries"}
        return told


def run(folder: Path, *, quick: bool = False, keep: bool = False) -> int:
    """Examines the current device, prints what was found and writes the report."""
    device = cp.current_device()
    found = _findings(device, quick=quick)
    if keep and found.tuning is not None and found.tuning.entries:
        keep_entries(device, found.tuning.entries)
    name = re.sub(r"[^a-z0-9.]+", "-", f"{device.platform} {device.name}".lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(found)
    (folder / f"doctor-{name}.md").write_text(text, encoding="utf-8")
    data = json.dumps(found.data(), indent=1, ensure_ascii=False)
    (folder / f"doctor-{name}.json").write_text(f"{data}\n", encoding="utf-8")
    print(text, end="")
    print(f"\nwritten: {folder / f'doctor-{name}.md'} and .json, to be attached to an issue")
    return 1 if found.wrong else 0


def _findings(device: Device, *, quick: bool) -> Findings:
    start = time.perf_counter()
    wanted, work = list(checks(quick=quick)), list(workloads(quick=quick))
    progress = Progress(len(wanted) + len(work) + 2, sys.stderr)
    results = []
    for found in examined(device, wanted, quick=quick, seconds=_CHECKS):
        progress.step("families", f"{found.family}, {found.name}")
        results.append(found)
    ceilings, timings, tuning = None, [], None
    progress.step("ceilings", "copy, read, float32")
    try:
        ceilings = measure(device)
    except DeviceError as error:
        results.append(Found("ceilings", "measure", right=False, message=str(error)))
    if ceilings is not None:
        for workload in work:
            progress.step("workloads", workload.name)
            timings.append(timed(workload, ceilings, quick=quick))
        worst = min((t for t in timings if t.workload.tiled), key=lambda t: t.share)
        progress.step("tiles", worst.workload.name)
        tuning = tune(worst.workload, quick=quick)
    progress.end()
    return Findings(
        about=_about(device),
        traits=dataclasses.asdict(device.traits),
        answers=tuple(sorted(probe.abilities(device.cl) or ())),
        checks=tuple(results),
        left_out=len(wanted) - sum(found.family != "ceilings" for found in results),
        ceilings=ceilings,
        timings=tuple(timings),
        tuning=tuning,
        seconds=time.perf_counter() - start,
        quick=quick,
    )


def _about(device: Device) -> dict[str, str]:
    return {
        "device": device.name,
        "platform": device.platform,
        "driver": device.driver,
        "type": device.type,
        "version": device.version,
        "memory": f"{device.cl.global_mem_size / 2**30:.1f} GiB",
        "clprim": cp.__version__,
        "pyopencl": metadata.version("pyopencl"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }


def markdown(found: Findings) -> str:
    """Returns the report for readers."""
    families = Counter(check.family for check in found.checks)
    right = Counter(check.family for check in found.checks if check.right)
    rows = [(family, right[family], count) for family, count in families.items()]
    parts = [
        f"# clprim doctor: {found.about['device']}\n",
        _list(found.about),
        "## What was probed\n",
        _list({name: str(value) for name, value in found.traits.items()}),
        f"The compiler answered yes to: {', '.join(found.answers) or 'nothing'}.\n",
        "## Families\n",
        _table(["family", "right", "of"], "lrr", rows),
    ]
    if found.wrong:
        parts += [f"- **{c.family}, {c.name}**: {c.message}" for c in found.wrong]
        parts.append("")
    if found.left_out:
        parts.append(f"{found.left_out} checks had no time and were not run.\n")
    if found.ceilings is not None:
        parts += ["## Speed\n", f"Ceilings: {found.ceilings}.\n", _table(*_speed(found.timings))]
        parts.append(
            "By the host's clock, launches included. A share above 100 %: a cache holds all, or "
            "Winograd's algorithm computes fewer products than are counted.\n"
        )
    if found.tuning is not None:
        t = found.tuning
        parts.append(
            f"Tiles of {t.workload}: {t.before} is the rule's; the best of {t.tried} is {t.best}, "
            f"{t.gain:.2f} times as fast.\n"
        )
    short = " Quick form: times say little." if found.quick else ""
    parts.append(f"It took {found.seconds:.0f} seconds.{short}")
    return "\n".join(parts) + "\n"


def _list(pairs: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in pairs.items()) + "\n"


def _table(headers: Sequence[str], align: str, rows: Sequence[Sequence[object]]) -> str:
    """A table that is plain text in Markdown too."""
    return f"```\n{format_table(headers, [list(row) for row in rows], align=align)}\n```\n"


def _speed(
    timings: Sequence[Timed],
) -> tuple[list[str], str, list[tuple[object, ...]]]:
    rows: list[tuple[object, ...]] = [
        (t.workload.name, f"{1e3 * t.seconds:.3f}", t.rate, f"{100 * t.share:.0f} %", t.ceiling)
        for t in timings
    ]
    return ["workload", "ms", "reached", "share", "of"], "lrrrl", rows
