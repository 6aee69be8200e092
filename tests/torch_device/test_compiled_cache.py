"""A second process compiles nothing: kernels are on disk, and graphs in PyTorch's own cache."""

import json
import os
import subprocess
import sys

import pytest
from support import answers_in

torch = pytest.importorskip("torch")

PROGRAM = """
import json, sys, warnings
import torch
from torch import nn
from torch._dynamo.utils import counters
import clprim as cp, clprim.torch

cp.set_device({device})
clprim.torch.fallback("error")
warnings.simplefilter("ignore")
found = []


def network(where):
    torch.compiler.reset()
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    return nn.Sequential(*layers).to(where)


for where in ("opencl", "cpu"):
    net, x = network(where), torch.ones(4, 3, 6, 6, device=where)
    run = torch.compile(net, backend="clprim")
    for size in (4, 3)[: 1 + (where == "opencl")]:  # the second one is compiled for any
        y = run(x[:size])
        y.square().sum().backward()
        found.append([y.tolist(), net[0].weight.grad.tolist()])
    net.eval().requires_grad_(False)
    for freeze in (False, True):
        torch.compiler.reset()
        run = torch.compile(net, backend="clprim", options=dict(freeze=freeze))
        found.append(run(x).tolist())
torch.compiler.reset()
halves = torch.compile(lambda x: x + torch.tensor([0.5], device="opencl"), backend="clprim")
found.append(halves(x[0, 0].to("opencl")).tolist())  # a constant of the device
torch.compiler.reset()
inverse = torch.compile(torch.linalg.inv, backend="clprim")
clprim.torch.fallback("silent")
found.append(inverse(torch.eye(2, device="opencl")).tolist())  # whose check is an effect
clprim.torch.fallback("error")
torch.compiler.reset()
mean = torch.compile(lambda x, n: x.mul(n).add(x, alpha=1 - n), backend="clprim")
for n in (0.5, 0.25, 0.75):  # a number that changes, which a graph holds
    found.append(mean(x[0, 0].to("opencl"), n).tolist())
torch.compiler.reset()
try:
    torch.compile(lambda x: torch.linalg.matrix_exp(x @ x), backend="clprim")(x[0, 0].to("opencl"))
except cp.DeviceError as error:
    found.append(str(error))
print(json.dumps([found, cp.stats().builds, counters["aot_autograd"]]))
"""


def test_a_second_process_compiles_nothing(device, tmp_path):
    answers_in(tmp_path, device)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(device=device.index))
    folders = {"CLPRIM_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "t")}
    ran = [
        subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, **folders, "CLPRIM_BUILD_OPTIONS": "-cl-opt-disable"},
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    ]
    assert not ran[0].returncode and not ran[1].returncode, ran[0].stderr + ran[1].stderr
    (first, built, known), (second, again, hits) = (json.loads(r.stdout) for r in ran)
    assert first == second
    assert "linalg_matrix_exp" in first[-1] and f"{program}:" in first[-1]
    assert first[-4:-1] == [[[1.0] * 6] * 6] * 3
    assert built and not again
    assert known["autograd_cache_saved"] >= 7 and not hits.get("autograd_cache_miss")
    assert hits["autograd_cache_hit"] >= 7 and "autograd_cache_saved" not in hits
