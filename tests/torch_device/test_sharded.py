"""Models whose parameters are divided among two processes train as one process does."""

import json

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this build of PyTorch has no gloo", allow_module_level=True)

from two_processes import begin, listed, run_both  # noqa: E402

dist, nn, functional = torch.distributed, torch.nn, torch.nn.functional
D = "opencl"


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4))


def data():
    torch.manual_seed(1)
    return torch.randn(8, 5), torch.randint(0, 4, (8,))


def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def fully_sharded(x, y):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh, model = init_device_mesh(D, (2,)), network().to(D)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    train(model, x, y)
    return list(model.parameters())


def wrapped(x, y):
    from torch.distributed.fsdp import FullyShardedDataParallel

    device = torch.device(D, 0)
    model = FullyShardedDataParallel(network().to(D), device_id=device, use_orig_params=True)
    train(model, x, y)
    with FullyShardedDataParallel.summon_full_params(model):
        return listed(list(model.parameters()))


def one_of_two():
    rank = begin("clprim")
    x, y = (t[4 * rank : 4 * rank + 4].to(D) for t in data())
    print(json.dumps(listed({"fully_sharded": fully_sharded(x, y), "wrapped": wrapped(x, y)})))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both():
    return run_both(__file__)


@pytest.mark.parametrize("how", [fully_sharded, wrapped])
def test_divided_parameters_train_as_whole_ones(both, how):
    model = network().double()
    x, y = data()
    train(model, x.double(), y)
    for found in both:
        for ours, exact in zip(found[how.__name__], model.parameters(), strict=True):
            assert torch.tensor(ours).allclose(exact.float(), rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    one_of_two()
