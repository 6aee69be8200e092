"""ONNX models: clprim beside the runtimes that read the same file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

import clprim as cp
from bench.clock.compute import peak_gauge
from bench.clock.timing import Contender, Gauge, Spread, calm_race, ratio, stream
from bench.peers.nets import OpenVino
from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Call, Peer
from bench.work.launch import probe
from bench.work.models import MODELS, SMALL
from bench.work.nets import NetInputs, NetJob
from bench.work.package_models import PACKAGE_MODELS
from clprim.runtime.ceilings import best, peak_candidates
from clprim.runtime.device import Device

PACKAGES, EXPORTED = "packages", "exported"
# Exported again and again elsewhere; the others of `MODELS` say nothing more.
_EXPORTED = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121",
    "shufflenet_v2_x1_0", "googlenet", "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip
_BATCHES = (1, 8)
# As of `bench.work.nets`.
_CALLS, _SECONDS, _QUICK_SECONDS, _CALM, _AGREE = 2, 0.03, 0.001, 0.1, 1e-4
# What outputs may differ by: so much, or so many times what ONNX Runtime differs from itself.
_NOISE = 4


@dataclass(frozen=True)
class ImportedJob:
    """One row.

    Attributes:
        kind: `PACKAGES` or `EXPORTED`.
        name: A key of `PACKAGE_MODELS`, or of `bench.work.models.MODELS`.
        batch: Images.
    """

    kind: str
    name: str
    batch: int = 1

    op: ClassVar[str] = "imported"

    @property
    def title(self) -> str:
        """For readers."""
        return PACKAGE_MODELS[self.name].title if self.kind == PACKAGES else MODELS[self.name].label

    @property
    def group(self) -> str:
        """The table that it stands in."""
        of = "Models of packages" if self.kind == PACKAGES else "Exported networks"
        return f"{of}, batch {self.batch}, float32"

    @property
    def label(self) -> str:
        """Its title with its batch."""
        return f"{self.title}, batch {self.batch}"


class ImportedInputs:
    """A model with what it takes.

    Attributes:
        model: The file's bytes.
        given: Inputs by name.
    """

    def __init__(self, job: ImportedJob) -> None:
        if job.kind == PACKAGES:
            file = PACKAGE_MODELS[job.name].file
            assert file is not None
            self.model, self.given = file.read_bytes(), PACKAGE_MODELS[job.name].given()
        else:
            made = NetInputs(NetJob(job.name, job.batch))
            self.model, self.given = made.onnx, {made.NAME: made.contiguous.numpy()}

    @cached_property
    def expected(self) -> list[np.ndarray[Any, Any]]:
        """ONNX Runtime's outputs, without its optimisations."""
        return self._run("ORT_DISABLE_ALL")

    @cached_property
    def noise(self) -> float:
        """By how much its outputs differ with them: what rounding makes of these inputs."""
        return _error(self._run("ORT_ENABLE_ALL"), self.expected)

    def _run(self, level: str) -> list[np.ndarray[Any, Any]]:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        session = ort.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        found: list[np.ndarray[Any, Any]] = session.run(None, self.given)
        return found


class Imported(Peer):
    """This project: arrays of the device in and out."""

    name = "clprim"
    remarks: ClassVar = {"imported": "`clprim.onnx.load`, inputs and outputs on the device"}

    def imported(self, workload: ImportedJob, inputs: ImportedInputs) -> Call:
        """The model, called."""
        import clprim.onnx

        net, finish = clprim.onnx.load(inputs.model), self.device.synchronize
        given = {n: cp.asarray(v) if v.ndim else v for n, v in inputs.given.items()}

        def call() -> Any:
            found = net(given)
            finish()
            return [v.get() for v in found.values()] if isinstance(found, dict) else found

        def timed() -> Any:
            net(given)
            finish()

        call.timed = timed  # type: ignore[attr-defined]
        return call


@dataclass(frozen=True)
class Loading:
    """Loading a model and its first call, in seconds.

    Attributes:
        own: Of clprim, kernels on disk.
        session: Of ONNX Runtime.
    """

    own: float
    session: float


@dataclass(frozen=True)
class ImportedRow:
    """What was measured of one job.

    Attributes:
        job: Which.
        seconds: Of one call by contender, the median run's.
        times: By peer, how many times as fast clprim is, compared round by round.
        error: Of clprim's outputs, relative to the largest number of each.
        absent: Peers that could not run it, and why.
        kernels: That one call of clprim launches.
        host: Warnings of operators that ran on the host.
        calm: Whether half of the rounds were undisturbed.
        loading: The model read and called for the first time, where that was measured.
        noise: By how much ONNX Runtime's outputs differ with and without its optimisations.
    """

    job: ImportedJob
    seconds: dict[str, float]
    times: dict[str, Spread]
    error: float
    absent: dict[str, str] = field(default_factory=dict)
    kernels: int = 0
    host: tuple[str, ...] = ()
    calm: bool = True
    loading: Loading | None = None
    noise: float = 0.0

    @property
    def correct(self) -> bool:
        """Whether clprim's outputs are ONNX Runtime's."""
        return self.error <= max(_AGREE, _NOISE * self.noise)


def imported_jobs(*, quick: bool = False, names: Sequence[str] = ()) -> list[ImportedJob]:
    """Returns the rows of ``python -m bench onnx``: of packages those that are installed.

    Args:
        quick: Whether to take one small network, where none is named.
        names: Keys of `PACKAGE_MODELS` and of `MODELS`; all if there are none.
    """
    if quick and not names:
        return [ImportedJob(EXPORTED, SMALL, 2)]
    packages = [n for n in PACKAGE_MODELS if n in names or not names]
    found = [ImportedJob(PACKAGES, n) for n in packages if PACKAGE_MODELS[n].file is not None]
    exported = [n for n in MODELS if n in (names or _EXPORTED)]
    return found + [ImportedJob(EXPORTED, n, b) for b in _BATCHES for n in exported]


def absent_packages(names: Sequence[str] = ()) -> list[str]:
    """Returns packages with models that are not installed."""
    wanted = [m for n, m in PACKAGE_MODELS.items() if n in names or not names]
    return sorted({m.package for m in wanted if m.file is None})


def run_imported(
    jobs: Sequence[ImportedJob],
    device: Device,
    *,
    repeats: int,
    progress: Callable[[str, float], None],
    quick: bool = False,
    starts: bool = True,
) -> tuple[list[ImportedRow], list[Peer], list[str]]:
    """Measures all rows.

    Args:
        jobs: The rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.
        quick: Whether samples may be short.
        starts: Whether loading is measured, in processes of their own.

    Returns:
        The rows, the peers, those that are missing included, and why clprim does not run others.
    """
    peers: list[Peer] = [OnnxRuntime(device), OpenVino(device)]
    gauge = peak_gauge(best(peak_candidates(device))[0])
    rows, failures = [], []
    for job in jobs:
        about = f"{job.group}: {job.title}"
        tell = lambda what, p, about=about: progress(f"{about}: {what}", p)  # noqa: E731
        try:
            part = 1 / len(jobs) / repeats
            seconds = _QUICK_SECONDS if quick else _SECONDS
            rows.append(_measure(job, device, peers, gauge, repeats, seconds, tell, part, starts))
        except Exception as error:  # hours of other rows are not given up for one
            failures.append(f"{job.label}: {type(error).__name__}: {str(error).strip()[:500]}")
        device.pool.free_held()
    return rows, peers, failures


def _measure(
    job: ImportedJob, device: Device, peers: Sequence[Peer], gauge: Gauge, repeats: int,
    seconds: float, tell: Callable[[str, float], None], part: float, starts: bool,
) -> ImportedRow:  # fmt: skip
    import warnings

    tell("making it", 0)
    inputs = ImportedInputs(job)
    expected = inputs.expected
    own = Imported(device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mine = own.imported(job, inputs)
        error = _error(mine(), expected)
    host = tuple(str(w.message) for w in said if "on the host" in str(w.message))
    mine()
    timed = mine.timed  # type: ignore[attr-defined]
    with cp.profile(device) as profile:
        timed()
    calls, absent = {own.name: timed}, {}
    for peer in peers:
        if peer.missing:
            continue
        tell(f"{peer.name} begins", 0)
        try:
            call = peer.prepare(job, inputs)  # type: ignore[arg-type]
            assert call is not None
            call()
            calls[peer.name] = call
        except Exception as failure:  # what another library does not support
            absent[peer.name] = f"{type(failure).__name__}: {str(failure).strip()[:200]}"
    tell("loading", 0)
    loading = _loading(inputs, device) if starts else None
    time.sleep(_CALM)
    contenders: list[Contender] = [
        stream(name, job.batch, call, lambda: None, seconds=seconds, least=_CALLS)
        for name, call in calls.items()
    ]
    results, calm = calm_race(contenders, gauge, repeats, tick=lambda: tell("rounds", part))
    first = results[own.name]
    return ImportedRow(
        job,
        {name: median(results[name].seconds("host")) for name in calls},
        {name: ratio(first, results[name], "host") for name in calls if name != own.name},
        error, absent, len(profile.events), host, calm, loading, inputs.noise,
    )  # fmt: skip


def _error(found: Any, expected: Sequence[np.ndarray[Any, Any]]) -> float:
    outputs = found if isinstance(found, list) else [found]
    worst = 0.0
    for output, b in zip(outputs, expected, strict=True):
        a = np.asarray(output.get() if isinstance(output, cp.Array) else output, np.float64)
        largest = max(float(np.abs(b).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(a - b).max(initial=0)) / largest)
    return worst


def _loading(inputs: ImportedInputs, device: Device) -> Loading:
    """Loading and a first call in a new process with kernels on disk; a session's creation.

    Raises:
        RuntimeError: The second process built programs.
    """
    with TemporaryDirectory() as folder:
        model, given = Path(folder, "model.onnx"), Path(folder, "given.npz")
        model.write_bytes(inputs.model)
        np.savez(given, **inputs.given)
        what = ("onnx", str(model), str(given))
        _, warm = (probe(*what, device=device, cache=Path(folder)) for _ in range(2))
    if warm["builds"]:
        raise RuntimeError(f"{warm['builds']:.0f} programs were not on disk")
    return Loading(warm["call"], warm["session"])
