"""``clprim tune``: scripts, networks, problems, tables that are shared; times are a short run's."""

import json

import pytest

import clprim as cp
from clprim.call.signature import Calls
from clprim.command import cli
from clprim.command import tune as command
from clprim.runtime import tables
from clprim.tune import measure


@pytest.fixture(autouse=True)
def folder(device, tmp_path, monkeypatch):
    """An empty cache folder, and little to time."""
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path / "cache"))
    brief = measure.Effort(2, 1, 1, 0.0)
    monkeypatch.setattr(command, "tune", lambda case: measure.tune(case, brief))
    tables.forget()
    yield tmp_path
    tables.forget()
    Calls.forget()


@pytest.fixture
def clprim(capsys):
    """Runs the command line; returns status, output and error output."""

    def run(*words):
        try:
            status = cli.main(["tune", *map(str, words)])
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


def test_a_problem_is_timed_once(device, clprim):
    words = "--problem", "matmul 48,40 40,32"
    status, out, err = clprim(*words)
    assert status == 0
    assert "matmul 48,40 40,32" in out
    assert "1 timed" in out
    assert "timing tiles" in err
    (entry,) = json.loads(tables.user_file(device).read_text())["tiles"]
    assert (entry["family"], entry["problem"]["outputs"]) == ("product", 32)
    status, out, _ = clprim(*words)
    assert (status, out) == (0, "1 were timed before (--again times them too)\n")
    assert "1 timed" in clprim("--again", *words)[1]


def test_a_script_runs_with_its_arguments(device, clprim, folder):
    script = folder / "script.py"
    (folder / "beside.py").write_text("SIZE = 48\n")
    script.write_text(
        "import sys, clprim as cp\n"
        "from clprim import ops\n"
        "from beside import SIZE\n"
        "ops.matmul(cp.zeros((SIZE, 40)), cp.zeros((40, int(sys.argv[2]))))\n"
        "print(__name__, sys.argv[1:])\n"
        "sys.exit(3)\n"
    )
    status, out, _ = clprim("--device", device.index, script, "--size", "32")
    assert status == 0
    assert "__main__ ['--size', '32']" in out
    assert "a product 48×40×32 of float32" in out


def test_layers_of_a_network(clprim, monkeypatch):
    network = command.NETWORKS["alexnet"]
    layers = (network.layers[2].__class__(16, 24, 3, 6, padding=1),)
    few = type(network)("AlexNet", layers)
    monkeypatch.setattr(command, "NETWORKS", {"alexnet": few})
    status, out, _ = clprim("--network", "alexnet", "--batch", "1")
    assert status == 0
    assert "16→24 3×3 of 6², contiguous" in out
    assert "16→24 3×3 of 6², channels_last" in out


def test_tables_are_shared(device, clprim, folder):
    file = folder / "table.json"
    status, out, err = clprim("--export", file)
    assert (status, out) == (2, "")
    assert "has no table of tiles yet" in err
    clprim("--problem", "matmul 48,40 40,32")
    status, out, _ = clprim("--export", file)
    assert status == 0
    assert f"written: {file}, 1 tiles of {device.name}" in out
    tables.user_file(device).unlink()
    tables.forget()
    status, out, _ = clprim("--import", file)
    assert status == 0
    assert "1 of 1 tiles are new" in out
    assert tables.table_file(device).entries
    found = json.loads(file.read_text())
    found["device"]["traits"]["vector_bytes"] *= 2
    file.write_text(json.dumps(found))
    assert "is not of its class" in clprim("--import", file)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--problem", "conv2d"), "expected the shapes of the arrays of conv2d"),
        (("--problem", "nothing 3"), "clprim.ops has no operator 'nothing'"),
        (("--problem", ""), "clprim.ops has no operator ''"),
        (("--problem", "__all__ 3"), "clprim.ops has no operator '__all__'"),
        (("--problem", "matmul 3,a"), "'3,a': expected a shape as in 8,64,56,56"),
        (("--problem", "matmul 3,0 0,3"), "'3,0': sizes of at least 1"),
        (("--problem", "matmul 3,4 4,3 bias=x"), "bias=x: expected a number"),
        (("--problem", "matmul 3,4 4,3 dtype=foo"), "foo"),
        (("--problem", "matmul 3,4 4,3 strides=1"), "strides"),
        (("--problem", "matmul 3,4 5,3"), "matmul"),
        (("--problem", "conv2d 1,4,5,5"), "missing"),
        (("--network", "nothing"), "--network nothing: expected one of resnet50, "),
        (("nowhere.py",), "nowhere.py: no such script"),
        (("--import", "nowhere.json"), "--import nowhere.json: No such file"),
        (("--export", "nowhere/table.json"), "no table of tiles yet"),
        (("--network", "resnet50", "--batch", "0"), "expected a positive whole number"),
        ((), "is required"),
    ],
)
def test_wrong_words_are_told(clprim, words, message):
    status, out, err = clprim(*words)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9}', '{"format": 2}'])
def test_no_table_is_told(clprim, folder, text):
    file = folder / "table.json"
    file.write_text(text)
    status, _, err = clprim("--import", file)
    assert status == 2
    assert f"--import {file}" in err
    assert "expected a table of --export" in err


def test_reductions_are_tuned(clprim):
    status, out, err = clprim("--problem", "sum 64,500 axis=1")
    assert status == 0, err
    assert "reduction/" in out
    assert "\n1 timed, " in out
    assert "1 were timed before" in clprim("--problem", "sum 64,500 axis=1")[1]


def test_nothing_to_tune_is_no_failure(clprim):
    assert clprim("--problem", "relu 4,4")[:2] == (
        0,
        "nothing to tune: nothing was planned that has several tiles\n",
    )


def test_a_wrong_tile_is_told(clprim, monkeypatch):
    brief = measure.Effort(2, 1, 1, 0.0)

    def wrong(case):
        found = measure.tune(case, brief)
        return measure.Tuned(**{**vars(found), "wrong": ("tiles 1×1",)})

    monkeypatch.setattr(command, "tune", wrong)
    status, _, err = clprim("--problem", "matmul 48,40 40,32")
    assert status == 1
    assert "wrong result of tiles 1×1" in err


def test_errors_of_a_script_are_its_own(clprim, folder):
    script = folder / "script.py"
    script.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        clprim(script)
    assert not tables.is_overridden()
    assert cp.options.current().tune is False
