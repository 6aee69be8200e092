"""Measures `bench.work.operator_cases`: clprim beside PyTorch, and beside the bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.bandwidth import Ceilings
from bench.clock.timing import Spread
from bench.work.beside import race_torch, run_rows
from bench.work.operator_case import Input, OpCase
from bench.work.operator_cases import op_cases
from clprim.runtime.device import Device


@dataclass(frozen=True)
class OpJob:
    """A case in one memory format, which is empty where arrays are no images."""

    case: OpCase
    memory_format: str = ""

    @property
    def title(self) -> str:
        """For readers."""
        return f"{self.case.title}{f', {self.memory_format}' if self.memory_format else ''}"


@dataclass(frozen=True)
class OpRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        nbytes: Of everything that is given and returned, once each.
        seconds: Of clprim on the host's clock, from the call until the results are there.
        share: Of the best copying or reading kernel, on the device; where that is the bound.
        theirs: Seconds of PyTorch; None where it is missing.
        times: How many times as fast as PyTorch clprim is, compared round by round.
        correct: Whether both agree.
    """

    job: OpJob
    nbytes: int
    seconds: float
    share: Spread | None
    theirs: float | None
    times: Spread | None
    correct: bool


def op_jobs(*, quick: bool = False, families: Sequence[str] = ()) -> list[OpJob]:
    """Return the rows of ``python -m bench ops``.

    Args:
        quick: Whether they are to be small.
        families: Which; all if there are none.
    """
    return [
        OpJob(case, memory_format)
        for case in op_cases(quick=quick)
        if not families or case.family in families
        for memory_format in (("contiguous", "channels_last") if case.images else ("",))
    ]


def _host(given: Input, random: np.random.Generator) -> np.ndarray[Any, Any]:
    if given.below == 2:
        return random.integers(0, 2, given.shape) != 0
    if given.below:
        return random.integers(0, given.below, given.shape)
    return np.asarray(random.standard_normal(given.shape), np.float32)


def _image(array: np.ndarray[Any, Any]) -> bool:
    return array.ndim == 4 and array.dtype == np.float32


def _arrays(job: OpJob, host: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    wanted = job.memory_format or None
    return [cp.asarray(a, memory_format=wanted if _image(a) else None) for a in host]


def _tensors(job: OpJob, host: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    import torch

    tensors = [torch.from_numpy(a) if a.ndim else torch.tensor(a[()]) for a in host]
    if job.memory_format == "channels_last":
        last = torch.channels_last
        tensors = [
            t.contiguous(memory_format=last) if _image(a) else t
            for t, a in zip(tensors, host, strict=True)
        ]
    return tensors


def _agree(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether results are the same but for rounding."""
    return len(mine) == len(theirs) and all(
        np.allclose(a.get(), b.detach().numpy(), rtol=1e-3, atol=1e-3 * float(b.abs().max()))
        for a, b in zip(mine, theirs, strict=True)
    )


def _measure(
    job: OpJob, device: Device, ceilings: Ceilings, repeats: int, tick: Callable[[], None]
) -> OpRow:
    random = np.random.default_rng(0)
    host = [_host(given, random) for given in job.case.inputs]
    arrays = _arrays(job, host)
    call = job.case.own(*arrays)
    found = call()
    nbytes = sum(a.nbytes for a in (*arrays, *found))

    def rival() -> tuple[Callable[[], Any], bool]:
        # A step of an optimizer changes what it is given: only the first ones are compared.
        other = job.case.theirs(*_tensors(job, host))
        return other, _agree(job.case.own(*arrays)(), other())

    raced = race_torch(nbytes, call, rival, job.case.ceiling, device, ceilings, repeats, tick)
    return OpRow(job, nbytes, *raced)


def run_ops(
    jobs: Sequence[OpJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
) -> tuple[list[OpRow], list[str]]:
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
        lambda job: f"{job.case.family}: {job.title}",
        repeats=repeats,
        progress=progress,
    )
