"""What a compiled call runs, as text: a kernel a line, what was fused, memory, time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from clprim.graph.apart import apart
from clprim.graph.graph import Graph, buffer_of
from clprim.graph.replay import Replay
from clprim.graph.text import Names, kind_text
from clprim.graph.timed import seconds_of
from clprim.runtime.ceilings import Measurement, ceilings_of
from clprim.runtime.device import Device
from clprim.text_table import format_table


class Ready(Protocol):
    """What a function does for one signature: traced, and ready to run."""

    traced: Graph
    replay: Replay


def explained(compiled: Ready, measured: tuple[Device, Sequence[Any]] | None = None) -> str:
    """Returns a table of kernels, memory, notes of passes, and what stands alone."""
    replay, before = compiled.replay, compiled.traced
    names = Names(replay.graph)
    headers = ["", "kernel", "strategy", "makes", "of", "MiB", "Mflop"]
    align, told, seconds, ceilings = "rllllrr", list[str](), list[float](), None
    if measured is not None:
        device, given = measured
        ceilings, seconds = ceilings_of(device), seconds_of(device, replay, given)
        headers += ["µs", "% of peak"]
        align += "rr"
        told = [f"{sum(seconds) * 1e6:.0f} µs on the device; its peaks: {ceilings}", ""]
    rows: list[list[object] | None] = []
    for n, step in enumerate(replay.steps):
        node, plan = step.node, step.launch.parts()[-1]
        choice = node.plan.choice
        row: list[object] = [
            n,
            plan.code.name,
            str(choice) if choice else "",
            ", ".join(map(names, node.writes)),
            ", ".join(map(kind_text, node.writes)),
            f"{plan.nbytes / 2**20:.2f}",
            f"{plan.flops / 1e6:.2f}",
        ]
        if ceilings is not None:
            row += [f"{seconds[n] * 1e6:.1f}", _share(plan, seconds[n], ceilings)]
        rows.append([*row, node.line.rpartition("/")[2]])
    lines = [
        f"{replay.graph.what}: {len(before.nodes)} calls traced, {len(replay.steps)} kernels, "
        f"{_memory(replay)}",
        "",
        format_table([*headers, "line"], rows, align=f"{align}l"),
        "",
        *told,
        *dict.fromkeys(replay.graph.notes),
        *apart(replay.graph, names),
    ]
    return "\n".join(lines)


def _share(plan: Any, seconds: float, ceilings: Measurement) -> str:
    """How much of the bandwidth, or of the arithmetic, a kernel takes: whichever is more."""
    if seconds <= 0:
        return "-"
    memory, arithmetic = plan.nbytes / ceilings.copy_bandwidth, plan.flops / ceilings.fp32_peak
    what = "bytes" if memory >= arithmetic else "flops"
    return f"{100 * max(memory, arithmetic) / seconds:.0f} {what}"


def _memory(replay: Replay) -> str:
    """What kernels keep between them, and all that a call takes at its peak."""
    graph, between = replay.graph, replay.allocations
    everything = {buffer_of(o) for o in (*graph.inputs, *graph.outputs)}
    everything |= {b for n in graph.nodes for b in n.buffers() if b.kind == "constant"}
    peak = between.nbytes + sum(b.nbytes for b in everything)
    return (
        f"{between.nbytes / 2**20:.1f} MiB between them (at least {between.live / 2**20:.1f}), "
        f"{peak / 2**20:.1f} MiB with inputs, constants and results"
    )
