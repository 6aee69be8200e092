"""Times what a new process does first; run by `bench.work.launch.probe`, prints seconds as JSON.

``python -m bench.work.probe import|pointwise|reduction|network NAME BATCH|onnx FILE INPUTS|
compiled NAME BATCH BACKEND``:
nothing may be imported before that.
"""

import json
import sys
import time


def _import() -> dict[str, float]:
    start = time.perf_counter()
    import clprim  # noqa: F401

    return {"import": time.perf_counter() - start}


def _first_call(kind: str) -> dict[str, float]:
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
    return {
        "listing": listed - start,
        "call": done - listed,
        "builds": float(cp.stats().builds),
    }


def _network(name: str, batch: str) -> dict[str, float]:
    """The first call of a network that is on the device, with what is made of it before."""
    import torch

    import clprim as cp
    import clprim.torch
    from bench.work.compiled import compiled_network
    from bench.work.models import inputs_of, network

    clprim.torch.fallback("silent")
    model = network(name).eval().to("opencl", memory_format=torch.channels_last)
    given = inputs_of(name, int(batch)).to("opencl")
    cp.synchronize()
    before = cp.stats()
    start = time.perf_counter()
    with torch.no_grad():
        compiled_network(model)(given)
    cp.synchronize()
    call = time.perf_counter() - start
    return {"call": call, "builds": float((cp.stats() - before).builds)}


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
    before = cp.stats()
    start = time.perf_counter()
    clprim.onnx.load(file)(given)
    cp.synchronize()
    call = time.perf_counter() - start
    return {"call": call, "session": min(sessions), "builds": float((cp.stats() - before).builds)}


def _compiled(name: str, batch: str, backend: str) -> dict[str, float]:
    """The first call of a network that ``torch.compile`` compiles, on the device or on the CPU."""
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx  # what imports take is not the network's

    import clprim as cp
    import clprim.torch
    from bench.work.models import inputs_of, network

    where = "cpu" if backend == "inductor" else "opencl"
    model = network(name).eval().to(where, memory_format=torch.channels_last)
    given = inputs_of(name, int(batch)).to(where)
    cp.synchronize()
    before = cp.stats()
    start = time.perf_counter()
    with torch.no_grad():
        torch.compile(model, backend=backend, dynamic=False)(given)
    cp.synchronize()
    call = time.perf_counter() - start
    return {"call": call, "builds": float((cp.stats() - before).builds)}


if __name__ == "__main__":
    what, *more = sys.argv[1:]
    others = {"network": _network, "onnx": _onnx, "compiled": _compiled}
    if what in others:
        print(json.dumps(others[what](*more)))
    else:
        print(json.dumps(_import() if what == "import" else _first_call(what)))
