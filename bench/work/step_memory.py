"""What a training step takes of memory, beside what stays: run as a process of its own.

``python -m bench.work.step_memory opencl|compiled|cpu NETWORK BATCH SIZE`` prints bytes as JSON:
``rise``: by how much the process's resident memory exceeds, at most during three steps, what it is
between steps with gradients and caches given up. ``state``: of parameters, momenta and statistics.
``process``: the most of all. Linux alone tells.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import time
from pathlib import Path

from bench.work.compiled import compiled_step
from bench.work.step import StepJob, TrainingStep

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_SETTLE = 0.2  # threads of the driver give memory back a moment later


def _status(field: str) -> int:
    """Return a field of the process's status, in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.M)
    assert found is not None
    return 1024 * int(found[1])


def main(where: str, network: str, batch: int, size: int) -> dict[str, int]:
    """Return the numbers; see above.

    Args:
        where: ``opencl``, ``compiled`` there, or ``cpu``.
        network: A key of `bench.work.models.MODELS`.
        batch: Images.
        size: Their height and width.
    """
    import torch

    import clprim.torch  # for both, so that both have it in memory

    clprim.torch.fallback("error")
    step = TrainingStep(StepJob(network, batch, size), "cpu" if where == "cpu" else "opencl")
    run = compiled_step(step) if where == "compiled" else step
    for _ in range(2):  # compiles, and finds memory for momenta
        run().item()
    step.optimizer.zero_grad()
    gc.collect()
    torch.opencl.empty_cache()
    ctypes.CDLL(None).malloc_trim(0)
    time.sleep(_SETTLE)
    process = _status("VmHWM")
    _RESET.write_text("5")
    rest = _status("VmRSS")
    for _ in range(3):
        run().item()
    highest = _status("VmHWM")
    return {"rise": highest - rest, "state": step.state, "process": max(process, highest)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
