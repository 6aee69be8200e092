"""Training steps of networks on the device ``opencl``, beside PyTorch's own CPU; their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.clock.compute import peak_gauge
from bench.clock.timing import Contender, Gauge, Spread, calm_race, host_call, ratio
from bench.peers.compute import keep_memory
from bench.work.compiled import compiled_step
from bench.work.models import MODELS, SMALL, inputs_of, network
from bench.work.nets import INTERRUPTED
from clprim.runtime.ceilings import best, peak_candidates
from clprim.runtime.device import Device

CALLS, COMPILED, TORCH = "clprim", "clprim, compiled", "PyTorch"
INDUCTOR = "inductor"
# Those that are trained, and the image sizes of what would take minutes at the usual one.
_NAMES = ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "squeezenet1_0", "vgg16")
_SIZES = {"vgg16": 112}
_BATCHES = (8,)
_MEMORY = ("resnet50", 8, 224)
# Losses of both, relative to the larger: sums are in another order.
_AGREE = 1e-3


@dataclass(frozen=True)
class StepJob:
    """One row.

    Attributes:
        name: A key of `bench.work.models.MODELS`.
        batch: Images.
        size: Their height and width.
    """

    name: str
    batch: int
    size: int

    @property
    def title(self) -> str:
        """For readers."""
        return f"{MODELS[self.name].title}, {self.size}²"

    @property
    def group(self) -> str:
        """The table that it stands in."""
        return f"Training step, batch {self.batch}, channels_last"


@dataclass(frozen=True)
class StepRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        rates: Images a second by contender, of the median run.
        times: How many times as fast as PyTorch the others are, compared round by round.
        beside: How many times as fast as inductor clprim's compiled step is, where both ran.
        absent: Why inductor did not run, if so.
        correct: Whether losses are PyTorch's.
        on_cpu: Overloads that ran on the CPU in the device's stead.
        calm: Whether half of the rounds were undisturbed.
    """

    job: StepJob
    rates: dict[str, float]
    times: dict[str, Spread]
    correct: bool
    on_cpu: tuple[str, ...]
    calm: bool = True
    beside: Spread | None = None
    absent: str = ""

    @property
    def label(self) -> str:
        """Which row it is."""
        return f"{self.job.group}: {self.job.title}"


@dataclass(frozen=True)
class Footprint:
    """Memory of a training step, of both.

    Attributes:
        job: Of which network.
        state: Bytes of parameters, momenta and statistics.
        rise: By contender, bytes that a step takes beside them at most.
        process: By contender, bytes of the whole process at most.
    """

    job: StepJob
    state: int
    rise: dict[str, int]
    process: dict[str, int]

    @property
    def times(self) -> float:
        """The device's state and rise over PyTorch's."""
        return (self.state + self.rise[CALLS]) / (self.state + self.rise[TORCH])


def step_jobs(
    *, quick: bool = False, names: Sequence[str] = (), batches: Sequence[int] = ()
) -> list[StepJob]:
    """Return the rows of ``python -m bench step``.

    Args:
        quick: Whether to take one small network, where none is named.
        names: Networks; the usual ones if there are none.
        batches: Images; 8 if there are none.
    """
    names = names or ((SMALL,) if quick else _NAMES)
    batches = batches or ((2,) if quick else _BATCHES)
    return [
        StepJob(name, batch, _SIZES.get(name, MODELS[name].size))
        for batch in batches
        for name in names
    ]


def run_steps(
    jobs: Sequence[StepJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
    keep: bool = False,
    inductor: bool = False,
) -> tuple[list[StepRow], list[str]]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.
        keep: Whether the C library is told to keep freed memory.
        inductor: Whether PyTorch's own compiler takes part.

    Returns:
        The rows, and why others are missing; see `bench.work.nets.INTERRUPTED`.
    """
    import clprim.torch

    if keep:
        keep_memory()
    clprim.torch.fallback("silent")
    gauge = peak_gauge(best(peak_candidates(device))[0])
    part = 1 / (len(jobs) * repeats)
    rows, failures = [], []
    for job in jobs:
        about = f"{job.group}: {job.title}"
        progress(about, 0)
        tick = lambda about=about: progress(about, part)  # noqa: E731
        try:
            rows.append(_measure(job, gauge, repeats, tick, inductor=inductor))
        except Exception as error:  # the others are not given up for one
            failures.append(f"{about}: {type(error).__name__}: {str(error).strip()[:500]}")
        except KeyboardInterrupt:
            failures.append(INTERRUPTED)
            break
        device.pool.free_held()
    return rows, failures


class TrainingStep:
    """A network that is trained by one step a call: forward, backward, SGD with momentum, fused.

    Args:
        job: Which network and images; all in channels-last format.
        where: ``cpu`` or ``opencl``.
    """

    def __init__(self, job: StepJob, where: str) -> None:
        import torch

        self.model = network(job.name).train().to(where, memory_format=torch.channels_last)
        self.images = inputs_of(job.name, job.batch, job.size).to(where)
        classes = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, 10, (job.batch,), generator=classes).to(where)
        # Small steps: what is timed must not run away.
        options = {"lr": 1e-4, "momentum": 0.9, "fused": True}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **options)
        self.forward = self._forward

    def _forward(self) -> Any:
        import torch

        return torch.nn.functional.cross_entropy(self.model(self.images), self.labels)

    def compiled(self, backend: str) -> TrainingStep:
        """Compile the forward pass with the loss, and the backward pass; return the step.

        Args:
            backend: Of `torch.compile`.
        """
        import torch

        self.forward = torch.compile(self._forward, backend=backend, dynamic=False)
        return self

    def __call__(self) -> Any:
        """Return the loss before the step."""
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss

    @property
    def state(self) -> int:
        """Bytes that stay: of parameters, momenta and statistics."""
        parameters = [p.nbytes for p in self.model.parameters()]
        return 2 * sum(parameters) + sum(b.nbytes for b in self.model.buffers())


def _measure(
    job: StepJob, gauge: Gauge, repeats: int, tick: Callable[[], None], *, inductor: bool
) -> StepRow:
    import torch

    torch._dynamo.reset()
    mine, theirs = (TrainingStep(job, where) for where in ("opencl", "cpu"))
    fallbacks = _counting()
    expected = theirs()
    correct = _close(mine(), expected)
    contenders: list[Contender] = [
        host_call(CALLS, job.batch, mine, _synchronize),
        host_call(TORCH, job.batch, theirs, lambda: None),
    ]
    whole = compiled_step(TrainingStep(job, "opencl"))
    correct = _close(whole(), expected) and correct
    contenders.append(host_call(COMPILED, job.batch, whole, _synchronize))
    absent = ""
    if inductor:
        other = TrainingStep(job, "cpu").compiled("inductor")
        try:
            correct = _close(other(), expected) and correct
            contenders.append(host_call(INDUCTOR, job.batch, other, lambda: None))
        except Exception as failure:  # what it does not support
            absent = f"{type(failure).__name__}: {str(failure).strip()[:200]}"
    results, calm = calm_race(contenders, gauge, repeats, tick=tick)
    names = [contender.name for contender in contenders]
    return StepRow(
        job,
        {name: job.batch / median(results[name].seconds("host")) for name in names},
        {n: ratio(results[n], results[TORCH], "host") for n in names if n != TORCH},
        correct,
        tuple(sorted(fallbacks)),
        calm,
        ratio(results[COMPILED], results[INDUCTOR], "host") if INDUCTOR in names else None,
        absent,
    )


def _synchronize() -> None:
    import torch

    torch.opencl.synchronize()


def _counting() -> dict[str, int]:
    """Return the counts of what runs on the CPU, which begin anew."""
    from clprim.torch import on_cpu

    on_cpu.counts.clear()
    return on_cpu.counts


def _close(mine: Any, theirs: Any) -> bool:
    """Whether tensors are the same but for rounding."""
    mine, theirs = mine.detach().cpu(), theirs.detach()
    return bool((mine - theirs).abs().max() <= _AGREE * theirs.abs().max())


# --- memory --------------------------------------------------------------------------------------


def run_memory(device: Device, *, quick: bool = False, compiled: bool = False) -> Footprint:
    """Measure the memory of a training step, each contender in a process of its own.

    Args:
        device: Where; the current one.
        quick: Whether to take a small network.
        compiled: Whether clprim's step is the compiled one.
    """
    name, batch, size = (SMALL, 2, MODELS[SMALL].size) if quick else _MEMORY
    job = StepJob(name, batch, size)
    number = str(device.index)
    places = (CALLS, "compiled" if compiled else "opencl"), (TORCH, "cpu")
    found = {who: _footprint(job, where, number) for who, where in places}
    state = found[TORCH]["state"]
    rise = {who: numbers["rise"] for who, numbers in found.items()}
    return Footprint(job, state, rise, {who: numbers["process"] for who, numbers in found.items()})


def _footprint(job: StepJob, where: str, device: str) -> dict[str, int]:
    command = [sys.executable, "-m", "bench.work.step_memory", where, job.name]
    command += [str(job.batch), str(job.size)]
    environment = {**os.environ, "CLPRIM_DEVICE": device}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return found
