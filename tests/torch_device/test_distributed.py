"""Two processes, each with a device of its own, train as one process with twice the batch."""

import json
import os
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this build of PyTorch has no gloo", allow_module_level=True)


def network():
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(50, 6), nn.ReLU(), nn.Linear(6, 3))


def data():
    torch.manual_seed(1)
    return torch.randn(8, 2, 5, 5), torch.randint(0, 3, (8,))


def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return losses


def one_of_two():
    """What each process does; the first one prints the mean losses and what its weights became."""
    from torch import distributed as dist

    import clprim as cp
    import clprim.torch.distributed

    rank = int(os.environ["RANK"])
    usable = [d for d in cp.devices() if d.compiles]
    cp.set_device(usable[rank % len(usable)])
    clprim.torch.fallback("error")
    dist.init_process_group("cpu:gloo,opencl:clprim")
    model = torch.nn.parallel.DistributedDataParallel(network().to("opencl"))
    x, y = (t[4 * rank : 4 * rank + 4].to("opencl") for t in data())
    losses = torch.stack(train(model, x, y))
    dist.all_reduce(losses)
    if rank == 0:
        weights = [p.detach().flatten().tolist() for p in model.module.parameters()]
        print(json.dumps([(losses / 2).tolist(), weights]))
    dist.destroy_process_group()


def test_two_processes_are_one_with_twice_the_batch():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    running = []
    for rank in range(2):
        more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        more |= {"RANK": str(rank), "CLPRIM_BUILD_OPTIONS": "-cl-opt-disable"}
        running.append(
            subprocess.Popen(
                [sys.executable, __file__],
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
    losses, weights = json.loads(found[0][0].splitlines()[-1])
    model = network().double()
    x, y = data()
    expected = torch.stack(train(model, x.double(), y)).tolist()
    assert losses == pytest.approx(expected, rel=1e-5)
    for ours, exact in zip(weights, model.parameters(), strict=True):
        assert ours == pytest.approx(exact.detach().flatten().tolist(), rel=1e-4, abs=1e-5)


if __name__ == "__main__":
    one_of_two()
