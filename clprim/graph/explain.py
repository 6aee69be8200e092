"""What a compiled call runs, as text: a kernel a line, what was fused, memory, time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from clprim.errors import DeviceError
from clprim.graph.compiled import Compiled
from clprim.graph.graph import Buffer, Graph, Uses, buffer_of
from clprim.graph.one_launch import Walk
from clprim.graph.passes.layout.moves import moves_of
from clprim.graph.replay import Replay
from clprim.graph.steps import Step
from clprim.graph.store import copied, copy_memory
from clprim.graph.text import Names, kind_text
from clprim.plan.strides import Operand
from clprim.primitives.pointwise import Pointwise
from clprim.runtime import randomness
from clprim.runtime.ceilings import Measurement, ceilings_of
from clprim.runtime.device import Device
from clprim.runtime.profile import profile
from clprim.text_table import format_table

_RUNS = 5
_Name = Callable[[Operand], str]


def explained(compiled: Compiled, measured: tuple[Device, Sequence[Any]] | None = None) -> str:
    """Returns a table of kernels, memory, notes of passes, and what stands alone."""
    replay, before = compiled.replay, compiled.traced
    names = Names(replay.graph)
    headers = ["", "kernel", "strategy", "makes", "of", "MiB", "Mflop"]
    align, told, seconds, ceilings = "rllllrr", list[str](), list[float](), None
    phases, inside = dict(_phases(replay)), dict[int, float]()
    if measured is not None:
        device, given = measured
        ceilings, (seconds, inside) = ceilings_of(device), _seconds(device, replay, given)
        headers += ["µs", "% of peak"]
        align += "rr"
        whole = [f"{sum(seconds) * 1e6:.0f} µs on the device"]
        whole += [f"{sum(inside.values()) * 1e6:.0f} as phases"] if inside else []
        told = [f"{', '.join(whole)}; its peaks: {ceilings}", ""]
    if phases:
        headers += [*["µs as a phase"] * bool(inside), "tiles", "waits for"]
        align += "r" * bool(inside) + "rl"
    rows: list[list[object] | None] = []
    for n, step in enumerate(replay.steps):
        node, plan = step.node, step.launch.plan
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
        if inside:
            row.append(f"{inside[n] * 1e6:.1f}" if n in inside else "")
        if phases:
            row += phases.get(n, ("", "launched apart"))
        rows.append([*row, node.line.rpartition("/")[2]])
    lines = [
        f"{replay.graph.what}: {len(before.nodes)} calls traced, {len(replay.steps)} kernels, "
        f"{_memory(replay)}",
        "",
        format_table([*headers, "line"], rows, align=f"{align}l"),
        "",
        *told,
        *_launches(replay),
        *dict.fromkeys(replay.graph.notes),
        *_apart(replay.graph, names),
    ]
    return "\n".join(lines)


def _phases(replay: Replay) -> Iterator[tuple[int, tuple[object, object]]]:
    """Yields of kernels that are phases their tiles, and which kernels they wait for."""
    first = 0
    for part in replay.parts:
        if not isinstance(part, Walk):
            first += 1
            continue
        for n, (phase, tiles) in enumerate(zip(part.phases, part.tiles(), strict=True)):
            yield first + n, (tiles, ", ".join(str(first + m) for m in phase.waits) or "nothing")
        first += len(part.steps)


def _launches(replay: Replay) -> list[str]:
    """Returns a line where kernels are phases of a launch."""
    walks = [part for part in replay.parts if isinstance(part, Walk)]
    if not walks:
        return [
            f"launched apart at first; {len(walk.phases)} kernels in one launch would take "
            f"{walk.gain:.0%} less, by cost\n"
            for walk in replay.outlook
        ]
    each = ", ".join(
        f"{len(w.phases)} kernels of {len(w.code.bodies)} texts by {w.groups} work-groups"
        for w in walks
    )
    apart = len(replay.parts) - len(walks)
    return [
        f"phases of one launch: {each}; {apart} kernels apart"
        if apart
        else f"phases of one launch: {each}",
        "",
    ]


def _share(plan: Any, seconds: float, ceilings: Measurement) -> str:
    """How much of the bandwidth, or of the arithmetic, a kernel takes: whichever is more."""
    if seconds <= 0:
        return "-"
    memory, arithmetic = plan.nbytes / ceilings.copy_bandwidth, plan.flops / ceilings.fp32_peak
    what = "bytes" if memory >= arithmetic else "flops"
    return f"{100 * max(memory, arithmetic) / seconds:.0f} {what}"


def _seconds(
    device: Device, replay: Replay, given: Sequence[Any]
) -> tuple[list[float], dict[int, float]]:
    """Returns the median run time of every kernel apart, and what it adds to a launch as a phase.

    Times are the device's own. Nothing that the caller sees changes: the graph writes to copies of
    its inputs, what else it writes is put back, and random numbers go on where they were.
    """
    written = {buffer for node in replay.graph.nodes for buffer in node.written}
    with _restored(device, replay, written), randomness.at(randomness.get_state()):
        inputs = map(buffer_of, replay.graph.inputs)
        own: dict[int, Any] = {}
        for buffer, memory in zip(inputs, given, strict=True):
            if buffer in written and id(memory) not in own:
                own[id(memory)] = copied(device, memory, buffer.nbytes)
        memory = [own.get(id(each), each) for each in given]
        inside: dict[int, float] = {}
        first = 0
        for number, part in enumerate(replay.parts):
            if not isinstance(part, Walk):
                first += 1
                continue
            before = 0.0
            for n in range(len(part.phases)):
                with part.first(n + 1):
                    ended = _medians(device, replay, replay.parts, memory)[number]
                inside[first + n], before = max(0.0, ended - before), max(before, ended)
            first += len(part.phases)
        with replay.apart():
            return _medians(device, replay, replay.steps, memory), inside


def _medians(
    device: Device, replay: Replay, parts: Sequence[Step | Walk], memory: Sequence[Any]
) -> list[float]:
    """Returns the median seconds of the launches of a replay."""
    names = [part.launch.plan.code.name for part in parts]
    found: list[list[float]] = []
    for _ in range(_RUNS + 1):
        with profile(device) as seen:
            replay(memory)
        events = seen.events
        for n in range(len(events) - len(names) + 1):
            run = events[n : n + len(names)]
            if [event.name for event in run] == names:
                found.append([event.seconds for event in run])
                break
    if not found:
        raise DeviceError(f"{replay.graph.what}: no run could be timed on {device}")
    return [statistics.median(times) for times in zip(*found[1:] or found, strict=True)]


@contextmanager
def _restored(device: Device, replay: Replay, written: set[Buffer]) -> Iterator[None]:
    """Puts back what a block writes to arrays that the graph was not given."""
    there = [b for b in written if b.kind == "constant"]
    copies = [copied(device, replay.memory_of(b, ()), b.nbytes) for b in there]
    try:
        yield
    finally:
        for buffer, copy in zip(there, copies, strict=True):
            copy_memory(device, replay.memory_of(buffer, ()), copy, buffer.nbytes)


def _memory(replay: Replay) -> str:
    """What kernels keep between them, and all that a call takes at its peak."""
    graph, between = replay.graph, replay.allocations
    everything = {buffer_of(o) for o in (*graph.inputs, *graph.outputs)}
    everything |= {b for n in graph.nodes for b in n.touched if b.kind == "constant"}
    peak = between.nbytes + sum(b.nbytes for b in everything)
    return (
        f"{between.nbytes / 2**20:.1f} MiB between them (at least {between.live / 2**20:.1f}), "
        f"{peak / 2**20:.1f} MiB with inputs, constants and results"
    )


def _apart(graph: Graph, names: _Name) -> list[str]:
    """Returns a line for every elementwise node and copy: why no other kernel runs it."""
    uses, results = graph.uses, graph.results()
    found: list[str] = []
    for n, node in enumerate(graph.nodes):
        if not isinstance(node.primitive, Pointwise) and moves_of(node) is None:
            continue
        reasons: dict[str, None] = {}
        if node.draws:
            reasons["it draws random numbers"] = None
        for read in node.reads:
            reasons[_before(graph, uses, n, read, names)] = None
        for write in node.writes:
            buffer = buffer_of(write)
            if buffer in results or buffer.kind != "temporary":
                reasons[f"{names(write)} is a result"] = None
            else:
                readers = [m for m in uses.readers.get(buffer, ()) if m != n]
                reasons[_behind(graph, readers, write, names)] = None
        what = ", ".join(map(names, node.writes))
        found.append(f"{node.primitive.what} of {what} stands alone: {'; '.join(reasons)}")
    return found


def _before(graph: Graph, uses: Uses, n: int, read: Operand, names: _Name) -> str:
    """Why the kernel that makes an operand does not run the ``n``-th node as well."""
    buffer, name = buffer_of(read), names(read)
    if buffer.kind != "temporary":
        return f"{name} is given"
    writers = [m for m in uses.writers.get(buffer, ()) if m != n]
    if len(writers) != 1:
        return f"{name} is written by {len(writers)} kernels"
    readers = len(uses.readers.get(buffer, ()))
    if readers > 1:
        return f"{name} is read by {readers} kernels"
    over = any(buffer_of(write) is buffer for write in graph.nodes[n].writes)
    if buffer in graph.results() and not over:
        return f"{name} is a result"
    maker = graph.nodes[writers[0]]
    if maker.writes[0].shape != graph.nodes[n].problem.shape:
        return f"{maker.primitive.what} makes {name} in another shape"
    return f"{maker.primitive.what} takes no string of this kind"


def _behind(graph: Graph, readers: list[int], write: Operand, names: _Name) -> str:
    """Why the kernel that reads a result does not compute it."""
    if len(readers) != 1:
        return f"{names(write)} is read by {len(readers)} kernels"
    return f"{graph.nodes[readers[0]].primitive.what} reads {names(write)} from memory"
