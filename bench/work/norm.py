"""Batch normalisations of two networks, and layer normalisations, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.bandwidth import Ceilings
from bench.clock.timing import Spread
from bench.work.beside import race_torch, run_rows
from clprim import ops
from clprim.runtime.device import Device

_BATCH = 32

# (channels, height and width) of every distinct batch normalisation, with how often it occurs.
# He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015, table 1; strides at the
# 3×3 layers ("v1.5").
_RESNET50 = (
    (64, 112, 1),
    (64, 56, 6),
    (256, 56, 4),
    (128, 56, 1),
    (128, 28, 7),
    (512, 28, 5),
    (256, 28, 1),
    (256, 14, 11),
    (1024, 14, 7),
    (512, 14, 1),
    (512, 7, 5),
    (2048, 7, 4),
)
# Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2, 2018, table 2.
_MOBILENETV2 = (
    (32, 112, 2),
    (16, 112, 1),
    (96, 112, 1),
    (96, 56, 1),
    (24, 56, 2),
    (144, 56, 3),
    (144, 28, 1),
    (32, 28, 3),
    (192, 28, 5),
    (192, 14, 1),
    (64, 14, 4),
    (384, 14, 8),
    (96, 14, 3),
    (576, 14, 5),
    (576, 7, 1),
    (160, 7, 3),
    (960, 7, 6),
    (320, 7, 1),
    (1280, 7, 1),
)
# (rows, width): a batch of 32 images in the vision transformer ViT-B/16 (Dosovitskiy and others
# 2020), in the first and last stage of ConvNeXt-T (Liu and others 2022), and a wide one.
_LAYERS = ((32 * 197, 768), (32 * 56 * 56, 96), (32 * 7 * 7, 768), (8192, 4096))

#: What ``--network`` names, with their titles.
NORM_NETWORKS = {
    "resnet50": "ResNet-50",
    "mobilenetv2": "MobileNetV2",
    "transformers": "Transformers",
}
_SHAPES = {"resnet50": _RESNET50, "mobilenetv2": _MOBILENETV2}
_KINDS = ("statistics", "training forward", "backward", "inference")


@dataclass(frozen=True)
class NormJob:
    """One row.

    Attributes:
        kind: What is computed; see `_KINDS`.
        network: Title of the network.
        shape: Of x.
        memory_format: ``contiguous`` or ``channels_last``.
        count: How often the network has it.
    """

    kind: str
    network: str
    shape: tuple[int, ...]
    memory_format: str = "contiguous"
    count: int = 1

    @property
    def title(self) -> str:
        """For readers: ``256×56² (×4)`` of images."""
        counted = f" (×{self.count})" if self.count > 1 else ""
        if len(self.shape) == 4:
            return f"{self.shape[1]}×{self.shape[2]}²{counted}"
        return "×".join(map(str, self.shape))

    @property
    def group(self) -> str:
        """The table that it stands in."""
        where = f", {self.memory_format}" if len(self.shape) == 4 else ""
        return f"{self.network}: {self.kind}{where}"

    @property
    def nbytes(self) -> int:
        """Of x."""
        return 4 * int(np.prod(self.shape))


@dataclass(frozen=True)
class NormRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        seconds: Of clprim on the host's clock, from the call until the results are there.
        share: Of the best read-only kernel, on the device; of statistics alone.
        theirs: Seconds of PyTorch; None where it is missing.
        times: How many times as fast as PyTorch clprim is, compared round by round.
        correct: Whether both agree.
    """

    job: NormJob
    seconds: float
    share: Spread | None
    theirs: float | None
    times: Spread | None
    correct: bool


def norm_jobs(*, quick: bool = False, network: str | None = None) -> list[NormJob]:
    """Return the rows of ``python -m bench norm``.

    Args:
        quick: Whether they are to be few and small.
        network: A key of `NORM_NETWORKS`; None for all.
    """
    found = []
    for name, title in NORM_NETWORKS.items():
        if network not in (None, name):
            continue
        if name not in _SHAPES:
            layers = ((64, 96),) if quick else _LAYERS
            found += [NormJob("layer norm", title, shape) for shape in layers]
            continue
        shapes = _SHAPES[name][-1:] if quick else _SHAPES[name]
        batch = 2 if quick else _BATCH
        found += [
            NormJob(kind, title, (batch, channels, size, size), memory_format, count)
            for kind in _KINDS
            for memory_format in ("contiguous", "channels_last")
            for channels, size, count in shapes
        ]
    return found


class _Data:
    """The arrays of a job, on the device and for PyTorch."""

    def __init__(self, job: NormJob) -> None:
        random = np.random.default_rng(0)
        small = random.integers(-8, 9, job.shape, np.int8)
        host = small.astype(np.float32)
        channels = job.shape[1]
        vectors = random.standard_normal((4, channels)).astype(np.float32)
        vectors[3] = vectors[3] ** 2 + 1
        self.x = cp.asarray(host, memory_format=job.memory_format if host.ndim == 4 else None)
        self.grad = cp.asarray(
            np.ascontiguousarray(host[::-1]),
            memory_format=job.memory_format if host.ndim == 4 else None,
        )
        self.vectors = [cp.asarray(vector) for vector in vectors]
        self.host, self.host_vectors = host, vectors

    def torch(self, job: NormJob) -> tuple[Any, Any, list[Any]]:
        """The same as tensors: x, grad, vectors."""
        import torch

        x = torch.from_numpy(self.host)
        grad = torch.from_numpy(np.ascontiguousarray(self.host[::-1]))
        if job.memory_format == "channels_last":
            x, grad = (t.contiguous(memory_format=torch.channels_last) for t in (x, grad))
        return x, grad, [torch.from_numpy(v) for v in self.host_vectors.copy()]


Call = Callable[[], Sequence[Any]]


def _own(job: NormJob, data: _Data) -> Call:
    """Return the call of clprim, which returns all of its results."""
    x, grad = data.x, data.grad
    weight, bias, mean, var = data.vectors
    if job.kind == "statistics":
        return lambda: ops.batch_norm_stats(x)
    if job.kind == "training forward":
        running = mean.copy(), var.copy()
        return lambda: ops.batch_norm_train(x, weight, bias, *running)
    if job.kind == "backward":
        return lambda: ops.batch_norm_backward(grad, x, weight, mean, var)
    if job.kind == "inference":
        return lambda: (ops.batch_norm(x, mean, var, weight, bias),)
    width = job.shape[1]
    return lambda: (ops.layer_norm(x, width, weight, bias),)


def _theirs(job: NormJob, data: _Data) -> Call:
    """Return PyTorch's call."""
    import torch

    functional = torch.nn.functional
    x, grad, (weight, bias, mean, var) = data.torch(job)
    if job.kind == "statistics":
        return lambda: torch.var_mean(x, dim=(0, 2, 3), correction=0)[::-1]
    if job.kind == "training forward":
        return lambda: (functional.batch_norm(x, mean, var, weight, bias, training=True),)
    if job.kind == "backward":
        backward = torch.ops.aten.native_batch_norm_backward
        everything = [True, True, True]
        return lambda: backward(grad, x, weight, None, None, mean, var, True, 1e-5, everything)
    if job.kind == "inference":
        return lambda: (functional.batch_norm(x, mean, var, weight, bias),)
    return lambda: (functional.layer_norm(x, job.shape[1:], weight, bias),)


def _agree(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether results are the same but for rounding."""
    return all(
        np.allclose(a.get(), b.numpy(), rtol=1e-3, atol=1e-3 * max(1, float(b.abs().max())))
        for a, b in zip(mine, theirs, strict=False)
    )


def _measure(
    job: NormJob, device: Device, ceilings: Ceilings, repeats: int, tick: Callable[[], None]
) -> NormRow:
    data = _Data(job)

    def rival() -> tuple[Callable[[], Any], bool]:
        other = _theirs(job, data)
        return other, _agree(call(), other())

    call, bound = _own(job, data), "read" if job.kind == "statistics" else ""
    return NormRow(
        job, *race_torch(job.nbytes, call, rival, bound, device, ceilings, repeats, tick)
    )


def run_norm(
    jobs: Sequence[NormJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
) -> tuple[list[NormRow], list[str]]:
    """Measure all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The rows, and a remark on each row that the device has no room for.
    """
    return run_rows(
        jobs,
        device,
        _measure,
        lambda job: f"{job.group}: {job.title}",
        repeats=repeats,
        progress=progress,
    )
