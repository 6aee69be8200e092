"""What programs ask of any device: memory, streams, subclasses of tensors, a compiler."""

import copy
import io
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from torch_models import torchvision  # noqa: E402

import clprim as cp  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")

D = "opencl"


def test_memory_is_told():
    x = torch.ones(1000, device=D)
    free, total = torch.opencl.mem_get_info()
    assert 0 <= free <= total - 4000
    assert torch.accelerator.get_memory_info() == (free, total)
    assert torch.opencl.memory_reserved() >= torch.opencl.memory_allocated() >= 4000
    assert torch.opencl.max_memory_reserved() >= torch.opencl.memory_reserved()
    before = torch.opencl.memory_stats()
    assert before == torch.accelerator.memory_stats()
    assert before["allocated_bytes.all.current"] == torch.accelerator.memory_allocated()
    assert before["reserved_bytes.all.peak"] == torch.accelerator.max_memory_reserved()
    assert "allocated_bytes.all.peak" in torch.opencl.memory_summary()
    del x
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.opencl.memory_allocated()
    assert torch.opencl.memory_allocated() == before["allocated_bytes.all.current"] - 4000
    torch.accelerator.empty_cache()
    torch.accelerator.reset_accumulated_memory_stats()


def test_the_accelerator_is_the_device():
    major, minor = torch.opencl.get_device_capability()
    assert f"OpenCL {major}.{minor}" in cp.current_device().version
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    torch.accelerator.synchronize()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_device_index() == 0
    stream = torch.accelerator.current_stream()
    assert isinstance(stream, torch.Stream)
    assert stream == torch.opencl.current_stream() == torch.opencl.Stream()
    torch.accelerator.set_stream(stream)
    x = torch.ones(2, device=D)
    x.record_stream(stream)
    with stream:
        assert (x + 1).tolist() == [2, 2]
    assert stream.record_event().query() in (True, False)


def test_tensors_of_two_devices_are_refused():
    here, there = torch.ones(2, device=D), torch.ones(2)
    zero = torch.tensor(1.0)
    for call in (
        lambda: torch.stack([here, there]),
        lambda: torch.stack([there, here]),
        lambda: torch.stack([zero, here[0]]),
        lambda: torch.cat([here, zero]),
        lambda: there.add_(here),
        lambda: torch.add(here, here, out=there),
        lambda: torch.stack([here, here], out=torch.ones(0)),
    ):
        with pytest.raises(RuntimeError, match="found at least two devices, opencl:0 and cpu"):
            call()
    assert there.tolist() == [1, 1]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_pixels_of_bytes_are_mixed_and_rounded(mode):
    x = torch.arange(0, 250, 10, dtype=torch.uint8).roll(7).reshape(1, 1, 5, 5)
    for options in ({"size": (9, 3)}, {"scale_factor": 0.5, "antialias": True}):
        found = torch.nn.functional.interpolate(x.to(D), mode=mode, **options)
        exact = torch.nn.functional.interpolate(x.double(), mode=mode, **options)
        assert found.dtype is torch.uint8
        assert torch.equal(found.cpu(), (exact + 0.5).floor().clamp(0, 255).to(torch.uint8))


@pytest.mark.filterwarnings("ignore")
def test_the_compiler_says_which_backend_to_name():
    def f(x):
        return (x * 2).relu()

    x = torch.tensor([-1.0, 2], device=D)
    with pytest.raises(Exception, match=r"inductor.*no kernels for 'opencl'.*backend='clprim'"):
        torch.compile(f)(x)
    torch.compiler.reset()
    for backend in ("eager", "aot_eager", "clprim"):
        assert torch.compile(f, backend=backend)(x).tolist() == [0, 4]
    torch.compiler.reset()


class Plain(torch.Tensor):
    """A kind of tensor without anything of its own."""


class Tagged(torch.Tensor):
    """A tensor whose results keep a word."""

    @staticmethod
    def __new__(cls, x, tag=None):
        made = torch.as_tensor(x).as_subclass(cls)
        made.tag = tag
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        found = super().__torch_function__(function, types, args, kwargs or {})
        if isinstance(found, cls):
            found.tag = next((a.tag for a in args if isinstance(a, cls)), None)
        return found


def test_subclasses_of_tensors():
    x = torch.arange(3.0).as_subclass(Plain).to(D)
    for found in (
        x, x + 1, x[1:], x.clone(), x.half(), x.view(3, 1).t(), x.sum(), torch.cat([x, x]),
        x.view(torch.int32), torch.zeros_like(x), x.detach(), *x.split(1), *x.view(1, 3).max(1),
        torch.ones(2, device=D).as_subclass(Plain),
    ):  # fmt: skip
        assert (type(found), found.device.type) == (Plain, D)
    assert type(x.cpu()) is Plain
    assert type(x.as_subclass(torch.Tensor)) is torch.Tensor
    tagged = Tagged(torch.arange(3.0), "mine").to(D)
    for found in (tagged, tagged * 2, tagged.cpu(), tagged.cpu().to(D, torch.int32)):
        assert (type(found), found.tag) == (Tagged, "mine")
    file = io.BytesIO()
    torch.save(tagged, file)
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert (type(found), found.tag, found.device.type, found.tolist()) == (
        Tagged, "mine", D, [0, 1, 2],
    )  # fmt: skip

    class Weight(torch.nn.Parameter):
        pass

    layer = torch.nn.Linear(2, 2)
    layer.weight = weight = Weight(torch.ones(2, 2))
    assert layer.to(D).weight is weight
    assert (type(weight), weight.device.type) == (Weight, D)


def test_wrappers_of_tensors():
    two_tensor = pytest.importorskip("torch.testing._internal.two_tensor")
    x = two_tensor.TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)).to(D)
    layer = torch.nn.Linear(3, 2, bias=False)
    layer.weight = torch.nn.Parameter(two_tensor.TwoTensor(torch.ones(2, 3), torch.ones(2, 3)))
    layer.to(D)
    for found in (x, x + 1, x @ x.t(), copy.deepcopy(x), layer.weight.data, layer(x)):
        assert isinstance(found, two_tensor.TwoTensor)
        assert found.a.device.type == found.b.device.type == found.device.type == D
    assert (x + 1).b.tolist() == [[1, 1, 1]] * 2
    layer(x).sum().backward()
    assert layer.weight.grad.a.tolist() == [[2, 2, 2]] * 2


def test_images_boxes_and_masks_of_torchvision():
    if find_spec("torchvision") is not None:
        torchvision()
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    from torchvision.transforms import v2

    image = tv_tensors.Image(torch.arange(192, dtype=torch.uint8).reshape(3, 8, 8)).to(D)
    place = {"format": "XYXY", "canvas_size": (8, 8)}
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[0, 0, 2, 4]]), **place).to(D)
    assert (boxes.canvas_size, boxes.device.type) == ((8, 8), D)
    found = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.CenterCrop(6)])(image, boxes)
    assert [type(f) for f in found] == [tv_tensors.Image, tv_tensors.BoundingBoxes]
    assert torch.equal(found[0].cpu(), image.cpu().flip(-1)[:, 1:7, 1:7])
    assert found[1].tolist() == [[5, 0, 6, 3]]


def test_images_of_monai():
    data = pytest.importorskip("monai.data")
    x = data.MetaTensor(torch.ones(1, 2, 2), affine=torch.eye(4), meta={"name": "a"}).to(D)
    for found in (x, x * 2, copy.deepcopy(x), data.list_data_collate([x, x])):
        assert (type(found), found.device.type) == (data.MetaTensor, D)
    assert (x * 2).meta["name"] == "a"
