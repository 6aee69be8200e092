"""Builds programs in a child process first, where the compiler may end the process.

Which compilers do is found out by a probe; of them a program is suspected that holds what they die
of. All others are built at once, and nothing is asked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import pyopencl as cl

from clprim.runtime import child, disk_cache, icd, probe, query

if TYPE_CHECKING:
    from clprim.runtime.device import Device

# An option with which compilers leave loops as they are.
CALM = b"-cl-opt-disable"
_LOOP = re.compile(r"\b(for|while)\s*\(")
_ONE_ITEM = "reqd_work_group_size(1, 1, 1)"
_CHILD = "import sys; sys.path[:] = {path!r}; from clprim.runtime.trial import main; main()"
BUILT, REFUSED, DIED = "built", "refused", "died"


def is_suspect(device: Device, source: str, texts: Iterable[str]) -> bool:
    """Whether a device's compiler may end the process of a program."""
    if _ONE_ITEM not in source or not any(_LOOP.search(text) for text in texts):
        return False
    found = probe.abilities(device.cl)
    return found is not None and "strided_sums" not in found


def outcomes(
    device: cl.Device,
    programs: Sequence[tuple[str, bytes, str]],
    timeout: float | None = None,
    *,
    aside: bool = False,
) -> list[str]:
    """Builds programs one after another in child processes, and returns what became of each.

    A death is found out, and the next child goes on behind it. What was built is kept on disk.
    Children that build ``aside`` have what cores are left by others.
    """
    if not child.is_possible():
        raise OSError("this interpreter cannot be started again")
    found: list[str] = []
    while len(found) < len(programs):
        left = [(source, flags.decode(), key) for source, flags, key in programs[len(found) :]]
        task = json.dumps([query.whereabouts(device), left, aside])
        said, in_time = child.run(_CHILD.format(path=child.search_path()), task, timeout)
        if not said:
            raise OSError("the child process did not begin")
        found += said[1:]
        if len(found) < len(programs):
            found += [DIED] * (1 if in_time else len(programs) - len(found))
    return found


def main() -> None:
    """Builds what `outcomes` asks for, in the child, and says what became of each."""
    import sys

    child.leave_no_core_file()
    where, programs, aside = json.loads(sys.stdin.read())
    if aside:
        child.give_way()
    icd.prepare()
    device = query.find(where)
    context = cl.Context([device])
    child.say("begin")
    for source, flags, key in programs:
        raw = cl._cl._Program(context, source)
        try:
            raw._build(options=flags.encode(), devices=[device])
            if key:
                disk_cache.store(
                    key, cast("list[bytes]", raw.get_info(cl.program_info.BINARIES))[0]
                )
        except cl.Error:
            child.say(REFUSED)
        else:
            child.say(BUILT)
    os._exit(0)  # some drivers crash on the way out
