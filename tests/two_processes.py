"""Runs a script as two processes of a group, each with a device of its own where there are two."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path


def run_both(script, *arguments):
    """Returns what each process printed last, which is JSON."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    running = []
    for rank in range(2):
        more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        more |= {"RANK": str(rank), "PYTHONPATH": path}
        more |= {"CLPRIM_BUILD_OPTIONS": "-cl-opt-disable"}
        running.append(
            subprocess.Popen(
                [sys.executable, script, *arguments],
                env={**os.environ, **more},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        found = [process.communicate(timeout=280) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], found[0][1] + found[1][1]
    return [json.loads(said.splitlines()[-1]) for said, _ in found]


def begin(backend):
    """Joins the group, in one of the processes, and returns its number."""
    from torch import distributed as dist

    import clprim as cp
    import clprim.torch.distributed

    rank = int(os.environ["RANK"])
    usable = [d for d in cp.devices() if d.compiles]
    cp.set_device(usable[rank % len(usable)])
    clprim.torch.fallback("error")
    dist.init_process_group(backend)
    return rank


def listed(value):
    """Returns tensors as lists, on the host and whole, and leaves all else as it is."""
    import torch
    from torch.distributed.tensor import DTensor

    if isinstance(value, DTensor):
        value = value.full_tensor()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, dict):
        return {key: listed(v) for key, v in value.items()}
    return [listed(v) for v in value] if isinstance(value, (list, tuple)) else value
