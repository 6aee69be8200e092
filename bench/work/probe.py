"""Times what a new process does first; run by `bench.work.launch`, prints seconds as JSON.

``python -m bench.work.probe import|pointwise|reduction``: nothing may be imported before that.
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


if __name__ == "__main__":
    what = sys.argv[1]
    print(json.dumps(_import() if what == "import" else _first_call(what)))
