"""``python -m bench torch --compiled``: this project as a backend beside PyTorch's compiler."""

import pytest

pytest.importorskip("torch")

from typer.testing import CliRunner

from bench.__main__ import app
from bench.clock.timing import Spread
from bench.commands import compiled as command
from bench.page.compiled import compiled_report
from bench.peers import nets as peers
from bench.work import first_compiled, nets
from bench.work import step as training
from bench.work.nets import NetJob, NetRow
from bench.work.step import CALLS, TORCH, Footprint, StepJob, StepRow

# Of PyTorch's own parts, which its compiler imports.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def invoke(folder, *options):
    arguments = ["torch", "--quick", "--repeats", "1", "--no-chart", "--output", str(folder)]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_a_small_network(tmp_path, monkeypatch):
    memory = Footprint(StepJob("small", 2, 8), 1, {CALLS: 1, TORCH: 9}, {CALLS: 4, TORCH: 2})
    monkeypatch.setattr(command, "run_memory", lambda *_, **__: memory)
    firsts = {"clprim": 1.0, "inductor": 2.0}
    monkeypatch.setattr(command, "run_firsts", lambda *_, **__: firsts)
    # PyTorch's own compiler runs in the tests of `bench nets`: here it takes longer than all else.
    monkeypatch.setattr(peers.Inductor, "inference", peers.Eager.inference)
    compiled, asked = training.TrainingStep.compiled, []

    def quick(self, backend):
        asked.append(backend)
        return compiled(self, "eager" if backend == training.INDUCTOR else backend)

    monkeypatch.setattr(training.TrainingStep, "compiled", quick)
    result = invoke(tmp_path, "--compiled")
    assert result.exit_code == 0, result.output
    assert "inductor" in asked
    for part in ("clprim, compiled", "times as fast as inductor", "first result", "a step"):
        assert part in result.output


def test_an_interrupted_run_writes_what_it_has(tmp_path, monkeypatch):
    def measure(job, *_, **__):
        if job.batch == 2:
            raise KeyboardInterrupt
        return net(job.name, job.batch, 2.0)

    monkeypatch.setattr(nets, "_measure", measure)
    monkeypatch.setattr(command, "run_steps", None)
    result = invoke(tmp_path, "--compiled", "--net", "small", "--batch", "1,2")
    assert result.exit_code == 1
    (page,) = tmp_path.iterdir()
    assert page.name.startswith("torch-compiled-small-batch-1-2-")
    text = page.read_text(encoding="utf-8")
    assert "interrupted: the rows that follow" in text and "batch 1" in text


def test_what_fails_leaves_other_rows_of_training_steps(device, monkeypatch):
    def step_of(job, where):
        if job.batch == 1:
            raise ValueError("no statistics of one value")
        return training_step(job, where)

    def compiled(self, backend):
        self.forward = self._forward if backend == "clprim" else lambda: 1 / 0
        return self

    training_step = training.TrainingStep
    monkeypatch.setattr(training, "TrainingStep", step_of)
    monkeypatch.setattr(training_step, "compiled", compiled)
    jobs = training.step_jobs(names=["small"], batches=(1, 2))
    told = {"repeats": 1, "progress": lambda *_: None, "inductor": True}
    rows, failures = training.run_steps(jobs, device, **told)
    assert ["no statistics" in failure for failure in failures] == [True]
    (row,) = rows
    assert row.beside is None and "ZeroDivisionError" in row.absent and row.correct
    report = compiled_report([], [], rows, None, None, refused=failures)
    assert any("inductor did not run: ZeroDivisionError" in note for note in report.notes)


def test_what_it_refuses(tmp_path):
    assert "expected numbers" in invoke(tmp_path, "--compiled", "--batch", "1,0").output
    assert "--compiled has to be given" in invoke(tmp_path).output
    assert invoke(tmp_path).exit_code == 2


def test_first_results(device, monkeypatch):
    built = iter((3, 0, 0, 0, 3, 1))
    asked = []

    def probe(*what, **_):
        asked.append(what)
        return {"call": 1.5 if what[-1] == "clprim" else 2.5, "builds": next(built)}

    monkeypatch.setattr(first_compiled, "probe", probe)
    quiet = {"quick": True, "progress": lambda *_: None}
    found = first_compiled.run_firsts(device, **quiet)
    assert found == {"clprim": 1.5, "inductor": 2.5}
    assert asked[0] == asked[1] == ("compiled", "small", "2", "clprim")
    with pytest.raises(RuntimeError, match="1 programs were not on disk"):
        first_compiled.run_firsts(device, **quiet)


def net(name, batch, times):
    spread = {"inductor": Spread(times, times, times)}
    return NetRow(NetJob(name, batch), {"clprim": 1.0, "inductor": times}, spread, 1e-6)


def step(name, times, **more):
    rates = {"clprim": 1.0, "clprim, compiled": 2.0, "PyTorch": 1.0, "inductor": 1.0}
    given = {"correct": True, "on_cpu": (), "beside": Spread(times, times, times), **more}
    return StepRow(StepJob(name, 8, 224), rates, {}, **given)


def test_targets():
    rows = [net("resnet50", 8, 2.0), net("vgg16", 8, 0.9), net("vit_b_16", 8, 1.1)]
    steps = [step("resnet18", 2.0), step("vgg16", 1.2, correct=False)]
    memory = Footprint(StepJob("resnet50", 8, 224), 100, {CALLS: 40, TORCH: 0},
                       {CALLS: 4, TORCH: 2})  # fmt: skip
    firsts = {"clprim": 1.0, "inductor": 2.0}
    report = compiled_report(rows, [], steps, memory, firsts)
    assert [(v.target.limit, v.outcome) for v in report.verdicts] == [
        ("≥ 1.6×", "MISSED"),  # the mean of 2 and 0.9 is 1.34
        ("≥ 1×", "hit"),
        ("≥ 1×", "MISSED"),
        ("≥ 1×", "hit"),
        ("≥ 1.8×", "MISSED"),
        ("≥ 1.3×", "hit"),
        ("≥ 1.3×", "MISSED"),
        ("≤ 0.8×", "MISSED"),
        ("≤ 1×", "hit"),
    ]
    group = "Training step, batch 8, channels_last"
    assert report.failures == (f"{group}: VGG-16, 224²: losses differ",)
