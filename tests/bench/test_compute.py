"""Products and convolutions: rows, references, peers, promises, commands."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import clprim as cp
from bench.__main__ import app
from bench.clock import compute, timing
from bench.clock.compute import Promise, Row, measure_job, peak_gauge, run_compute
from bench.clock.timing import Sample, Spread
from bench.page.compute import compute_report
from bench.page.report import slug
from bench.peers.compute import CuDNN, Packs, compute_peers, fetch
from bench.peers.peer import Inputs
from bench.work import reference
from bench.work.conv import DIRECTIONS, FORMATS, Conv, conv_jobs, promises
from bench.work.gemm import Gemm, gemm_jobs
from clprim.runtime.ceilings import Candidate
from clprim.tune.networks import NETWORKS, Layer

LAYER = Layer(6, 8, 3, 7, stride=2, padding=1, groups=2)
POCL = "Portable Computing Language"
JOBS = [Conv(LAYER, 2, f, d, f"{f} {d}") for f in FORMATS for d in DIRECTIONS]
FOLLOWED = replace(LAYER, groups=1, channels=20, adds=True, activation="relu")
JOBS += [Conv(FOLLOWED, 2, f, "forward", followed=True) for f in FORMATS]
JOBS += [Conv(Layer(3, 20, 1, 4, activation="relu6"), 2, "contiguous", "forward", followed=True)]
JOBS += [Gemm(5, 6, 7), Gemm(5, 6, 7, transpose_a=True), Gemm(5, 6, 7, True, True)]
PEERS = [Packs, *map(type, compute_peers(cp.current_device()))]

EVENT = SimpleNamespace(wait=lambda: time.sleep(1e-3))


def named(job):
    return f"{job.op}-{job.memory_format}-{job.title}"


@pytest.mark.parametrize("job", JOBS, ids=named)
@pytest.mark.parametrize("kind", PEERS, ids=lambda kind: kind.name)
def test_peers_compute_the_same(kind, job):
    peer = kind(cp.current_device())
    inputs = Inputs(job)
    call = peer.prepare(job, inputs)
    if peer.missing:
        pytest.skip(peer.missing)
    if call is None:
        assert kind is not Packs
        return
    for _ in range(2):  # the second one writes over the first one's result
        found = call()
        peer.finish()
        np.testing.assert_array_equal(fetch(found), job.reference(inputs))


def test_peers_of_a_gpu():
    device = SimpleNamespace(traits=SimpleNamespace(is_cpu=False), cl=None)
    peers = compute_peers(device)
    assert isinstance(peers[0], CuDNN)
    kinds = map(type, compute_peers(cp.current_device()))
    assert (CuDNN in kinds) != cp.current_device().traits.is_cpu
    for job in JOBS:
        assert hasattr(CuDNN, job.op)
        assert CuDNN.remarks[job.op]


def test_the_reference_is_the_definition():
    x, w, g = (
        np.random.default_rng(n).integers(-4, 5, shape).astype(np.float32)
        for n, shape in enumerate([(2, 6, 7, 7), (8, 3, 3, 3), (2, 8, 4, 4)])
    )
    padded = np.zeros((2, 6, 9, 9), np.float32)
    padded[:, :, 1:8, 1:8] = x
    y = np.zeros((2, 8, 4, 4), np.float32)
    for n, f, i, j in np.ndindex(y.shape):
        first = 3 * (f // 4)
        window = padded[n, first : first + 3, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        y[n, f, i, j] = (window * w[f]).sum()
    np.testing.assert_array_equal(reference.conv_forward(x, w, LAYER), y)
    # A convolution is linear in either operand, and the gradients are its adjoints.
    product = (y * g).sum()
    assert (x * reference.conv_input(w, g, LAYER)).sum() == product
    assert (w * reference.conv_weight(x, g, LAYER)).sum() == product


def test_shapes_of_a_convolution():
    for direction in DIRECTIONS:
        job = Conv(LAYER, 2, "channels_last", direction)
        assert job.flops == 2 * (2 * 8 * 4 * 4) * 3 * 9
        inputs = Inputs(job)
        assert all(array.strides[1] == 4 for array in inputs.host)
        result = {"forward": (2, 8, 4, 4), "input": (2, 6, 7, 7), "weight": (8, 3, 3, 3)}
        assert job.reference(inputs).shape == result[direction]
        assert result[direction] not in job.shapes


def test_shapes_of_a_product():
    assert Gemm(2, 3, 5).shapes == ((2, 5), (5, 3))
    assert Gemm(2, 3, 5, True, True).shapes == ((5, 2), (3, 5))
    assert Gemm(2, 3, 5, True, False).title == "2×3×5 TN"
    assert Gemm(2, 3, 5).flops == 60


@pytest.mark.parametrize("quick", [False, True])
def test_rows_are_distinct(quick):
    device = cp.current_device()
    jobs = [*gemm_jobs(device, quick=quick)]
    jobs += conv_jobs(device, networks=NETWORKS, directions=DIRECTIONS, quick=quick)
    jobs += conv_jobs(device, networks=["resnet50", "mobilenet-v2"], followed=True, quick=quick)
    keys = [(job.group, job.title) for job in jobs]
    assert len(set(keys)) == len(keys)
    assert sum(job.flops for job in jobs) < 1e7 or not quick


def test_the_table_of_products():
    jobs = gemm_jobs(cp.current_device())
    squares = {job.m for job in jobs if job.m == job.n == job.k}
    assert squares >= {256, 512, 1024, 2048, 4096, 511, 1000, 1023, 1025}
    assert {(job.transpose_a, job.transpose_b) for job in jobs if job.m == 1000} == {
        (a, b) for a in (False, True) for b in (False, True)
    }
    assert {job.k for job in jobs} >= {16, 65536}


def test_batches():
    device = cp.current_device()
    blog = conv_jobs(device, networks=["blog"], formats=["contiguous"])
    assert [job.batch for job in blog] == [64, 8, 1]
    assert {job.batch for job in conv_jobs(device, networks=["blog"], batch=3)} == {3}
    promised = {
        (name, batch)
        for name in NETWORKS
        for batch in (8, 1)
        for job in conv_jobs(device, networks=[name], batch=batch)
        if job.promises
    }
    assert promised <= {("resnet50", 8)}


def test_layers_with_what_follows():
    device = cp.current_device()
    jobs = conv_jobs(device, networks=["resnet50"], formats=["contiguous"], followed=True)
    assert {job.batch for job in jobs} == {1, 8}
    expanding = [job for job in jobs if job.title.startswith("64→256") and job.batch == 1]
    assert [(job.title, job.count) for job in expanding] == [
        ("64→256 1×1 of 56², sum, ReLU", 3),
        ("64→256 1×1 of 56²", 1),
    ]
    assert [len(job.shapes) for job in expanding] == [4, 3]
    if device.traits.is_cpu and device.platform != POCL:
        assert expanding[0].promises == (
            Promise("oneDNN", least=0.95),
            Promise("onnxruntime", least=0.95),
        )


class Traits:
    is_cpu = True


class Fake:
    def __init__(self, platform):
        self.platform = platform
        self.traits = Traits()


def test_promises():
    native, pocl = Fake("Any OpenCL"), Fake(POCL)
    assert promises(native, "channels_last", "forward") == (
        Promise("oneDNN prepacked", mean=0.97, least=0.85),
    )
    assert promises(native, "contiguous", "forward") == (Promise("oneDNN", mean=1.3, least=0.95),)
    assert promises(pocl, "channels_last", "forward") == (Promise("oneDNN prepacked", mean=0.85),)
    assert promises(pocl, "contiguous", "forward") == (Promise("oneDNN", mean=1.1),)
    for memory_format in FORMATS:
        for direction in DIRECTIONS[1:]:
            kept = promises(native, memory_format, direction)
            assert kept == (Promise("oneDNN", mean=0.9),)
    native.traits.is_cpu = False
    assert promises(native, "contiguous", "forward") == ()


def row(title, rate, theirs, *, count=1, wrong=()):
    job = Gemm(2, 2, 2, promises=(Promise("P", mean=0.9, least=0.7), Promise("Q", least=2)))
    job = type("Job", (), {**{k: getattr(job, k) for k in ("promises", "op", "flops")}})()
    job.title, job.group, job.count = title, "G", count
    spread = Spread(rate / theirs, 0, 9)
    ratios = {"P": spread}
    return Row(job, rate, 4 * rate, Spread(0.25, 0.2, 0.3), {"P": theirs}, ratios, tuple(wrong))


def test_report():
    rows = [row("a", 1e9, 2e9, count=3), row("b", 8e9, 2e9, wrong=["P"])]
    found = compute_report("gemm", "T", rows, [], [], label="x")
    mean, a, b, *others = found.verdicts
    assert mean.measured == pytest.approx(2**0.5)
    assert (mean.subject, a.measured, b.measured) == ("2 rows", 0.5, 4)
    assert [verdict.outcome for verdict in found.verdicts[:3]] == ["hit", "MISSED", "hit"]
    assert {verdict.outcome for verdict in others} == {"not judged"}
    assert found.failures == ("G: b: the result of P is not exact",)
    (table,) = found.tables
    assert table.columns == ("", "GFLOP", "clprim", "share of peak", "target")


def test_disturbed_rows_are_not_judged():
    rows = [row("a", 1e9, 2e9), replace(row("b", 8e9, 2e9), calm=False)]
    found = compute_report("gemm", "T", rows, [], [])
    outcomes = [verdict.outcome for verdict in found.verdicts[:3]]
    assert outcomes == ["not judged", "MISSED", "not judged"]
    assert found.verdicts[0].excuse == found.verdicts[2].excuse == "disturbed"
    assert any("1 of 2 rows" in note for note in found.notes)


def test_totals():
    class Peer:
        name, missing, remarks = "P", "", {}

    rows = [row("a", 1e9, 2e9, count=3), row("b", 8e9, 2e9)]
    (table,) = compute_report("gemm", "T", rows, [Peer()], []).tables
    lines = {line[0]: line for line in table.rows}
    assert lines["a (×3)"][2:5] == ("1", "25% (20–30)", "2 (0.50×)")
    assert lines["geometric mean"][4] == "2 (1.41×)"
    assert lines["worst row"][4] == "0.50×: a"
    # Three runs of a and one of b: 16 operations each.
    mine, theirs = 3 * 16 / 1e9 + 16 / 8e9, 4 * 16 / 2e9
    assert lines["all together"][4] == f"{1e3 * theirs:.1f} ms ({theirs / mine:.2f}×)"


def test_a_wrong_peer_is_named_and_not_timed(monkeypatch):
    monkeypatch.setattr(timing, "_SETTLE", 0)
    device = cp.current_device()

    class Wrong(Packs):
        name = "wrong"

        def gemm(self, workload, inputs):
            zeros = np.zeros((5, 6), np.float32)
            return lambda: zeros

    peak = peak_gauge(Candidate("peak", lambda: EVENT, 1))
    ticks = []
    found = measure_job(
        Gemm(5, 6, 7), device, peak, [Wrong(device)], repeats=2, tick=lambda: ticks.append(1)
    )
    assert found.wrong == ("wrong",)
    assert found.ratios == found.rates == {}
    assert len(ticks) == 2


def test_rows_are_held_against_the_best_of_the_run(monkeypatch):
    monkeypatch.setattr(timing, "_SETTLE", 0)
    speeds = iter([0.004] * 3 + [0.001] * 30)  # a busy beginning, which nothing betrays yet
    event = SimpleNamespace(wait=lambda: time.sleep(next(speeds)))
    candidate = Candidate("peak", lambda: event, 1)
    monkeypatch.setattr(compute, "peak_candidates", lambda device: [candidate])
    monkeypatch.setattr(compute, "best", lambda candidates: (candidates[0], 1.0))
    jobs = [Gemm(5, 6, 7), Gemm(7, 6, 5)]
    rows, peers, refused = run_compute(
        jobs, cp.current_device(), repeats=2, wanted=[], progress=lambda about, part: None
    )
    assert [row.calm for row in rows] == [False, True]
    assert peers == refused == []


def test_slow_peers_run_less_often(monkeypatch):
    monkeypatch.setattr(timing, "_SETTLE", 0)
    monkeypatch.setattr(compute, "SAMPLE", 1e-9)
    monkeypatch.setattr(compute, "_FEW", 1)
    device = cp.current_device()
    runs = []

    class Slow(Packs):
        name = "slow"

        def gemm(self, workload, inputs):
            expected = workload.reference(inputs)
            return lambda: expected

    def measured(name, work, call, finish, *, seconds):
        def run():
            runs.append(name)
            return Sample(1.0 if name == "slow" else 0.01)

        return timing.Contender(name, work, run)

    monkeypatch.setattr(compute, "stream", measured)
    peak = peak_gauge(Candidate("peak", lambda: EVENT, 1))
    found = measure_job(Gemm(5, 6, 7), device, peak, [Slow(device)], repeats=5)
    # One look, one run that does not count, one that does.
    assert runs.count("slow") == 3
    assert found.ratios["slow"].median == pytest.approx(100)


def invoke(folder, *arguments):
    options = ["--quick", "--repeats", "1", "--output", str(folder)]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_gemm_command(tmp_path):
    result = invoke(tmp_path, "gemm", "--peers", "mkl,clblast")
    assert result.exit_code == 0, result.output
    name = f"gemm-peers-mkl-clblast-{slug(cp.current_device())}-quick"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.md", f"{name}.png"}
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    for part in ("31×33×17 NN", "31×31×31 TT", "geometric mean", "`python -m bench gemm --peers"):
        assert part in page
    assert "tinygrad" not in page


def test_conv_command(tmp_path):
    options = ("--network", "alexnet", "--memory-format", "channels_last", "--peers", "oneDNN")
    result = invoke(tmp_path, "conv", *options, "--direction", "gradients", "--no-chart")
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    name = f"conv-alexnet-channels-last-gradients-peers-oneDNN-{slug(cp.current_device())}-quick"
    assert page.name == f"{name}.md"
    text = page.read_text(encoding="utf-8")
    assert "AlexNet, batch 1, NHWC, gradient by input" in text
    assert "AlexNet, batch 1, NHWC, gradient by weight" in text
    assert "NCHW, " not in text
    assert "groups 2" in text


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("--network", "lenet", "resnet50"),
        ("--memory-format", "nhwc", "channels_last"),
        ("--direction", "back", "gradients"),
    ],
)
def test_unknown_values(option, value, known, tmp_path):
    result = invoke(tmp_path, "conv", option, value)
    assert result.exit_code == 2
    assert f"{option} {value}: expected one of" in result.output
    assert known in result.output
    assert not list(tmp_path.iterdir())


def test_conv_command_with_what_follows(tmp_path):
    options = ("--network", "mobilenet-v2", "--memory-format", "channels_last", "--peers", "oneDNN")
    result = invoke(tmp_path, "conv", *options, "--residual", "--no-chart")
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    assert "-channels-last-residual-peers-oneDNN-" in page.name
    text = page.read_text(encoding="utf-8")
    assert "batch 1, NHWC, with what follows" in text
    assert "1×1 of 5², sum |" in text
    assert "--memory-format channels_last --residual --peers oneDNN" in text


@pytest.mark.parametrize(
    ("option", "known"),
    [(("--network", "vgg16"), "resnet50, mobilenet-v2"), (("--direction", "input"), "forward")],
)
def test_what_follows_is_known_of_some_networks(option, known, tmp_path):
    result = invoke(tmp_path, "conv", "--residual", *option)
    assert result.exit_code == 2
    assert f"--residual {' '.join(option)}: expected one of {known}" in result.output
