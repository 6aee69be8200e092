"""Networks on the device ``opencl``, beside PyTorch's own CPU: training steps and inference."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.clock.timing import Contender, Result, Spread, host_call, race, ratio
from bench.peers.compute import keep_memory
from bench.peers.vision import SMALL, network
from clprim.runtime.device import Device

TRAINING, INFERENCE = "Training step", "Inference"
# Height and width of the images: what the networks were made for, where it does not take minutes.
_SIZES = {
    "resnet18": 224,
    "resnet50": 224,
    "mobilenet_v2": 224,
    "efficientnet_b0": 224,
    "squeezenet1_0": 224,
    "vgg16": 112,
}
_BATCHES = (8, 32)
_MEMORY = ("resnet50", 8, 224)
_QUICK_SIZE = 8
# Losses and outputs of both, relative to the larger: sums are in another order.
_AGREE = 1e-3


@dataclass(frozen=True)
class TorchJob:
    """One row.

    Attributes:
        kind: `TRAINING` or `INFERENCE`.
        network: As `bench.peers.vision.network` takes it.
        batch: Images.
        size: Their height and width.
    """

    kind: str
    network: str
    batch: int
    size: int

    @property
    def title(self) -> str:
        """For readers."""
        return f"{self.network}, {self.size}²"

    @property
    def group(self) -> str:
        """The table that it stands in."""
        return f"{self.kind}, batch {self.batch}, channels_last"


@dataclass(frozen=True)
class TorchRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        rates: Images a second by contender, of the median run.
        times: How many times as fast as PyTorch the others are, compared round by round.
        correct: Whether losses or outputs are PyTorch's.
        on_cpu: Overloads that ran on the CPU in the device's stead.
    """

    job: TorchJob
    rates: dict[str, float]
    times: dict[str, Spread]
    correct: bool
    on_cpu: tuple[str, ...]


@dataclass(frozen=True)
class Footprint:
    """Memory of a training step, of both.

    Attributes:
        job: Of which network.
        state: Bytes of parameters, momenta and statistics.
        rise: By contender, bytes that a step takes beside them at most.
        process: By contender, bytes of the whole process at most.
    """

    job: TorchJob
    state: int
    rise: dict[str, int]
    process: dict[str, int]

    @property
    def times(self) -> float:
        """The device's state and rise over PyTorch's."""
        return (self.state + self.rise["clprim"]) / (self.state + self.rise["PyTorch"])


def torch_jobs(
    *, quick: bool = False, only: str | None = None, batch: int | None = None
) -> list[TorchJob]:
    """Return the rows of ``python -m bench torch``.

    Args:
        quick: Whether to take one small network and few images.
        only: A network; None for all.
        batch: Images; None for 8 and 32.
    """
    sizes = {SMALL: _QUICK_SIZE} if quick else _SIZES
    batches = (batch,) if batch else (2,) if quick else _BATCHES
    return [
        TorchJob(kind, name, images, size)
        for kind in (TRAINING, INFERENCE)
        for images in batches
        for name, size in sizes.items()
        if only in (None, name)
    ]


def networks() -> tuple[str, ...]:
    """Return the networks that are measured."""
    return tuple(_SIZES)


def run_torch(
    jobs: Sequence[TorchJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
    keep: bool = False,
) -> list[TorchRow]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.
        keep: Whether the C library is told to keep freed memory.
    """
    import clprim.torch

    if keep:
        keep_memory()
    clprim.torch.fallback("silent")
    part = 1 / (len(jobs) * repeats)
    rows = []
    for job in jobs:
        about = f"{job.group}: {job.title}"
        progress(about, 0)
        measure = _training if job.kind == TRAINING else _inference
        rows.append(measure(job, repeats, lambda about=about: progress(about, part)))
        device.pool.free_held()
    return rows


class TrainingStep:
    """A network that is trained by one step a call: forward, backward, SGD with momentum, fused.

    Args:
        job: Which network and images; all in channels-last format.
        where: ``cpu`` or ``opencl``.
    """

    def __init__(self, job: TorchJob, where: str) -> None:
        import torch

        self.model = network(job.network).train().to(where, memory_format=torch.channels_last)
        images, labels = _data(job)
        self.images = images.to(where).contiguous(memory_format=torch.channels_last)
        self.labels = labels.to(where)
        # Small steps: what is timed must not run away.
        options = {"lr": 1e-4, "momentum": 0.9, "fused": True}
        self.optimizer = torch.optim.SGD(self.model.parameters(), **options)
        self.loss = torch.nn.functional.cross_entropy

    def __call__(self) -> Any:
        """Return the loss before the step."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    @property
    def state(self) -> int:
        """Bytes that stay: of parameters, momenta and statistics."""
        parameters = [p.nbytes for p in self.model.parameters()]
        return 2 * sum(parameters) + sum(b.nbytes for b in self.model.buffers())


def _data(job: TorchJob) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(1)
    images = torch.randn(job.batch, 3, job.size, job.size, generator=generator)
    return images, torch.randint(0, 10, (job.batch,), generator=generator)


def _training(job: TorchJob, repeats: int, tick: Callable[[], None]) -> TorchRow:
    mine, theirs = (TrainingStep(job, where) for where in ("opencl", "cpu"))
    fallbacks = _counting()
    correct = _close(mine(), theirs())
    contenders = [
        host_call("clprim", job.batch, mine, _synchronize),
        host_call("PyTorch", job.batch, theirs, lambda: None),
    ]
    results = race(contenders, repeats, tick=tick)
    return _row(job, results, correct, fallbacks)


def _inference(job: TorchJob, repeats: int, tick: Callable[[], None]) -> TorchRow:
    import torch

    import clprim.torch

    model = _settled(network(job.network)).eval().to(memory_format=torch.channels_last)
    images = _data(job)[0].contiguous(memory_format=torch.channels_last)
    there, ours = images.to("opencl"), copy.deepcopy(model).to("opencl")
    models = {
        "clprim": (ours, there),
        "clprim, fused": (clprim.torch.fuse(ours), there),
        "PyTorch": (model, images),
    }
    fallbacks = _counting()
    with torch.no_grad():
        outputs = {name: net(x) for name, (net, x) in models.items()}
        expected = outputs.pop("PyTorch")
        correct = all(_close(found, expected) for found in outputs.values())
        contenders: list[Contender] = [
            host_call(
                name,
                job.batch,
                lambda net=net, x=x: net(x),
                _synchronize if x is there else lambda: None,
            )
            for name, (net, x) in models.items()
        ]
        results = race(contenders, repeats, tick=tick)
    return _row(job, results, correct, fallbacks)


def _settled(model: Any) -> Any:
    """Give batch normalisations statistics that keep a network's numbers about 1."""
    import torch

    model.train()
    with torch.no_grad():
        model(torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(2)))
    return model


def _row(
    job: TorchJob, results: dict[str, Result], correct: bool, fallbacks: dict[str, int]
) -> TorchRow:
    rates = {name: job.batch / median(found.seconds("host")) for name, found in results.items()}
    times = {
        name: ratio(found, results["PyTorch"], "host")
        for name, found in results.items()
        if name != "PyTorch"
    }
    return TorchRow(job, rates, times, correct, tuple(sorted(fallbacks)))


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


def run_memory(device: Device, *, quick: bool = False) -> Footprint:
    """Measure the memory of a training step, each contender in a process of its own.

    Args:
        device: Where; the current one.
        quick: Whether to take a small network.
    """
    name, batch, size = (SMALL, 2, _QUICK_SIZE) if quick else _MEMORY
    job = TorchJob(TRAINING, name, batch, size)
    number = str(device.index)
    found = {
        name: _footprint(job, where, number)
        for name, where in (("clprim", "opencl"), ("PyTorch", "cpu"))
    }
    state = found["PyTorch"]["state"]
    rise = {who: numbers["rise"] for who, numbers in found.items()}
    return Footprint(job, state, rise, {who: numbers["process"] for who, numbers in found.items()})


def _footprint(job: TorchJob, where: str, device: str) -> dict[str, int]:
    command = [sys.executable, "-m", "bench.work.step_memory", where, job.network]
    command += [str(job.batch), str(job.size)]
    environment = {**os.environ, "CLPRIM_DEVICE": device}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return found
