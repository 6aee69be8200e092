"""The device as PyTorch's users see it: memory, views, copies, saving, printing."""

import copy
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402
from clprim.torch.tensors import usage  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.uint8, torch.bool,
]  # fmt: skip


def same(found, expected):
    assert found.device.type == "opencl"
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_there_and_back(dtype):
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    same(x.to("opencl"), x)
    same(x.to("opencl").transpose(0, 2), x.transpose(0, 2))
    same(x[:, 1:, ::2].to("opencl"), x[:, 1:, ::2])
    same(torch.tensor(1, dtype=dtype).to("opencl"), torch.tensor(1, dtype=dtype))
    same(torch.empty(0, 3, dtype=dtype).to("opencl"), torch.empty(0, 3, dtype=dtype))


def test_strides_stay():
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    last = x.to("opencl", memory_format=torch.channels_last)
    assert last.is_contiguous(memory_format=torch.channels_last)
    same(last, x)
    same(last.contiguous(), x)
    assert last.clone().stride() == last.stride()
    assert torch.empty_like(last).stride() == last.stride()
    there = x.to(memory_format=torch.channels_last).to("opencl")
    assert there.stride() == last.stride() == there.cpu().stride()
    assert x.to("opencl").contiguous(memory_format=torch.channels_last).stride() == last.stride()


def test_views_share_memory():
    x = torch.arange(24.0).reshape(4, 6)
    y = x.to("opencl")
    views = [
        lambda t: t[1], lambda t: t[:, ::2], lambda t: t.t()[2:5], lambda t: t.view(2, 2, 6)[1],
        lambda t: t.diagonal(), lambda t: t.unfold(1, 3, 3), lambda t: t.flatten()[3:9],
        lambda t: t.unsqueeze(0).squeeze(0)[:, 0],
    ]  # fmt: skip
    for view in views:
        view(x).mul_(2)
        view(y).mul_(2)
        same(y, x)


def test_copies_convert_and_broadcast():
    x = torch.arange(6).reshape(2, 3)
    target = torch.zeros(2, 3, device="opencl")
    target.copy_(x)
    same(target, x.float())
    target.copy_(torch.tensor([7.0, 8, 9]).to("opencl"))
    same(target, torch.tensor([7.0, 8, 9]).expand(2, 3))
    host = torch.zeros(2, 3, dtype=torch.int64)
    host.copy_(target)
    assert host.tolist() == [[7, 8, 9], [7, 8, 9]]
    same(target.to(torch.int32), torch.tensor([[7, 8, 9]] * 2, dtype=torch.int32))


def test_resizing_keeps_elements():
    x = torch.arange(6.0).to("opencl")
    x.resize_(2, 2)
    same(x, torch.tensor([[0.0, 1], [2, 3]]))
    x.resize_(3, 4)
    assert x.shape == (3, 4)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]


def test_numbers():
    x = torch.tensor([2.5, -1]).to("opencl")
    assert (x[0].item(), int(x[1]), bool(x[0] > 2)) == (2.5, -1, True)
    assert "2.5000, -1.0000" in repr(x)
    assert "opencl" in repr(x)


def test_assertions():
    yes, no = torch.tensor([True, False]).to("opencl")
    torch._assert_async(yes)
    with pytest.raises(RuntimeError, match="got zero"):
        torch._assert_async(no)
    with pytest.raises(RuntimeError, match=r"^mine$"):
        torch._assert_async(no, "mine")


def test_a_tensor_and_its_array_are_the_same_memory():
    x = torch.arange(6.0).reshape(2, 3).to("opencl")
    array = ct.array(x.t())
    assert array.shape == (3, 2)
    array += 1
    cp.synchronize()
    same(x, torch.arange(6.0).reshape(2, 3) + 1)
    back = ct.tensor(cp.asarray(np.float32([[1, 2], [3, 4]])))
    back.add_(1)
    same(back, torch.tensor([[2.0, 3], [4, 5]]))


def test_what_is_no_tensor_or_array_is_refused():
    with pytest.raises(cp.DTypeError, match=r'expected a tensor on "opencl", got .*cpu'):
        ct.array(torch.ones(2))
    with pytest.raises(cp.DTypeError, match="expected an array, got ndarray"):
        ct.tensor(np.ones(2))
    with pytest.raises(cp.DTypeError, match="float8_e5m2 cannot be on the device"):
        torch.ones(2, dtype=torch.float8_e5m2).to("opencl")
    with pytest.raises(cp.DefinitionError, match="expected one of warn, error, silent"):
        ct.fallback("no")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2).to("opencl") + torch.ones(2)


def test_models_are_copied_saved_and_loaded():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to("opencl")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin[0].weight.add_(1)
    assert not torch.equal(model[0].weight.cpu(), twin[0].weight.cpu())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="opencl")
    twin.load_state_dict(loaded)
    same(twin[0].weight.detach(), model[0].weight.detach().cpu())
    assert torch.equal(model[1].running_var.cpu(), loaded["1.running_var"].cpu())
    for where, device in ((None, "opencl"), ("cpu", "cpu"), ({"opencl:0": "cpu"}, "cpu")):
        file.seek(0)
        weight = torch.load(file, map_location=where)["0.weight"]
        assert weight.device.type == device
        assert torch.equal(weight.cpu(), model[0].weight.detach().cpu())
    x = torch.arange(3.0).to("opencl")
    same(pickle.loads(pickle.dumps(x)), x.cpu())


def test_memory_is_counted_and_given_back():
    before = usage.now
    x = torch.zeros(1000, 1000, device="opencl")
    y = x[10:]
    assert torch.opencl.memory_allocated() - before >= 4_000_000
    del x
    assert torch.opencl.memory_allocated() - before >= 4_000_000
    del y
    assert torch.opencl.memory_allocated() == before
    assert torch.opencl.max_memory_allocated() >= before + 4_000_000


def test_the_module():
    assert torch.opencl.is_available()
    assert torch.opencl.get_device_properties().name == cp.current_device().name
    assert torch.opencl.get_device_name() == cp.current_device().name
    torch.opencl.synchronize()
    with torch.device("opencl"):
        assert torch.ones(2).device.type == "opencl"


def test_what_has_no_kernel_runs_on_the_cpu_and_says_so():
    x = torch.tensor([[2.0, 1], [1, 3]]).to("opencl")
    with pytest.raises(cp.DeviceError, match=r"linalg_matrix_exp.* has no kernel"):
        torch.linalg.matrix_exp(x)
    ct.fallback("warn")
    with pytest.warns(UserWarning, match="runs on the CPU"):
        found = torch.linalg.matrix_exp(x)
    torch.testing.assert_close(found.cpu(), torch.linalg.matrix_exp(x.cpu()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_uniform_numbers_of_16_bits_are_below_1(device, dtype):
    found = torch.rand(1 << 18, dtype=dtype, device="opencl").cpu()
    assert found.min() >= 0 and found.max() < 1
    assert torch.empty(1 << 16, dtype=dtype, device="opencl").uniform_(-1, 3).cpu().max() < 3
