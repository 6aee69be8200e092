"""What a call costs on the host, and what the first one costs in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyopencl as cl

import clprim as cp
from bench.clock.timing import Contender, Result, Spread, batch, race, ratio, spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.peers.compute import OneDNN, Packing, Packs, Prepacked
from bench.peers.peer import SCALAR, Inputs, Peer, available_peers, definition
from bench.work.conv import Conv
from bench.work.workloads import FIRST_CALLS, IMPORT, LAUNCH, LAUNCH_CONV, LAUNCH_FRESH, LAUNCH_OUT
from clprim.runtime.device import Device
from clprim.tune.networks import Layer

_ROOT = Path(__file__).resolve().parents[2]
_BARE, _CALL = "bare enqueue", "kernel(queue, …)"
_OUT, _FRESH = "clprim, out=", "clprim"
_PROMISES = {_OUT: LAUNCH_OUT, _FRESH: LAUNCH_FRESH}
_CONV_PROMISES = {Packs.name: LAUNCH_CONV}
_CONV = Conv(Layer(16, 16, 3, 8, padding=1), 1, "channels_last", "forward")
_CONV_TITLE = f"conv2d, {_CONV.title}, one image, channels-last"
_TITLE = f"y0 = x0*w0 + x1, {LAUNCH.title}"
_CALLS, _QUICK_CALLS = 200, 20
_ROUNDS = 3  # a batch is short, so there are so many for each of --repeats
_PROCESSES, _QUICK_PROCESSES = 7, 1

_PLAIN_KERNEL = """
kernel void axpb(global float *y, global const float *x, global const float *b, float w)
{ y[get_global_id(0)] = x[get_global_id(0)] * w + b[get_global_id(0)]; }
"""


class Measured(NamedTuple):
    """A number of seconds with its promise.

    Attributes:
        title: What took so long.
        seconds: Of every run.
        target: The promise, if there is one.
    """

    title: str
    seconds: Sequence[float]
    target: Target | None = None


def bare_enqueue(device: Device, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the enqueue that a call of clprim makes, alone: same kernel, arguments already set.

    Raises:
        RuntimeError: The call enqueues no kernel through `pyopencl.enqueue_nd_range_kernel`.
    """
    made = []
    enqueue = cl.enqueue_nd_range_kernel

    def record(queue: cl.CommandQueue, kernel: cl.Kernel, *sizes: Any, **options: Any) -> cl.Event:
        made.append((kernel, *sizes[:2]))
        return enqueue(queue, kernel, *sizes, **options)

    with mock.patch.object(cl, "enqueue_nd_range_kernel", record):
        call()
    if not made:
        raise RuntimeError("the call enqueued no kernel: nothing to compare it with")
    kernel, global_size, local_size = made[-1]
    queue = device.queue
    return lambda: enqueue(queue, kernel, global_size, local_size)


def run_launch(
    device: Device, *, repeats: int, quick: bool, progress: Callable[[str, float], None]
) -> tuple[dict[str, Result], list[Peer]]:
    """Time small calls by the host, without waiting for them.

    Args:
        device: Where; the current one.
        repeats: A third of the number of batches.
        quick: Whether to make batches of a few calls only.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The results by name, and the peers.
    """
    inputs = Inputs(LAUNCH)
    op = definition(LAUNCH.op)
    x, b = inputs.device
    out = op(x, b, SCALAR)

    def with_out() -> Any:
        return op(x, b, SCALAR, out=out)

    peers = available_peers(device)
    calls = {
        _BARE: bare_enqueue(device, with_out),
        _OUT: with_out,
        _FRESH: lambda: op(x, b, SCALAR),
        _CALL: _kernel_call(device, x, b, out),
    }
    calls |= {peer.name: peer.prepare(LAUNCH, inputs) for peer in peers}
    return _race_calls("small calls", calls, device, repeats, progress, quick=quick), peers


def run_conv_launch(
    device: Device, *, repeats: int, quick: bool, progress: Callable[[str, float], None]
) -> tuple[dict[str, Result], list[Peer]]:
    """Time small convolutions by the host; see `run_launch` for arguments and results."""
    inputs = Inputs(_CONV)
    peers = [kind(device) for kind in (Packs, Packing, Prepacked, OneDNN)]
    calls = {peer.name: peer.prepare(_CONV, inputs) for peer in peers}
    calls = {_BARE: bare_enqueue(device, calls[Packs.name])} | calls
    return _race_calls("small convolutions", calls, device, repeats, progress, quick=quick), peers


def _race_calls(
    about: str,
    calls: dict[str, Callable[[], Any] | None],
    device: Device,
    repeats: int,
    progress: Callable[[str, float], None],
    *,
    quick: bool,
) -> dict[str, Result]:
    """Let calls take turns, a batch each; None of one is left out."""
    contenders: list[Contender] = [
        batch(name, call, device.synchronize, calls=_QUICK_CALLS if quick else _CALLS)
        for name, call in calls.items()
        if call is not None
    ]
    rounds = _ROUNDS * repeats
    progress(about, 0)
    return race(contenders, rounds, tick=lambda: progress(about, 1 / rounds))


def _kernel_call(device: Device, x: cp.Array, b: cp.Array, out: cp.Array) -> Callable[[], Any]:
    """Return the usual way to launch a kernel with PyOpenCL."""
    kernel = cl.Kernel(cl.Program(device.context, _PLAIN_KERNEL).build(), "axpb")
    queue, size = device.queue, (x.size,)
    arguments = (out.base_data, x.base_data, b.base_data, np.float32(SCALAR))
    return lambda: kernel(queue, size, None, *arguments)


def probe(*what: str, device: Device, cache: Path) -> dict[str, float]:
    """Return what `bench.work.probe` finds in a process of its own.

    Args:
        *what: Its arguments.
        device: The current one there.
        cache: Folder of the disk cache there.

    Raises:
        RuntimeError: It failed.
    """
    found = subprocess.run(
        [sys.executable, "-m", "bench.work.probe", *what],
        cwd=_ROOT,
        env={**os.environ, "CLPRIM_DEVICE": str(device.index), "CLPRIM_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise RuntimeError(f"python -m bench.work.probe {' '.join(what)} failed:\n{found.stderr}")
    answer: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return answer


def run_starts(
    device: Device, *, quick: bool, progress: Callable[[str, float], None]
) -> list[Measured]:
    """Time the import and the first calls in new processes; see `run_launch` for the arguments."""
    processes = _QUICK_PROCESSES if quick else _PROCESSES
    part = 1 / ((processes + 1) * (1 + len(FIRST_CALLS)))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)

        def runs(what: str, about: str) -> list[dict[str, float]]:
            progress(about, 0)
            answers = []
            for _ in range(processes + 1):  # the first one finds cold caches
                answers.append(probe(what, device=device, cache=cache))
                progress(about, part)
            return answers

        imports = runs("import", "import clprim")
        found.append(Measured("import clprim", [a["import"] for a in imports[1:]], IMPORT))
        listings = []
        for first in FIRST_CALLS:
            cold, *warm = runs(first.name, first.title)
            listings += [answer["listing"] for answer in warm]
            if any(answer["builds"] for answer in warm):
                raise RuntimeError(f"{first.title}: built a program although the cache was warm")
            title = f"{first.title}, warm disk cache"
            found.append(Measured(title, [answer["call"] for answer in warm], first.target))
            found.append(Measured(f"{first.title}, cold disk cache", [cold["call"]]))
        found.append(Measured("listing platforms and devices (OpenCL)", listings))
    return found


def launch_report(
    results: dict[str, Result],
    peers: Sequence[Peer],
    conv_results: dict[str, Result],
    conv_peers: Sequence[Peer],
    starts: Sequence[Measured],
    *,
    quick: bool,
) -> Report:
    """Lay the numbers out for readers."""
    excuse = "--quick" if quick else ""
    verdicts: list[Verdict] = []
    tables = []
    for title, found, promised, others in (
        (_TITLE, results, _PROMISES, peers),
        (_CONV_TITLE, conv_results, _CONV_PROMISES, conv_peers),
    ):
        calls: list[tuple[str, ...]] = []
        for name, result in found.items():
            times = _times_bare(result, found[_BARE])
            promises = [promised[name]] if name in promised else []
            judged = judge(promises, name, {"times bare": times.median}, excuse)
            verdicts += judged
            cells = f"{times.median:.2f}×", "\n".join(map(str, judged))
            calls.append((name, *_micro(result), *cells))
        missing = {peer.name for peer in others} - set(found)
        calls += [(name, "–", "–", "–", "") for name in sorted(missing)]
        columns = ("", "median µs", "quartiles", "times bare", "target")
        tables.append(Table(f"{title} (host microseconds a call)", columns, tuple(calls)))
    first: list[tuple[str, ...]] = []
    for start in starts:
        found = spread(start.seconds)
        promises = [start.target] if start.target else []
        judged = judge(promises, start.title, {"seconds": found.median}, excuse)
        verdicts += judged
        least = f"{min(start.seconds):.3f}"
        first.append((start.title, f"{found.median:.3f}", least, "\n".join(map(str, judged))))
    return Report(
        "launch",
        "Launches: what a call costs on the host",
        tables=(
            *tables,
            Table("A new process (seconds)", ("", "median", "least", "target"), tuple(first)),
        ),
        verdicts=tuple(verdicts),
        notes=_notes(peers, conv_peers),
    )


def _times_bare(result: Result, bare: Result) -> Spread:
    """Return how many times as long as a bare enqueue a call takes."""
    return ratio(bare, result, "host")


def _micro(result: Result) -> tuple[str, str]:
    found = spread([1e6 * seconds for seconds in result.seconds("host")])
    return f"{found.median:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def _notes(peers: Sequence[Peer], conv_peers: Sequence[Peer]) -> tuple[str, ...]:
    return (
        "A batch of calls in a row is timed by the host and the device finishes after the clock "
        "has stopped. The contenders take turns, a batch each; `times bare` is compared turn by "
        "turn.",
        f"{_BARE}: `enqueue_nd_range_kernel` of the kernel of “{_OUT}” (for `conv2d`, of "
        f"“{Packs.name}”), its arguments already set, on the same queue.",
        f"{_FRESH}: without `out=`, so that it allocates its result from the memory pool.",
        f"{_CALL}: the usual way to launch a hand-written kernel with PyOpenCL.",
        "NumPy, PyTorch and oneDNN compute the result before they return.",
        "First calls: defining the operator, making the context, uploading, launching and waiting; "
        "listing the platforms comes before and has a row of its own.",
        *(peer.note([LAUNCH.op]) for peer in peers),
        f"{Packs.name}, of `conv2d`: with `out=` and weights packed beforehand.",
        *(peer.note([_CONV.op]) for peer in conv_peers if peer.name != Packs.name),
    )
