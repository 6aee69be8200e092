"""The doctor: what it finds on every device here, what it says of what is wrong, its report."""

import json

import numpy as np
import pytest

import clprim as cp
from clprim.command import cli, doctor, doctor_checks, doctor_speed, tune
from clprim.command.doctor_checks import Check, checks, examine, examined
from clprim.errors import ShapeError
from clprim.runtime import child
from clprim.runtime.ceilings import Measurement

CEILINGS = Measurement(20e9, 25e9, 1e12)


@pytest.mark.alone  # operators' own tests are run on the others
@pytest.mark.usefixtures("unoptimised")
def test_the_quick_form_finds_everything_right(device, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(doctor, "_CHECKS", 900.0)  # of a machine that others keep busy, too
    monkeypatch.setattr(doctor, "measure", lambda _: CEILINGS)
    few = [work for work in doctor_speed.workloads(quick=True) if "conv" not in work.name][:2]
    monkeypatch.setattr(doctor, "workloads", lambda **_: few)
    assert cli.main(["doctor", "--quick", "--output", str(tmp_path)]) == 0
    (text,) = tmp_path.glob("doctor-*.md")
    (data,) = tmp_path.glob("doctor-*.json")
    report, found = text.read_text(encoding="utf-8"), json.loads(data.read_text(encoding="utf-8"))
    assert report in capsys.readouterr().out
    assert device.name in report
    assert found["about"]["device"] == device.name
    assert found["traits"]["compute_units"] == device.traits.compute_units
    families = {check["family"] for check in found["checks"]}
    assert {"pointwise", "reduction", "product", "convolution", "depthwise"} <= families
    assert all(check["right"] for check in found["checks"])
    assert found["ceilings"]["fp32_peak"] == CEILINGS.fp32_peak
    assert all(t["seconds"] > 0 and t["share"] > 0 for t in found["timings"])
    assert found["tuning"]["gain"] >= 1


def test_what_is_wrong_is_told(device, monkeypatch, tmp_path, capsys):
    x = np.arange(6, dtype=np.float32)
    given = [
        Check("map", "right", lambda: (cp.asarray(x), x)),
        Check("map", "off by one", lambda: (cp.asarray(x) + 1, x)),
        Check("map", "not a number", lambda: (cp.asarray(x) * np.float32(np.nan), x), 0.5),
        Check("shape", "cut", lambda: (cp.asarray(x), x[1:])),
        Check("shape", "refused", _refused),
    ]
    monkeypatch.setattr(doctor, "checks", lambda **_: given)
    monkeypatch.setattr(child, "is_possible", lambda: False)
    monkeypatch.setattr(doctor, "measure", lambda _: CEILINGS)
    monkeypatch.setattr(doctor, "workloads", lambda **_: [_product()])
    monkeypatch.setattr(doctor, "tune", lambda *_, **__: None)
    assert cli.main(["doctor", "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "**map, off by one**: 6 of 6 elements differ, by 1" in said
    assert "**map, not a number**: 6 of 6 elements differ" in said
    assert "**shape, cut**: shape (6,), expected (5,)" in said
    assert "**shape, refused**: no such shape" in said
    assert "map, right" not in said


@pytest.mark.parametrize("does", ["os.abort()", "time.sleep(99)"])
def test_what_ends_the_process_or_hangs_is_named_and_the_rest_is_run(device, monkeypatch, does):
    # The child does it in the second of three checks.
    stand_in = (
        "from clprim.command import doctor_checks as d; import os, time; "
        "d.checks = lambda **_: [d.Check('map', str(n), (lambda n=n: "
        f"{does} if n == 1 else (d.cp.zeros(3), d.np.zeros(3)))) for n in range(3)]; "
    )
    text = doctor_checks._CHILD.replace("main({task!r})", stand_in + "main({task!r})")
    monkeypatch.setattr(doctor_checks, "_CHILD", text)
    wanted = [Check("map", str(n), lambda: None) for n in range(3)]
    seconds = 300 if "abort" in does else 10
    monkeypatch.setattr(doctor_checks, "_GRACE", 0)
    found = list(examined(device, wanted, quick=False, seconds=seconds))
    assert [f.right for f in found][:2] == [True, False]
    if "abort" in does:
        assert found[1].message == "the process ended"
        assert found[2].right
    else:
        assert found[1].message == "no answer in time"
        assert len(found) == 2


def test_every_stored_dtype_is_examined():
    wanted = list(checks())
    for dtype in doctor_checks.STORED:
        names = {c.name for c in wanted if c.family == f"stored as {dtype}"}
        assert {"map", "max over 0", "cumsum", "sort"} <= names or dtype == "float64"


def _refused():
    raise ShapeError("no such shape")


def _product():
    return doctor_speed.Workload(
        "product", tune.call_of("matmul 32,32 32,32"), 2 * 32**3, 12 * 32**2, tiled=True
    )


def test_its_convolution_is_right():
    # What it compares with has to be right itself: torch's gradients of the same numbers.
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((2, 3, 7, 6), (4, 3, 3, 3)))
    y, in_x, in_w = doctor_checks._convolve(x, w, 2)
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    expected = torch.nn.functional.conv2d(a, b, padding=1, stride=2)
    grad = rng.integers(-4, 5, expected.shape).astype(np.float32)
    expected.backward(torch.tensor(grad))
    np.testing.assert_array_equal(y, expected.detach().numpy())
    np.testing.assert_array_equal(in_x(grad), a.grad.numpy())
    np.testing.assert_array_equal(in_w(grad), b.grad.numpy())


def test_a_faster_tile_is_kept_if_asked(device, monkeypatch, tmp_path):
    kept = []
    monkeypatch.setattr(doctor, "checks", lambda **_: [])
    monkeypatch.setattr(doctor, "measure", lambda _: CEILINGS)
    monkeypatch.setattr(doctor, "workloads", lambda **_: [_product()])
    tuning = doctor_speed.Tuning("product", "a", "b", 1.5, 2, {"key": "entry"})
    monkeypatch.setattr(doctor, "tune", lambda *_, **__: tuning)
    monkeypatch.setattr(doctor, "keep_entries", lambda _, entries: kept.append(entries))
    doctor.run(tmp_path, quick=True)
    assert kept == []
    doctor.run(tmp_path, quick=True, keep=True)
    assert kept == [{"key": "entry"}]


def test_every_check_has_a_name_of_its_own(device):
    names = [(check.family, check.name) for check in checks()]
    assert len(set(names)) == len(names) > 60
    assert examine(next(checks())).right
