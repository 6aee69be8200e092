"""Times the first call of a network that `torch.compile` compiles, with everything on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.work.launch import probe
from bench.work.models import SMALL
from clprim.runtime.device import Device

BACKENDS = ("clprim", "inductor")
_JOB, _QUICK = ("resnet50", 8), (SMALL, 2)
_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def run_firsts(
    device: Device, *, quick: bool, progress: Callable[[str, float], None]
) -> dict[str, float]:
    """Return by backend the seconds of the first call in the second of two processes.

    Args:
        device: Where; the current one.
        quick: Whether to take a small network.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Raises:
        RuntimeError: The second process built kernels.
    """
    name, batch = _QUICK if quick else _JOB
    found = {}
    before = os.environ.get(_CACHE)
    for backend in BACKENDS:
        progress(f"first calls: {backend}", 0)
        with tempfile.TemporaryDirectory() as folder:
            os.environ[_CACHE] = folder
            what = ("compiled", name, str(batch), backend)
            try:
                _, warm = (probe(*what, device=device, cache=Path(folder)) for _ in range(2))
            finally:
                os.environ.pop(_CACHE)
                os.environ.update({} if before is None else {_CACHE: before})
        if warm["builds"]:
            raise RuntimeError(f"{name}: {warm['builds']:.0f} programs were not on disk")
        found[backend] = warm["call"]
        progress(f"first calls: {backend}", 0.1 / len(BACKENDS))
    return found
