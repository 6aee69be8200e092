"""`clprim.torch.quantize_`: layers with weights of few bits."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402
from clprim.errors import DefinitionError, ShapeError  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(40, 64, padding_idx=0)
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU())
        self.down = torch.nn.Linear(96, 64, bias=False)
        self.lm_head = torch.nn.Linear(64, 40, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        return self.lm_head(x + self.down(self.body(x)))


def networks(format="q8_0", **options):
    """A network with quantised weights on the device, and one of the same numbers on the CPU."""
    torch.manual_seed(0)
    net, plain = Net().eval(), Net().eval()
    plain.load_state_dict(net.state_dict())
    plain.lm_head.weight = torch.nn.Parameter(net.embed.weight.detach().clone())
    net = net.to("opencl")
    assert clprim.torch.quantize_(net, format=format, **options) is net
    with torch.no_grad():
        for name in ("embed", "body.0", "down"):
            layer, other = net.get_submodule(name), plain.get_submodule(name)
            other.weight.copy_(torch.from_numpy(layer.weight.dequantize().get()))
    return net, plain


@pytest.mark.parametrize("format", ["q8_0", "q4_1"])
def test_networks_compute_with_what_is_decoded(device, format):
    net, plain = networks(format)
    assert type(net.embed).__name__ == "QuantizedEmbedding"
    assert [type(m).__name__ for m in (net.down, net.lm_head)] == ["QuantizedLinear", "Linear"]
    assert format in repr(net.down)
    for shape in ((1, 1), (2, 7), (9,)):
        ids = torch.arange(int(np.prod(shape))).reshape(shape) % 40
        with torch.no_grad():
            expected = plain(ids)
            for run in (net, clprim.torch.fuse(net)):
                for _ in range(2):
                    found = run(ids.to("opencl")).cpu()
                    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_compiled(device):
    net, plain = networks()
    compiled = torch.compile(net, backend="clprim")
    ids = torch.arange(6).reshape(2, 3)
    with torch.no_grad():
        found = compiled(ids.to("opencl")).cpu()
        torch.testing.assert_close(found, plain(ids), rtol=1e-5, atol=1e-5)


def test_adapters_train_beside_frozen_weights(device):
    net, plain = networks()
    torch.manual_seed(1)
    x = torch.randn(3, 5, 64)
    down, up = torch.randn(64, 4) / 8, torch.randn(4, 96) / 2

    def loss(layer, x, down, up):
        y = layer(x) + x @ down @ up
        return (torch.tanh(y) ** 2).sum()

    grads = []
    for layer, kind in ((net.body[0], "opencl"), (plain.body[0], "cpu")):
        given = [v.detach().to(kind).requires_grad_() for v in (x, down, up)]
        loss(layer, *given).backward()
        grads.append([g.grad.cpu() for g in (*given, layer.bias)])
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert not [name for name, _ in net.named_parameters() if name.startswith("down")]


def test_other_storages(device):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 32)).half().to("opencl")
    clprim.torch.quantize_(net, "q5_0")
    x = torch.randn(4, 64).half()
    found = net(x.to("opencl"))
    assert found.dtype == torch.float16
    matrix = torch.from_numpy(net[0].weight.dequantize().get())
    expected = x.float() @ matrix.T + net[0].bias.cpu().float()
    torch.testing.assert_close(
        found.detach().cpu().float(), expected.detach(), rtol=2e-3, atol=2e-3
    )
    assert net.state_dict()["0.words"].nbytes == net[0].weight.nbytes


@pytest.mark.refusal
def test_wrong_arguments(device):
    make = clprim.torch.quantize_
    linear = torch.nn.Linear(64, 32)
    for given, said in (
        (3, "expected a network"),
        (torch.nn.ReLU(), "to replace"),
        (linear, "a layer alone"),
    ):
        with pytest.raises(DefinitionError, match=said):
            make(given)
    net = torch.nn.Sequential(linear, torch.nn.Linear(32, 50), torch.nn.Linear(50, 8))
    with pytest.raises(ShapeError, match=r"layer 2: .*blocks of 32.*skip=\['2'\]"):
        make(net)
    assert net[0] is linear
    with pytest.raises(DefinitionError, match="only read from files"):
        make(net, "q4_k")
    make(net, skip="2")
    assert [type(m).__name__ for m in net] == ["QuantizedLinear", "QuantizedLinear", "Linear"]


def packed_network():
    """A network, its checkpoint with layers packed as AWQ and GPTQ have them, and their numbers."""
    torch.manual_seed(0)
    net = Net().eval().half()
    plain = Net().eval()
    plain.lm_head.weight = plain.embed.weight
    state = {n: t for n, t in net.state_dict().items() if "lm_head" not in n}
    dice = torch.Generator().manual_seed(1)
    for name in ("body.0", "down"):
        outputs, depth = state.pop(f"{name}.weight").shape
        codes = torch.randint(0, 16, (outputs, depth), generator=dice)
        zeros = torch.randint(1, 16, (outputs, 2), generator=dice)
        scales = (torch.rand(outputs, 2, generator=dice) / 64).to(torch.bfloat16)
        index = torch.randperm(depth, generator=dice) % 2
        shift, eights = torch.arange(0, 32, 4), codes.T.reshape(depth // 8, 8, outputs).mT
        state[f"{name}.qweight"] = (eights << shift).sum(-1).to(torch.int32)
        state[f"{name}.qzeros"] = ((zeros.T - 1).reshape(2, -1, 8) << shift).sum(-1).int()
        state[f"{name}.scales"] = scales.T.contiguous()
        state[f"{name}.g_idx"] = index.to(torch.int32)
        with torch.no_grad():
            numbers = (codes - zeros[:, index]) * scales.float()[:, index]
            plain.get_submodule(name).weight.copy_(numbers)
    plain.load_state_dict(state, strict=False)
    return state, plain


@pytest.mark.parametrize("way", ["dict", "file", "folder"])
def test_packed_checkpoints(device, way, tmp_path):
    state, plain = packed_network()
    net = Net().eval()
    net.lm_head.weight = net.embed.weight
    given, told = state, {"format": "gptq"}
    if way != "dict":
        safetensors = pytest.importorskip("safetensors.torch")
        given = tmp_path / "model.safetensors"
        safetensors.save_file(state, given)
    if way == "folder":
        config = {"quantization_config": {"quant_method": "gptq", "checkpoint_format": "gptq"}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        given, told = tmp_path, {}
    assert clprim.torch.load_packed_(net, given, **told) is net
    assert [type(m).__name__ for m in (net.down, net.lm_head)] == ["QuantizedLinear", "Linear"]
    net = net.to("opencl")
    ids = torch.arange(14).reshape(2, 7)
    with torch.no_grad():
        expected = plain(ids)
        for run in (net, torch.compile(net, backend="clprim")) if way == "dict" else (net,):
            torch.testing.assert_close(run(ids.to("opencl")).cpu(), expected, rtol=1e-4, atol=1e-5)
    x = torch.randn(3, 64)
    grads = []
    for layer, kind in ((net.body[0], "opencl"), (plain.body[0], "cpu")):
        a = x.to(kind).requires_grad_()
        (layer(a) ** 2).sum().backward()
        grads.append(a.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-3)


@pytest.mark.refusal
def test_checkpoints_that_do_not_fit_change_nothing(device, tmp_path):
    state, _ = packed_network()
    load = clprim.torch.load_packed_
    net = Net()
    net.lm_head.weight = net.embed.weight
    (tmp_path / "broken.safetensors").write_bytes(b"1234567890")
    unbiased = {n: t for n, t in state.items() if n != "body.0.bias"}
    of_body = {n.replace("body.0", "down"): t for n, t in state.items() if n.startswith("body.0.")}
    of_body.pop("down.bias")
    for error, said, given, told in (
        (DefinitionError, "give format=", state, None),
        (DefinitionError, "expected one of awq", state, "gguf"),
        (DefinitionError, "no nn.Linear of the network", {}, "awq"),
        (DefinitionError, "has no body.0.bias", unbiased, "gptq"),
        (ShapeError, "embed.weight has", state | {"embed.weight": torch.zeros(3, 64)}, "gptq"),
        (ShapeError, "layer body.0: packed_weight", state, "awq"),
        (ShapeError, "layer down has a weight", state | of_body, "gptq"),
        (DefinitionError, "expected a state dict", tmp_path / "none", "gptq"),
        (DefinitionError, "broken.safetensors|take the package", tmp_path, "gptq"),
    ):
        before = {n: t.clone() for n, t in net.state_dict().items()}
        with pytest.raises(error, match=said):
            load(net, given, told)
        assert [type(m).__name__ for m in (net.down, net.body[0])] == ["Linear", "Linear"]
        for name, tensor in net.state_dict().items():
            assert torch.equal(tensor, before[name])
    with pytest.raises(DefinitionError, match="expected a network"):
        load(3, state, "gptq")
