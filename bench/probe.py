"""Times what a new process does first: ``python -m bench.probe WHAT …`` prints seconds as JSON.

``import``, ``pointwise``, ``reduction``, ``network NAME BATCH``, ``compiled NAME BATCH BACKEND``,
``onnx FILE INPUTS``, ``memory opencl|compiled|cpu NAME BATCH SIZE`` (bytes of a training step).
Nothing of ours may be imported before that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_SETTLE = 0.2  # threads of the driver give memory back a moment later


def probe(*what: str, cache: str | None = None) -> dict[str, float]:
    """Return what is found in a process of its own, with a folder of the disk cache.

    Raises:
        RuntimeError: It failed.
    """
    import clprim as cp

    device = str(cp.current_device().index)
    more = {} if cache is None else {"CLPRIM_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
    found = subprocess.run(
        [sys.executable, "-m", "bench.probe", *what],
        cwd=_ROOT,
        env={**os.environ, "CLPRIM_DEVICE": device, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise RuntimeError(f"python -m bench.probe {' '.join(what)} failed:\n{found.stderr}")
    answer: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return answer


def cold_and_warm(*what: str, warm: int = 1) -> list[dict[str, float]]:
    """Return what processes find, all but the first with everything on disk.

    Raises:
        RuntimeError: A later one built programs.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = [probe(*what, cache=folder) for _ in range(1 + warm)]
    built = sum(answer["builds"] for answer in found[1:])
    if built:
        raise RuntimeError(f"{' '.join(what)}: {built:.0f} programs were not on disk")
    return found


def _import() -> dict[str, float]:
    start = time.perf_counter()
    import clprim  # noqa: F401

    return {"call": time.perf_counter() - start}


def _first(kind: str) -> dict[str, float]:
    import numpy as np
    import pyopencl as cl

    import clprim as cp

    host = np.ones((64, 64), np.float32)
    start = time.perf_counter()
    for platform in cl.get_platforms():
        platform.get_devices()
    listed = time.perf_counter()
    x = cp.asarray(host)  # chooses the device, makes its context
    if kind == "pointwise":
        cp.Pointwise("y0 = x0 * w0 + x1;")(x, x, 2.0)
    else:
        cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")(x, axis=0)
    cp.synchronize()
    done = time.perf_counter()
    return {"listing": listed - start, "call": done - listed, "builds": float(cp.stats().builds)}


def _timed(call: Any) -> dict[str, float]:
    """Seconds of a call until its result is there, and programs that it builds."""
    import clprim as cp

    cp.synchronize()
    before = cp.stats()
    start = time.perf_counter()
    call()
    cp.synchronize()
    taken = time.perf_counter() - start
    return {"call": taken, "builds": float((cp.stats() - before).builds)}


def _network(name: str, batch: str, backend: str = "") -> dict[str, float]:
    """The first call of a network, after `clprim.torch.fuse` or by a backend of torch.compile."""
    import torch

    if backend:
        import torch._dynamo
        import torch._inductor.compile_fx
    import clprim.torch
    from bench.models import inputs_of, network

    clprim.torch.fallback("silent")
    where = "cpu" if backend == "inductor" else "opencl"
    model = network(name).eval().to(where, memory_format=torch.channels_last)
    given = inputs_of(name, int(batch)).to(where)

    def call() -> None:
        with torch.no_grad():
            if backend:
                torch.compile(model, backend=backend, dynamic=False)(given)
            else:
                clprim.torch.fuse(model)(given)

    return _timed(call)


def _onnx(file: str, inputs: str) -> dict[str, float]:
    """A model that is loaded and called, and ONNX Runtime's session of it."""
    import numpy as np
    import onnxruntime as ort

    import clprim as cp
    import clprim.onnx

    with np.load(inputs) as read:
        given = {name: read[name] for name in read.files}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    sessions = []
    for _ in range(2):  # the first one of a process takes longer
        start = time.perf_counter()
        ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        sessions.append(time.perf_counter() - start)
    cp.asarray(np.zeros(1, np.float32))  # makes the device's context
    return {**_timed(lambda: clprim.onnx.load(file)(given)), "session": min(sessions)}


def _status(field: str) -> int:
    """A field of the process's status, in bytes; Linux alone tells."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def _memory(where: str, name: str, batch: str, size: str) -> dict[str, float]:
    """By how much a step's resident memory exceeds what stays between steps; all of the process."""
    import ctypes
    import gc

    import torch

    import clprim.torch  # for both, so that both have it in memory
    from bench.cases.networks import TrainingStep

    clprim.torch.fallback("error")
    place = "cpu" if where == "cpu" else "opencl"
    step = TrainingStep(name, int(batch), int(size), place, "clprim" * (where == "compiled"))
    for _ in range(2):  # compiles, and finds memory for momenta
        step().item()
    step.optimizer.zero_grad()
    gc.collect()
    torch.opencl.empty_cache()
    ctypes.CDLL(None).malloc_trim(0)
    time.sleep(_SETTLE)
    process = _status("VmHWM")
    Path("/proc/self/clear_refs").write_text("5")
    rest = _status("VmRSS")
    for _ in range(3):
        step().item()
    highest = _status("VmHWM")
    return {"rise": highest - rest, "state": step.state, "process": max(process, highest)}


if __name__ == "__main__":
    kind, *more = sys.argv[1:]
    kinds = {"import": _import, "network": _network, "compiled": _network, "onnx": _onnx}
    kinds["memory"] = _memory
    print(json.dumps(kinds[kind](*more) if kind in kinds else _first(kind)))
