"""What only POSIX has is looked for before it is used: everything imports and computes without."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

WITHOUT = """
import os, signal, subprocess, sys, tempfile  # they choose by the real system
import jinja2, numpy as np, platformdirs, pyopencl
if {torch}:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.distributed, torch._inductor.output_code

# Windows has a call of its own for this.
subprocess.Popen.kill = lambda child, send=os.kill, number=signal.SIGKILL: send(child.pid, number)
for name in ("fcntl", "grp", "posix", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in (
    "fork forkpty geteuid getuid getegid getgid getpgid kill killpg mkfifo register_at_fork uname "
    "chown fchmod sched_getaffinity O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK"
).split():
    delattr(os, name) if hasattr(os, name) else None
for name in ("SIGKILL", "SIGALRM", "SIGHUP", "alarm", "setitimer"):
    delattr(signal, name)
os.supports_dir_fd = os.supports_follow_symlinks = set()
sys.platform = "win32"

import importlib, pkgutil
import clprim as cp, clprim.ops

count = 0
for package in (cp, clprim.ops):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name in ("clprim.__main__", "clprim.torch.lightning", "clprim.torch.cached"):
            continue  # the command line itself, and what needs more than PyTorch can import here
        if module.name == "clprim.llm.server":
            continue  # whose packages know the platform by other words
        if ".torch" in module.name and not {torch} or ".onnx" in module.name and not {onnx}:
            continue
        importlib.import_module(module.name)
        count += 1
cp.set_device({device})
x = cp.asarray(np.arange(6, dtype=np.float32))
print(count, (cp.Pointwise("y0 = 3 * x0 - 1;", name="portable")(x)).get().tolist())
"""


@pytest.mark.alone
def test_everything_imports_and_computes_without_what_posix_alone_has(device):
    torch, onnx = (find_spec(name) is not None for name in ("torch", "onnx"))
    code = WITHOUT.format(torch=torch, onnx=onnx, device=device.index)
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    count, _, numbers = found.stdout.partition(" ")
    assert int(count) > 300
    assert numbers.strip() == "[-1.0, 2.0, 5.0, 8.0, 11.0, 14.0]"
