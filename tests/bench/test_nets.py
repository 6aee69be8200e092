"""Whole networks: in inference, in training, compiled by PyTorch, as ONNX models."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import clprim as cp
from bench import models_own, probe
from bench.__main__ import main
from bench.cases import networks
from bench.cases.networks import NETS, Net, TrainingStep
from bench.models import MODELS, inputs_of, network, torchvision
from bench.models_packages import PACKAGE_MODELS, PackageModel
from bench.options import defaults_of

# Of PyTorch's own parts, which its compiler imports.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def run(folder, *words):
    return main([*words, "--quick", "--repeats", "1", "--output", str(folder)])


def page_in(folder):
    (page,) = folder.glob("*.md")
    return page.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr("bench.timing.SETTLE", 0)


def test_inference(tmp_path):
    assert run(tmp_path, "nets", "--peers", "calls,eager,ort,openvino", "--no-starts") == 0
    page = page_in(tmp_path)
    assert "Inference, batch 2" in page and "kernels" in page
    assert "left out" not in page


def test_the_compiler_of_pytorch(tmp_path):
    assert run(tmp_path, "nets", "--net", "small", "--peers", "inductor", "--no-starts") == 0
    assert "inductor" in page_in(tmp_path) and "left out" not in page_in(tmp_path)


def test_wrong_results_and_refusals_are_errors(tmp_path, monkeypatch):
    words = ("nets", "--net", "small", "--peers", "eager", "--no-starts")
    fused = networks.fused
    monkeypatch.setattr(networks, "fused", lambda data: lambda: 1.01 * fused(data)())
    assert run(tmp_path / "wrong", *words) == 1
    assert "WRONG RESULT: clprim" in page_in(tmp_path / "wrong")

    def refuses(data):
        raise cp.DefinitionError("control flow")

    monkeypatch.setattr(networks, "fused", refuses)
    assert run(tmp_path / "refused", "nets", "--peers", "eager", "--no-starts") == 1
    assert "DefinitionError: control flow" in page_in(tmp_path / "refused")


def test_training(tmp_path, monkeypatch):
    measured = networks.probe

    def footprint(what, where, *more):  # PyTorch's process does the same as clprim's
        if where == "opencl":
            return measured(what, where, *more)
        return {"rise": 1, "state": 1, "process": 1}

    monkeypatch.setattr(networks, "probe", footprint)
    assert run(tmp_path, "step") == 0
    page = page_in(tmp_path)
    for part in ("Training step, batch 2", "clprim, compiled", "PyTorch", "the whole process"):
        assert part in page


def test_what_differs_or_strays_to_the_cpu_is_an_error(tmp_path, monkeypatch):
    step = TrainingStep.__call__
    monkeypatch.setattr(
        TrainingStep, "__call__", lambda self: step(self) + (self.images.device.type != "cpu")
    )
    assert run(tmp_path / "wrong", "step", "--net", "small") == 1
    assert "WRONG RESULT: clprim" in page_in(tmp_path / "wrong")
    monkeypatch.undo()
    monkeypatch.setattr(networks, "_strayed", lambda data, call: {"!": "on the CPU ran sort"})
    assert run(tmp_path / "strayed", "step", "--net", "small") == 1
    assert "on the CPU ran sort" in page_in(tmp_path / "strayed")


def test_compiled_by_pytorch(tmp_path, monkeypatch):
    compiled, asked = torch.compile, []

    def quick(model, *, backend="inductor", **more):  # PyTorch's own compiler takes long
        asked.append(backend)
        told = {} if backend == "inductor" else more
        return compiled(model, backend="eager" if backend == "inductor" else backend, **told)

    monkeypatch.setattr(torch, "compile", quick)
    memory = [("Memory", ["", "clprim"], [["a step", "1"]])]
    monkeypatch.setattr(networks, "memory_of_step", lambda *_: memory)
    warm = {"clprim": {"call": 1.0}, "inductor": {"call": 2.0}}
    monkeypatch.setattr(networks, "cold_and_warm", lambda *what: (None, warm[what[-1]]))
    assert run(tmp_path, "torch", "--compiled") == 0
    page = page_in(tmp_path)
    assert {"clprim", "inductor"} == set(asked)
    for part in ("inductor", "clprim, call by call", "a step", "The first result of a small"):
        assert part in page


def test_imported_models(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    assert run(tmp_path / "right", "onnx", "--no-starts") == 0
    page = page_in(tmp_path / "right")
    for part in ("Exported networks, batch 2", "onnxruntime", "error"):
        assert part in page
    outputs = networks.Imported.outputs
    monkeypatch.setattr(
        networks.Imported, "outputs", lambda self, *level: [1.01 * y for y in outputs(self)]
    )
    assert run(tmp_path / "wrong", "onnx", "--no-starts") == 1
    assert "off by 9.9e-03" in page_in(tmp_path / "wrong")
    away = PackageModel("a model", "not-there", "not_there_at_all", "a.onnx", {}, "MIT")
    monkeypatch.setitem(PACKAGE_MODELS, "music", away)
    assert run(tmp_path, "onnx", "--net", "music") == 2
    assert "not installed: not-there" in capsys.readouterr().err


def test_inputs_of_packages_models():
    inputs = {
        "a": ("int32", (2, 3)), "b": ("int64", 7), "c": ("float32", (4,)),
        "few": ("int64", (50,), 2), "mask": ("int64", (2,)),
    }  # fmt: skip
    made = PackageModel("", "", "", "", inputs, "MIT")
    given = made.given()
    assert {n: (a.dtype.name, a.shape) for n, a in given.items()} == {
        "a": ("int32", (2, 3)), "b": ("int64", ()), "c": ("float32", (4,)),
        "few": ("int64", (50,)), "mask": ("int64", (2,)),
    }  # fmt: skip
    assert given["b"] == 7
    np.testing.assert_array_equal(given["a"], made.given()["a"])
    assert set(given["few"]) == {0, 1}
    assert set(given["mask"]) == {1}


def test_a_first_call():
    found = probe._network("small", "1")
    assert found["call"] > 0 and found["builds"] >= 0


def test_rows(monkeypatch):
    monkeypatch.setattr(networks, "needed", lambda names: None)
    args = defaults_of("nets", quick=False)
    assert len(networks.nets_cases(args)) == 2 * len(NETS) == 30
    titles = {case.title for case in networks.step_cases(defaults_of("step", quick=False))}
    assert {"ResNet-18, 224²", "MobileNetV2, 224²", "VGG-16, 112²"} < titles
    assert Net("small", 2).inputs["x"].shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # As published: of BERT-base 109,482,240 with the layer of the pooled result, which has
        # 768·769; of the U-Net 31,037,698 less the biases that batch norms make superfluous.
        ("bert", 109_482_240 - 768 * 769),
        ("unet", 31_037_698),
    ],
)
def test_networks_of_our_own_are_those_of_the_papers(name, parameters):
    with torch.device("meta"):
        model = getattr(models_own, MODELS[name].own)()
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize(
    ("model", "given", "shape"),
    [
        (models_own.UNet(2, 3), (1, 3, 32, 32), (1, 3, 32, 32)),
        (models_own.Yolo(2, 5), (2, 3, 64, 64), (2, 5, 64 + 16 + 4)),
    ],
)
def test_networks_of_our_own_are_traceable(model, given, shape):
    x = torch.randn(given)
    assert model.eval()(x).shape == shape
    assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))


def test_bert_is_the_one_of_transformers():
    transformers = pytest.importorskip("transformers")
    if importlib.util.find_spec("torchvision"):
        torchvision()  # which transformers imports as well
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64,
    )  # fmt: skip
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    mine = models_own.Bert(16, 2, 2, 1000).eval()
    names = {
        "embeddings.word_embeddings": "words", "embeddings.position_embeddings": "places",
        "embeddings.token_type_embeddings": "kinds", "embeddings.LayerNorm": "norm",
        "encoder.layer": "layers", "attention.self.": "", "attention.output.dense": "mixed",
        "attention.output.LayerNorm": "first", "intermediate.dense": "wide",
        "output.dense": "narrow", "output.LayerNorm": "second",
    }  # fmt: skip
    weights = {}
    for key, value in theirs.state_dict().items():
        name = key
        for old, new in names.items():
            name = name.replace(old, new)
        weights[name] = value
    mine.load_state_dict(weights)
    tokens = torch.randint(0, 1000, (2, 9))
    with torch.no_grad():
        expected = theirs(tokens).last_hidden_state
        np.testing.assert_allclose(mine(tokens), expected, rtol=1e-4, atol=1e-5)


def test_no_weight_hides_a_part_of_a_network(monkeypatch):
    hidden = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, 2))
    nn.init.zeros_(hidden[2].weight)
    monkeypatch.setattr(models_own, "small", lambda: hidden)
    made = network("small")
    assert made(inputs_of("small", 1, 1)).std() > 0.01
