"""Whole networks in inference: clprim beside everyone else who runs them on this machine."""

from __future__ import annotations

import copy
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.compute import peak_gauge
from bench.clock.timing import Contender, Gauge, Spread, calm_race, ratio, stream
from bench.peers.compute import fetch, keep_memory
from bench.peers.nets import CallByCall, Compiled, net_peers
from bench.peers.peer import Peer
from bench.work.launch import probe
from bench.work.models import MODELS, SMALL, inputs_of, network, settled
from clprim.runtime.ceilings import best, peak_candidates
from clprim.runtime.device import Device

_BATCHES = (1, 8)
_NOT_HERE = {SMALL, "squeezenet1_0"}
# A sample: at least so many calls in a row, and so long; threads of all contenders are awake then.
_CALLS, _SECONDS = 2, 0.03
# Threads of what compiled or computed before spin for tens of milliseconds.
_CALM = 0.1
# Of the result's largest number.
_AGREE = 1e-4
_QUICK_SECONDS = 0.001
#: Stands among what was refused where a user ended a run: the page has what was measured before.
INTERRUPTED = "interrupted: the rows that follow were not measured"


@dataclass(frozen=True)
class NetJob:
    """One row.

    Attributes:
        name: A key of `bench.work.models.MODELS`.
        batch: Images, or rows of tokens.
    """

    name: str
    batch: int

    op = "inference"

    @property
    def title(self) -> str:
        """For readers."""
        return MODELS[self.name].label

    @property
    def label(self) -> str:
        """Its title with its batch."""
        return f"{self.title}, batch {self.batch}"

    @property
    def group(self) -> str:
        """The table that it stands in."""
        return f"Inference, batch {self.batch}, float32"


class NetInputs:
    """A network with what it takes and returns, for all contenders of a row.

    Attributes:
        model: In eval mode and channels-last format, on the CPU.
        given: Its argument there.
        expected: Its result there, as an array of NumPy.
    """

    NAME = "x"

    def __init__(self, job: NetJob) -> None:
        import torch

        model = settled(network(job.name)).requires_grad_(requires_grad=False)
        self.model = model.to(memory_format=torch.channels_last)
        self.given = inputs_of(job.name, job.batch)
        self.expected = fetch(self.model(self.given))

    @cached_property
    def contiguous(self) -> Any:
        """The argument as ONNX's runtimes take it."""
        return self.given.contiguous()

    @cached_property
    def here(self) -> Any:
        """The argument on the device."""
        return self.given.to("opencl")

    @cached_property
    def on_device(self) -> Any:
        """The model on the device."""
        return copy.deepcopy(self.model).to("opencl")

    @cached_property
    def onnx(self) -> bytes:
        """The model as PyTorch exports it."""
        import torch

        model = copy.deepcopy(self.model).to(memory_format=torch.contiguous_format)
        mha, file = torch.backends.mha, io.BytesIO()
        fast = mha.get_fastpath_enabled()
        mha.set_fastpath_enabled(False)  # whose one operator ONNX has not
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    model, (self.contiguous,), file, input_names=[self.NAME], dynamo=False
                )
        finally:
            mha.set_fastpath_enabled(fast)
        return file.getvalue()


@dataclass(frozen=True)
class Start:
    """The first call of a network in new processes.

    Attributes:
        cold: Seconds with nothing on disk.
        warm: Seconds with everything there.
    """

    cold: float
    warm: float


@dataclass(frozen=True)
class NetRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        seconds: Of one call by contender, the median run's.
        times: By peer, how many times as fast clprim is, compared round by round.
        error: Of clprim's result, relative to its largest number.
        wrong: Peers whose results are others; they are not timed.
        absent: Peers that could not run it, and why.
        kernels: That one call of clprim launches.
        memory: Bytes of the device that clprim takes beside the model and its argument.
        calm: Whether half of the rounds were undisturbed.
        start: The first call, where that was measured.
    """

    job: NetJob
    seconds: dict[str, float]
    times: dict[str, Spread]
    error: float
    wrong: tuple[str, ...] = ()
    absent: dict[str, str] = field(default_factory=dict)
    kernels: int = 0
    memory: int = 0
    calm: bool = True
    start: Start | None = None

    @property
    def correct(self) -> bool:
        """Whether clprim's result is PyTorch's."""
        return self.error <= _AGREE

    @property
    def best(self) -> str:
        """The fastest peer of another library; empty where none ran."""
        others = [name for name in self.times if name != CallByCall.name]
        return min(others, key=self.seconds.__getitem__, default="")


def net_names() -> tuple[str, ...]:
    """Return the networks that are measured unless some are named."""
    return tuple(name for name in MODELS if name not in _NOT_HERE)


def net_jobs(
    *, quick: bool = False, names: Sequence[str] = (), batches: Sequence[int] = ()
) -> list[NetJob]:
    """Return the rows of ``python -m bench nets``.

    Args:
        quick: Whether to take one small network, where none is named.
        names: Networks; all if there are none.
        batches: Images; 1 and 8 if there are none.
    """
    names = names or ((SMALL,) if quick else net_names())
    batches = batches or ((2,) if quick else _BATCHES)
    return [NetJob(name, batch) for batch in batches for name in names]


def run_nets(
    jobs: Sequence[NetJob],
    device: Device,
    peers: Sequence[str],
    *,
    repeats: int,
    progress: Callable[[str, float], None],
    quick: bool = False,
    starts: bool = True,
    keep: bool = False,
    own: type[Peer] = Compiled,
) -> tuple[list[NetRow], list[Peer], list[str]]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        peers: Keys of `bench.peers.nets.PEERS`.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.
        quick: Whether samples may be short.
        starts: Whether first calls are measured, in processes of their own.
        keep: Whether the C library is told to keep freed memory.
        own: What clprim makes of a network.

    Returns:
        The rows, the peers, those that are missing included, and why clprim does not run others,
        `INTERRUPTED` among them.
    """
    import torch

    if keep:
        keep_memory()
    everyone = net_peers(device, peers)
    gauge = peak_gauge(best(peak_candidates(device))[0])
    seconds = _QUICK_SECONDS if quick else _SECONDS
    rows, failures = [], []
    part = 1 / len(jobs)
    for job in jobs:
        about = f"{job.group}: {job.title}"
        tell = lambda what, p, about=about: progress(f"{about}: {what}", p)  # noqa: E731
        tell("first calls", 0)
        try:
            start = _start(job, device) if starts else None
            with torch.no_grad():
                row = _measure(
                    job, device, own(device), everyone, gauge, repeats, seconds, tell, part, start
                )
            rows.append(row)
        except Exception as error:  # hours of other rows are not given up for one
            failures.append(f"{job.label}: {type(error).__name__}: {str(error).strip()[:500]}")
        except KeyboardInterrupt:
            failures.append(INTERRUPTED)
            break
        device.pool.free_held()
    return rows, everyone, failures


def _measure(
    job: NetJob,
    device: Device,
    own: Peer,
    peers: Sequence[Peer],
    gauge: Gauge,
    repeats: int,
    seconds: float,
    tell: Callable[[str, float], None],
    part: float,
    start: Start | None,
) -> NetRow:
    tell("making it", 0)
    inputs = NetInputs(job)
    inputs.on_device, inputs.here  # noqa: B018 — what lies on the device before clprim begins
    device.pool.free_held()
    before = device.pool.managed_bytes
    mine = own.prepare(job, inputs)
    assert mine is not None
    error = _error(mine(), inputs)
    mine()
    memory = device.pool.managed_bytes - before
    with cp.profile(device) as profile:
        mine()
    kernels = len(profile.events)
    calls, wrong, absent = {own.name: mine}, [], {}
    for peer in peers:
        if peer.missing:
            continue
        tell(f"{peer.name} begins", 0)
        try:
            call = peer.prepare(job, inputs)
        except Exception as failure:  # what another library does not support
            absent[peer.name] = f"{type(failure).__name__}: {str(failure).strip()[:200]}"
            continue
        assert call is not None
        if _error(call(), inputs) > _AGREE:
            wrong.append(peer.name)
        else:
            calls[peer.name] = call
    time.sleep(_CALM)
    contenders: list[Contender] = [
        stream(name, job.batch, call, lambda: None, seconds=seconds, least=_CALLS)
        for name, call in calls.items()
    ]
    tick = lambda: tell("rounds", part / repeats)  # noqa: E731
    results, calm = calm_race(contenders, gauge, repeats, tick=tick)
    first = results[own.name]
    return NetRow(
        job,
        {name: median(results[name].seconds("host")) for name in calls},
        {name: ratio(first, results[name], "host") for name in calls if name != own.name},
        error,
        tuple(wrong),
        absent,
        kernels,
        memory,
        calm,
        start,
    )


def _error(found: Any, inputs: NetInputs) -> float:
    """Return the largest difference from PyTorch's result, relative to its largest number."""
    expected = inputs.expected
    difference = np.abs(fetch(found).reshape(expected.shape) - expected).max()
    return float(difference / np.abs(expected).max())


def _start(job: NetJob, device: Device) -> Start:
    """Time the first call in new processes: with an empty folder of kernels, then with a full one.

    Raises:
        RuntimeError: The second process built programs.
    """
    with tempfile.TemporaryDirectory() as folder:
        what = ("network", job.name, str(job.batch))
        cold, warm = (probe(*what, device=device, cache=Path(folder)) for _ in range(2))
    if warm["builds"]:
        raise RuntimeError(f"{job.title}: {warm['builds']:.0f} programs were not on disk")
    return Start(cold["call"], warm["call"])
