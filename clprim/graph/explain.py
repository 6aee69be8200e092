"""What a compiled call runs, as text: a kernel a line, what was fused, memory."""

from __future__ import annotations

from typing import Protocol

from clprim.graph.apart import apart
from clprim.graph.graph import Graph
from clprim.graph.replay import Replay
from clprim.graph.text import Names, kind_text
from clprim.text_table import format_table


class Ready(Protocol):
    """What a function does for one signature: traced, and ready to run."""

    traced: Graph
    replay: Replay


def explained(compiled: Ready) -> str:
    """Returns a table of kernels, memory between them, notes of passes, and what stands alone."""
    replay, before = compiled.replay, compiled.traced
    names = Names(replay.graph)
    rows = []
    for n, step in enumerate(replay.steps):
        node, plan = step.node, step.launch.parts()[-1]
        choice = node.plan.choice
        rows.append(
            [
                n,
                plan.code.name,
                str(choice) if choice else "",
                ", ".join(map(names, node.writes)),
                ", ".join(map(kind_text, node.writes)),
                f"{plan.nbytes / 2**20:.2f}",
                f"{plan.flops / 1e6:.2f}",
                node.line.rpartition("/")[2],
            ]
        )
    headers = ["", "kernel", "strategy", "makes", "of", "MiB", "Mflop", "line"]
    memory = replay.allocations
    lines = [
        f"{replay.graph.what}: {len(before.nodes)} calls traced, {len(replay.steps)} kernels, "
        f"{memory.nbytes / 2**20:.1f} MiB between them (at least {memory.live / 2**20:.1f})",
        "",
        format_table(headers, rows, align="rllllrrl"),
        "",
        *dict.fromkeys(replay.graph.notes),
        *apart(replay.graph, names),
    ]
    return "\n".join(lines)
