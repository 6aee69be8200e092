"""Storages of the device: addresses, sizes, sharing and resizing are those of PyTorch's devices."""

import copy
import gc
import io
import itertools
import multiprocessing.reduction
import pickle

import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402
from clprim.torch.tensors import usage  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")


def storage(tensor):
    found = tensor.untyped_storage()
    return found.data_ptr(), found.nbytes()


def test_every_storage_has_an_address_and_a_size_of_its_own():
    kept = [torch.empty(n, dtype=torch.int16, device="opencl") for n in (1, 3, 600_000, 2, 700_000)]
    ranges = sorted(storage(t) for t in kept)
    assert sorted(n for _, n in ranges) == [2, 4, 6, 1_200_000, 1_400_000]
    assert all(a > 0 and a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges))
    assert storage(torch.empty(2, 0, device="opencl")) == (0, 0)
    seen = {torch.ones(2, device="opencl").data_ptr() for _ in range(20)}
    assert len(seen) == 20  # nobody takes a new tensor for one that is gone


def test_views_share_their_storage():
    x = torch.arange(12.0, device="opencl").reshape(3, 4)
    views = (x[1:, 2:], x.t(), x.detach(), x.view(torch.int16), torch.nn.Parameter(x))
    assert {storage(v) for v in views} == {storage(x)} == {(x.data_ptr(), 48)}
    assert views[0].data_ptr() == x.data_ptr() + 24
    assert storage(x.clone())[0] != storage(x)[0]
    assert x.is_set_to(x.view(3, 4))
    assert not x.is_set_to(x.t())
    permuted = torch.ones(2, 3, 4, 5, device="opencl").to(memory_format=torch.channels_last)
    assert storage(permuted)[1] == 480
    assert storage(ct.tensor(cp.asarray([1.0, 2, 3, 4])[1::2]))[1] == 12


def test_storages_are_read_written_and_made():
    x = torch.tensor([1, 2, 258], dtype=torch.int16, device="opencl")
    found = x.untyped_storage()
    assert found.tolist() == found.cpu().tolist() == found.clone().tolist() == [1, 0, 2, 0, 2, 1]
    assert (found.clone().device.type, found.cpu().device.type) == ("opencl", "cpu")
    found[2] = 7
    assert (x.tolist(), found[2], len(found)) == ([1, 7, 258], 7, 6)
    made = torch.UntypedStorage(6, device="opencl")
    made.copy_(found)
    assert torch.empty(0, dtype=torch.int16, device="opencl").set_(made).tolist() == [1, 7, 258]
    assert torch.UntypedStorage([1, 2], device="opencl").tolist() == [1, 2]
    assert torch.UntypedStorage([1, 2]).to(device="opencl").tolist() == [1, 2]
    assert torch.UntypedStorage(5).nbytes() == 5
    assert (found.new().device.type, found.new().nbytes()) == ("opencl", 0)
    found.byteswap(torch.int16)
    assert found.tolist() == [0, 1, 0, 7, 1, 2]
    with pytest.raises(TypeError):
        torch.UntypedStorage(1, 2, device="opencl")


def test_a_storage_that_is_freed_and_allocated_again():
    gc.collect()
    before = usage.now
    x = torch.arange(6.0, device="opencl")
    view = x[2:]
    x.untyped_storage().resize_(0)
    assert storage(x) == (0, 0)
    assert usage.now == before
    with pytest.raises(cp.ShapeError, match="reaches beyond its storage of 0 bytes"):
        x + 1
    x.untyped_storage().resize_(24)
    x.copy_(torch.arange(6.0))
    assert view.tolist() == [2, 3, 4, 5]
    x.untyped_storage().resize_(9)
    x.untyped_storage().resize_(24)
    assert x[:2].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="at least 0"):
        x.untyped_storage().resize_(-1)
    del x, view
    assert usage.now == before


def test_tensors_that_grow_take_their_views_with_them():
    x = torch.arange(6.0, device="opencl")
    view = x[1:3]
    x.resize_(2, 4)
    assert x[0].tolist() == [0, 1, 2, 3]
    x[0, 1] = -1
    assert view.tolist() == [-1, 2]
    assert storage(view) == storage(x) == (x.data_ptr(), 32)
    y = torch.empty(0, device="opencl").set_(x.untyped_storage(), 2, (2, 2), (7, 1))
    assert storage(x)[1] == 44
    y.fill_(5)
    assert x.tolist()[0] == [0, -1, 5, 5]
    assert x.resize_(1, 2, 1, 2, memory_format=torch.channels_last).stride() == (4, 1, 4, 2)
    assert x.set_().shape == (0,)


def test_what_shares_memory_shares_it_where_it_is_copied_or_saved():
    x = torch.arange(6.0, device="opencl")
    pair = {"whole": x, "part": x.reshape(2, 3)[:, 1:]}
    files = [io.BytesIO(), io.BytesIO()]
    torch.save(pair, files[0])
    torch.save(pair, files[1], _use_new_zipfile_serialization=False)
    for file in files:
        file.seek(0)
    assert pickle.loads(pickle.dumps(pair))["part"].tolist() == [[1, 2], [4, 5]]
    for found in (copy.deepcopy(pair), *map(torch.load, files)):
        assert storage(found["whole"]) == storage(found["part"]) != storage(x)
        found["whole"][4] = -4
        assert found["part"].tolist() == [[1, 2], [-4, 5]]
        assert found["part"].device == x.device
    assert x[4].item() == 4


def test_other_processes_are_not_given_tensors():
    send = multiprocessing.reduction.ForkingPickler.dumps
    for size in (0, 2):
        with pytest.raises(cp.DeviceError, match=r"opencl:0 cannot be shared .*send x\.cpu\(\)"):
            send(torch.ones(size, device="opencl"))
        assert len(send(torch.ones(size)))
