"""Two processes, each with a device of its own: what they tell each other, and how they train."""

import json
import warnings

import pytest

torch = pytest.importorskip("torch")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this build of PyTorch has no gloo", allow_module_level=True)

from two_processes import begin, listed, run_both  # noqa: E402

dist, nn, functional = torch.distributed, torch.nn, torch.nn.functional
D = "opencl"


def numbers(rank, *shape, dtype=None):
    """Whole numbers, others on each process."""
    found = torch.arange(float(torch.Size(shape).numel())).reshape(shape) * (rank + 1) - rank
    return found.to(dtype or torch.float32)


def collectives(rank, device):
    """Yields the name of a collective and what it leaves here."""

    def t(*shape, dtype=None):
        return numbers(rank, *shape, dtype=dtype).to(device)

    def empty(*shape):
        return torch.full(shape, -7.0).to(device)

    dist.barrier()
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
        for op in ("SUM", "MAX", "PRODUCT"):
            x = t(3, dtype=kind)
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            yield f"all_reduce {op} {kind}", x
    x = t(4)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    yield "all_reduce AVG", x
    x = t(4)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    yield "all_reduce, asynchronous", [x, work.get_future().value()]
    x = t(2, 3)
    dist.broadcast(x, 1)
    yield "broadcast", x
    x = t(3)
    dist.reduce(x, 1)
    yield "reduce", x if rank == 1 else None
    x = [empty(2), empty(2)]
    dist.all_gather(x, t(2))
    yield "all_gather", x
    x = empty(6)
    dist.all_gather_into_tensor(x, t(3))
    yield "all_gather_into_tensor", x
    x = empty(2)
    dist.reduce_scatter(x, [t(2), t(2) + 5])
    yield "reduce_scatter", x
    x = empty(3)
    dist.reduce_scatter_tensor(x, t(6))
    yield "reduce_scatter_tensor", x
    x = [empty(2), empty(2)]
    dist.gather(t(2), x if rank == 1 else None, dst=1)
    yield "gather", x
    x = empty(2)
    dist.scatter(x, [t(2), t(2) + 5] if rank == 0 else None, src=0)
    yield "scatter", x
    x = empty(3 if rank else 5, 2)
    dist.all_to_all_single(x, t(4, 2), [1, 2] if rank else [3, 2], [2, 2] if rank else [3, 1])
    yield "all_to_all_single", x
    x = [empty(2), empty(2)]
    dist.all_to_all(x, [t(2), t(2) + 5])
    yield "all_to_all", x
    x = empty(3)
    if rank:
        dist.send(t(3), 0, tag=2)
    else:
        yield "the sender's number", dist.recv(x, tag=2)
    yield "send and recv", x
    x = empty(100_000)  # more than is under way without somebody who takes it
    pair = [dist.P2POp(dist.isend, t(100_000), 1 - rank), dist.P2POp(dist.irecv, x, 1 - rank)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    yield "batch_isend_irecv", x[-2:]
    x = [empty(4), empty(2)]
    with dist._coalescing_manager(async_ops=True) as work:
        dist.all_gather_into_tensor(x[0], t(2))
        dist.all_gather_into_tensor(x[1], t(1))
    work.wait()
    yield "all_gather_into_tensor, several", x
    x = [None, None]
    dist.all_gather_object(x, {"rank": rank})
    yield "all_gather_object", x
    group = dist.new_group([0, 1])
    x = t(2)
    dist.all_reduce(x, group=group)
    yield "new_group", x


def gaps(x):
    return x[:, ::2].t()


def beyond_gloo(rank):
    """A tensor with gaps; parts that are not rows."""
    x, y = gaps(numbers(rank, 4, 6).to(D)), torch.zeros(1, 6).to(D)
    dist.all_reduce(x)
    dist.all_gather_into_tensor(y, numbers(rank, 3).to(D))
    return [x, y]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(50, 6), nn.ReLU(), nn.Linear(6, 4))


def normalized():
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
    return nn.Sequential(*layers)


def data():
    torch.manual_seed(1)
    return torch.randn(8, 2, 5, 5), torch.randint(0, 3, (8,))


def train(model, x, y, part=1.0):
    """Three steps; each process has a ``part`` of the loss of all."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y, reduction="sum") / len(data()[0])
        (loss / part).backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), *model.parameters(), *model.buffers()]


def halves(rank, first=4):
    return (t[first:] if rank else t[:first] for t in data())


def data_parallel(rank, prepare=lambda model: model, finish=lambda model: model):
    x, y = (t.to(D) for t in halves(rank))
    model = nn.parallel.DistributedDataParallel(prepare(network().to(D)))
    losses, *rest = train(finish(model), x, y, 0.5)
    dist.all_reduce(losses)
    return [losses, *rest]


def compiled(model):
    return torch.compile(model, backend="clprim")


def compiled_parts(rank):
    """What communicates is compiled as well, or runs between parts that are."""
    return data_parallel(rank, finish=compiled)


def compiled_inside(rank):
    return data_parallel(rank, prepare=compiled)


def synchronized(rank):
    """Parts of 5 and 3, channels last."""
    model = nn.SyncBatchNorm.convert_sync_batchnorm(normalized()).to(D)
    model = nn.parallel.DistributedDataParallel(model.to(memory_format=torch.channels_last))
    x, y = (t.to(D) for t in halves(rank, 5))
    losses, *rest = train(model, x.to(memory_format=torch.channels_last), y, 0.5)
    dist.all_reduce(losses)
    return [losses, *rest]


def tensor_parallel(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {"1": ColwiseParallel(), "3": RowwiseParallel()}
    model = parallelize_module(network().to(D), init_device_mesh(D, (2,)), plan)
    return train(model, *(t.to(D) for t in data()))


def matrices():
    return numbers(0, 5, 6), numbers(1, 6, 4)


def distributed_tensors(rank):
    """Products of what is divided in each way, and their gradients."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh, found = init_device_mesh(D, (2,)), []
    for ways in ((Shard(0), Replicate()), (Shard(1), Shard(0)), (Replicate(), Shard(1))):
        a, b = (
            distribute_tensor(m.to(D), mesh, [way]).requires_grad_()
            for m, way in zip(matrices(), ways, strict=True)
        )
        c = a @ b
        c.redistribute(mesh, [Replicate()]).sum().backward()
        found += [c, c.redistribute(mesh, [Shard(1)]).sum(0), a.grad, b.grad]
    return found


def refused(rank):
    try:
        nn.parallel.DistributedDataParallel(network().to(D), find_unused_parameters=True)
    except Exception as error:
        return f"{type(error).__name__} {error}"


CASES = (
    beyond_gloo, data_parallel, compiled_parts, compiled_inside, synchronized, tensor_parallel,
    distributed_tensors, refused,
)  # fmt: skip


def one_of_two():
    """What each process does: it prints what it found, by name."""
    rank = begin("cpu:gloo,opencl:clprim")
    warnings.simplefilter("ignore", FutureWarning)
    found = {device: dict(collectives(rank, device)) for device in ("cpu", D)}
    found |= {model.__name__: model(rank) for model in CASES}
    print(json.dumps(listed(found)))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both():
    return run_both(__file__)


def test_collectives_do_what_they_do_on_the_host(both):
    for found in both:
        assert found[D] == found["cpu"]


def test_tensors_that_gloo_does_not_take_as_they_are(both):
    a, b = (numbers(rank, 4, 6) for rank in range(2))
    row = torch.cat([numbers(rank, 3) for rank in range(2)])
    expected = listed([gaps(a + b), row.reshape(1, 6)])
    assert [found["beyond_gloo"] for found in both] == [expected, expected]


@pytest.mark.parametrize(
    "how, make",
    [
        (data_parallel, network),
        (compiled_parts, network),
        (compiled_inside, network),
        (synchronized, normalized),
        (tensor_parallel, network),
    ],
)
def test_two_processes_train_as_one(both, how, make):
    x, y = data()
    expected = listed(train(make().double(), x.double(), y))
    for found in both:
        for ours, exact in zip(found[how.__name__], expected, strict=True):
            assert torch.tensor(ours).allclose(torch.tensor(exact), rtol=1e-4, atol=1e-5)


def test_distributed_tensors(both):
    a, b = (m.requires_grad_() for m in matrices())
    c = a @ b
    c.sum().backward()
    expected = listed([c, c.sum(0), a.grad, b.grad] * 3)
    assert [found["distributed_tensors"] for found in both] == [expected, expected]


def test_what_data_parallelism_cannot_do_is_refused(both):
    assert all("DeviceError" in f["refused"] and "fully_shard" in f["refused"] for f in both)


if __name__ == "__main__":
    one_of_two()
