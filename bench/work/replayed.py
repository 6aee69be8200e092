"""What a compiled function adds to its kernels: a chain beside a copy, and the host's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.bandwidth import Ceilings
from bench.clock.timing import Spread, batch, measured_call, race, ratio
from bench.work.compiled import compiled
from bench.work.launch import bare_enqueue
from clprim import ops
from clprim.runtime.device import Device

CHAIN, HOST = "chain", "host"
_SHAPE, _QUICK_SHAPE = (32, 64, 112, 112), (2, 4, 7, 7)
_OPERATORS = 10
_PRODUCTS, _WIDTH, _CALLS = 32, 16, 10
_BARE = "bare enqueue"


@dataclass(frozen=True)
class ChainRow:
    """A chain of elementwise operators.

    Attributes:
        title: For readers.
        kernels: That it launches.
        seconds: On the device, from the start of the first kernel to the end of the last.
        nbytes: Of its argument and result.
        copy: Bytes a second of the best kernel that copies as many.
        share: Of that, compared round by round.
        correct: Whether the result is NumPy's.
    """

    title: str
    kernels: int
    seconds: float
    nbytes: int
    copy: float
    share: Spread
    correct: bool


@dataclass(frozen=True)
class HostRow:
    """The host's time of a function of many small kernels.

    Attributes:
        title: For readers.
        kernels: That it launches.
        seconds: Of the host for each of them, until the call returns.
        bare: Seconds of an enqueue of the last one alone.
    """

    title: str
    kernels: int
    seconds: float
    bare: float


def chain(x: Any) -> Any:
    """Return ten elementwise operators of an array, one after the other."""
    y = ops.relu(x * 1.5 - 0.25)
    y = abs(ops.clamp(y + 0.5, 0.75, 4.0) - 2.0)
    return ops.relu6(4.0 - y * 3.0)


def products(x: Any, w: Any) -> Any:
    """Return products of matrices, each of the last one: nothing in them can be fused."""
    for _ in range(_PRODUCTS):
        x = ops.matmul(x, w)
    return x


def run_chain(
    device: Device, *, repeats: int, progress: Callable[[str, float], None], quick: bool = False
) -> ChainRow:
    """Measure `chain` beside a copy.

    Args:
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way and by which part of the whole it has just moved on.
        quick: Whether the array is small.
    """
    about = "a chain of elementwise operators"
    progress(about, 0)
    shape = _QUICK_SHAPE if quick else _SHAPE
    host = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x, function = cp.asarray(host), compiled(chain)
    call = lambda: function(x)  # noqa: E731
    found, nbytes = call().get(), 2 * host.nbytes
    correct = bool(np.allclose(found, _chain_of_numpy(host), rtol=1e-6, atol=1e-6))
    kernels = _kernels(call, device)
    ceilings = Ceilings(device)
    finalists = ceilings.finalists("copy", nbytes)
    contenders = [measured_call("clprim", nbytes, call, device), *finalists]
    tick = lambda: progress(about, 1 / repeats)  # noqa: E731
    results = race(contenders, repeats, before=ceilings.before(nbytes), tick=tick)
    copy = max((results[f.name] for f in finalists), key=lambda result: result.rate("device"))
    mine = results["clprim"]
    return ChainRow(
        f"{_OPERATORS} elementwise operators on {'×'.join(map(str, shape))}",
        kernels,
        median(mine.seconds("device")),
        nbytes,
        copy.rate("device"),
        ratio(mine, copy, "device"),
        correct,
    )


def run_host(
    device: Device, *, repeats: int, progress: Callable[[str, float], None], quick: bool = False
) -> HostRow:
    """Measure what the host does for each kernel of `products`; see `run_chain`."""
    about = "the host's time of a kernel"
    progress(about, 0)
    random = np.random.default_rng(0)
    x, w = (cp.asarray(random.random((_WIDTH, _WIDTH), np.float32)) for _ in range(2))
    function = compiled(products)
    call = lambda: function(x, w)  # noqa: E731
    call()
    kernels, calls = _kernels(call, device), 1 if quick else _CALLS
    contenders = [
        batch("clprim", call, device.synchronize, calls=calls),
        batch(_BARE, bare_enqueue(device, call), device.synchronize, calls=calls * kernels),
    ]
    results = race(contenders, repeats, tick=lambda: progress(about, 1 / repeats))
    mine, bare = (median(results[name].seconds("host")) for name in ("clprim", _BARE))
    title = f"{_PRODUCTS} products of {_WIDTH}×{_WIDTH}"
    return HostRow(title, kernels, mine / kernels, bare)


def _kernels(call: Callable[[], Any], device: Device) -> int:
    with cp.profile(device) as profile:
        call()
    return len(profile.events)


def _chain_of_numpy(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    y = np.maximum(x.astype(np.float64) * 1.5 - 0.25, 0)
    y = abs(np.clip(y + 0.5, 0.75, 4) - 2)
    return np.clip(4 - y * 3, 0, 6)
