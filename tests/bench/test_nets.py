"""``python -m bench nets``: whole networks beside everyone else who runs them."""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock.timing import Spread
from bench.page.nets import nets_report
from bench.page.report import slug
from bench.peers import nets as peers
from bench.work import nets, own_models, probe
from bench.work.models import MODELS, inputs_of, network, torchvision
from bench.work.nets import NetJob, NetRow, Start, net_jobs, net_names
from bench.work.replayed import ChainRow, HostRow


def invoke(folder, *options):
    arguments = ["nets", "--quick", "--repeats", "1", "--output", str(folder), *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def installed(*names):
    return all(importlib.util.find_spec(name) for name in names)


def test_a_small_network(tmp_path):
    result = invoke(tmp_path, "--peers", "calls,eager,ort,openvino", "--no-starts")
    assert result.exit_code == 0, result.output
    label = "peers-calls-eager-ort-openvino-no-starts"
    name = f"nets-{label}-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    for part in ("batch 2", "first call, warm", "A chain beside a copy", "µs a kernel", "--quick"):
        assert part in page
    for peer, packages in (("onnxruntime", ("onnx", "onnxruntime")), ("openvino", ("openvino",))):
        assert f"{peer} is left out" not in page
        assert (f"{packages[-1]} is not installed" in page) == (not installed(*packages))


def test_the_compiler_of_pytorch(tmp_path):
    result = invoke(tmp_path, "--net", "small", "--peers", "inductor", "--no-starts", "--no-chart")
    assert result.exit_code == 0, result.output
    assert "µs a kernel" not in result.output  # rows that were not asked for


def test_one_of_the_other_rows(tmp_path):
    result = invoke(tmp_path, "--net", "host", "--no-chart")
    assert result.exit_code == 0, result.output
    assert "µs a kernel" in result.output
    assert "Inference" not in result.output


def test_wrong_results_are_an_error(tmp_path, monkeypatch):
    def wrong(model):
        return lambda x: 1.01 * model(x)

    monkeypatch.setattr(peers, "compiled_network", wrong)
    result = invoke(tmp_path, "--net", "small", "--peers", "eager", "--no-starts", "--no-chart")
    assert result.exit_code == 1
    assert "off by" in result.output


def test_a_network_that_clprim_does_not_run_is_an_error(tmp_path, monkeypatch):
    def refuses(model):
        raise cp.DefinitionError("control flow")

    monkeypatch.setattr(peers, "compiled_network", refuses)
    result = invoke(tmp_path, "--peers", "eager", "--no-starts", "--no-chart")
    assert result.exit_code == 1
    assert "batch 2: DefinitionError: control flow" in result.output
    assert "µs a kernel" in result.output  # the others are measured


def test_peers_that_are_wrong_or_fail_are_left_out(tmp_path, monkeypatch):
    def fails(self, workload, inputs):
        raise NotImplementedError("no such operator")

    monkeypatch.setattr(peers.CallByCall, "inference", fails)
    monkeypatch.setattr(
        peers.Eager, "inference", lambda self, workload, inputs: lambda: 1.01 * inputs.expected
    )
    options = ("--net", "small", "--peers", "calls,eager", "--no-starts", "--no-chart")
    result = invoke(tmp_path, *options)
    assert result.exit_code == 0
    assert "call by call is left out: NotImplementedError: no such operator" in result.output
    assert "PyTorch is left out: other results" in result.output


def test_a_first_call():
    found = probe._network("small", "1")
    assert found["call"] > 0
    assert found["builds"] >= 0


def test_a_warm_start_that_builds_is_refused(monkeypatch):
    monkeypatch.setattr(nets, "probe", lambda *what, **more: {"call": 1.0, "builds": 2.0})
    with pytest.raises(RuntimeError, match="2 programs were not on disk"):
        nets._start(NetJob("small", 1), cp.current_device())


def row(name, batch, times, kernels=10, **more):
    spread = {who: Spread(value, value, value) for who, value in times.items()}
    seconds = {"clprim": 1e-3, **{who: value * 1e-3 for who, value in times.items()}}
    return NetRow(NetJob(name, batch), seconds, spread, 1e-6, kernels=kernels, **more)


def outcomes(rows, **more):
    report = nets_report(rows, [], **more)
    return {(v.target.limit, v.target.of): v.outcome for v in report.verdicts}


def test_promises():
    rows = [
        row("resnet50", 8, {"inductor": 2.0, "onnxruntime": 1.5}, start=Start(6.0, 0.4)),
        row("densenet121", 8, {"inductor": 2.0, "clprim, call by call": 0.1}, kernels=251),
        row("vgg16", 1, {"onnxruntime": 1.0}),
        row("vgg16", 1, {}),
    ]
    spread = Spread(0.91, 0.9, 0.92)
    chain = ChainRow("chain", 1, 1e-3, 1000, 1e6, spread, correct=True)
    found = outcomes(rows, chain=chain, host=HostRow("host", 32, 8e-6, 6e-6))
    best = "as fast as the best peer of each row"
    assert found == {
        ("≥ 1.3×", f"{best}: geometric mean, batch 8"): "hit",  # of 1.5 and 2
        ("≥ 1.15×", f"{best}: geometric mean, batch 1"): "MISSED",
        ("≥ 0.93×", f"{best}: every row"): "hit",
        ("≥ 1.6×", "as fast as inductor: geometric mean"): "hit",
        ("≥ 1.25×", "as fast as onnxruntime: geometric mean"): "MISSED",  # of 1.5 and 1
        ("≤ 250", "kernels"): "MISSED",
        ("≤ 5 s", "first call, nothing on disk"): "MISSED",
        ("≤ 0.5 s", "first call, everything on disk"): "hit",
        ("≥ 90%", "of a copy's bandwidth: a chain of elementwise operators"): "hit",
        ("≤ 7 µs", "of the host for each kernel"): "MISSED",
    }


def test_rows():
    assert len(net_jobs()) == 2 * len(net_names()) == 30
    assert net_jobs(names=["bert"], batches=[4]) == [NetJob("bert", 4)]
    assert invoke(".", "--net", "resnet50,nothing").exit_code == 2
    assert invoke(".", "--peers", "nobody").exit_code == 2


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
        model = getattr(own_models, MODELS[name].own)()
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize(
    ("model", "given", "shape"),
    [
        (own_models.UNet(2, 3), (1, 3, 32, 32), (1, 3, 32, 32)),
        (own_models.Yolo(2, 5), (2, 3, 64, 64), (2, 5, 64 + 16 + 4)),
    ],
)
def test_networks_of_our_own_are_traceable(model, given, shape):
    x = torch.randn(given)
    assert model.eval()(x).shape == shape
    assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))


def test_bert_is_the_one_of_transformers():
    transformers = pytest.importorskip("transformers")
    if installed("torchvision"):
        torchvision()  # which transformers imports as well
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64,
    )  # fmt: skip
    theirs = transformers.BertModel(config, add_pooling_layer=False).eval()
    mine = own_models.Bert(16, 2, 2, 1000).eval()
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
    monkeypatch.setattr(own_models, "small", lambda: hidden)
    made = network("small")
    assert made(inputs_of("small", 1, 1)).std() > 0.01
