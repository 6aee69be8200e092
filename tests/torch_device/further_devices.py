"""What holds of tensors on ``opencl:1``; run by test_further_devices.py in a process of its own.

From the first such tensor on, all kernels look for their tensors' device.
"""

import copy
import gc
import io
import pickle
import threading

import torch
from torch import nn

import clprim as cp
import clprim.torch as ct

ct.fallback("error")
one, two = (ct.array(torch.ones(2, 3).to(f"opencl:{n}")) for n in (0, 1))
assert one.context == cp.current_device().context != two.context
del one, two
gc.collect()


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


# Made, viewed, copied, converted and printed there.
x = torch.arange(12.0, device="opencl:1").reshape(3, 4)
assert x.device == torch.device("opencl:1") == x.t()[1:].device == (x + 1).sum(0).device
assert "device='opencl:1'" in repr(x)
assert torch.equal(x.t()[1:].cpu(), torch.arange(12.0).reshape(3, 4).t()[1:])
y = x[:, ::2].to("opencl:0", torch.int32)
assert y.device.index == 0
assert y.tolist() == [[0, 2], [4, 6], [8, 10]]
x[:, 1:3].copy_(y)
y.t().copy_(torch.ones(2, 3).to("opencl:1"))
assert x.tolist() == [[0, 0, 2, 3], [4, 4, 6, 7], [8, 8, 10, 11]]
assert y.tolist() == [[1, 1]] * 3
host = torch.zeros(3, 4)
host.copy_(x)
assert torch.equal(host, x.cpu())
with torch.device("opencl:1"):
    assert torch.zeros(2).device.index == torch.empty_strided((2, 3), (1, 2)).device.index == 1
assert copy.deepcopy(x).device == pickle.loads(pickle.dumps(x)).device == x.device
assert ct.tensor(ct.array(x)).device == x.device

# Storages there: sizes, addresses, resizing, files.
storage = torch.ones(3, device="opencl:1").untyped_storage()
other = torch.UntypedStorage(12, device="opencl:1").copy_(storage)
assert (other.device, other.nbytes()) == (x.device, 12)
assert other.data_ptr() != storage.data_ptr()
assert other.tolist() == storage.cpu().tolist()
grown = torch.arange(2.0, device="opencl:1")
part = grown[1:]
grown.resize_(3)
grown[1] = 5
assert (part.item(), grown.device, grown.untyped_storage().nbytes()) == (5, x.device, 12)
file = io.BytesIO()
torch.save([grown, part], file)
file.seek(0)
assert [(t.device, t.tolist()[-1]) for t in torch.load(file)][1] == (x.device, 5)
assert torch.opencl.mem_get_info(1)[1] > 0 < torch.opencl.memory_reserved(1)
assert torch.opencl.current_stream(1).device == x.device != torch.opencl.current_stream().device
refused(RuntimeError, "at least two devices", lambda: x[:, :2] + y.float())
refused(RuntimeError, "at least two devices", lambda: torch.cat([y.float(), x]))
refused(cp.DeviceError, "opencl:99: there is no such device", lambda: x.to("opencl:99"))

# Random numbers do not depend on the device.
drawn = []
for name in ("opencl", "opencl:1"):
    generator = torch.Generator(name).manual_seed(3)
    assert generator.device == torch.device(name if ":" in name else "opencl:0")
    torch.manual_seed(3)
    drawn.append([*torch.rand(3, device=name, generator=generator), *torch.rand(3, device=name)])
    drawn[-1] += [*torch.empty(99, device=name).normal_(2, 3)]
assert [t.item() for t in drawn[0]] == [t.item() for t in drawn[1]]

# Training: wholly there, across two devices, in another thread, checkpointed, in mixed precision.
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))


def train(first, second):
    net = copy.deepcopy(model)
    net[0].to(first)
    net[2].to(second)
    steps = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    given = torch.arange(8.0).reshape(2, 4).to(first) / 8
    for _ in range(2):
        steps.zero_grad()
        hidden = torch.utils.checkpoint.checkpoint(net[0], given, use_reentrant=False)
        loss = net[2](net[1](hidden).to(second)).square().sum()
        loss.backward()
        steps.step()
    assert [p.device for p in net.parameters()] == [torch.device(first)] * 2 + [
        torch.device(second)
    ] * 2
    return loss.item(), [p.detach().cpu() for p in net.parameters()]


expected = train("cpu", "cpu")
for places in (("opencl:1", "opencl:1"), ("opencl:0", "opencl:1")):
    torch.testing.assert_close(train(*places), expected, rtol=1e-5, atol=1e-6)
found = []
thread = threading.Thread(target=lambda: found.append(train("opencl:1", "opencl:1")))
thread.start()
thread.join()
torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-6)
there = copy.deepcopy(model).to("opencl:1")
with torch.autocast("opencl", dtype=torch.float16):
    assert there(x).dtype is torch.float16
square = ct.operator(cp.Pointwise("y0 = x0 * x0;"))
z = x.detach().requires_grad_()
square(z).sum().backward()
assert torch.equal(z.grad, 2 * x)

# Saved from there and from elsewhere, loaded there and elsewhere.
for source in (there, model):
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    for where in (None, "cpu", "opencl:1"):
        file.seek(0)
        weight = torch.load(file, map_location=where)["2.weight"]
        assert weight.device == torch.device(where or source[2].weight.device)
        assert torch.equal(weight.cpu(), source[2].weight.detach().cpu())

# Fused networks, which pack their weights where they are.
layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).eval()
images = torch.randn(2, 3, 8, 8)
with torch.no_grad():
    expected = layers(images)
    fused = ct.fuse(layers.to("opencl:1"))
    found = fused(images.to("opencl:1"))
assert found.device.index == 1
torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)

# What has no kernel.
ct.fallback("silent")
assert torch.linalg.matrix_exp(torch.eye(2, device="opencl:1")).device.index == 1

# torch.opencl by number.
assert torch.opencl.device_count() == len(cp.devices())
gc.collect()
before = torch.opencl.memory_allocated(1)
large = torch.empty(1000, device="opencl:1")
assert torch.opencl.memory_allocated("opencl:1") >= before + 4000
del large
assert torch.opencl.memory_allocated(1) == before
torch.opencl.synchronize(1)
torch.opencl.empty_cache()
assert torch.opencl.Stream("opencl:1") != torch.opencl.Stream()
with torch.opencl.device(1):
    assert torch.opencl.current_device() == 1
    assert torch.opencl.get_device_properties().name == torch.opencl.get_device_name(1)
    event = torch.opencl.Event()
    event.record()
torch.opencl.Stream().wait_event(event)
assert event.query()
assert torch.opencl.current_device() == 0
print("all of it holds")
