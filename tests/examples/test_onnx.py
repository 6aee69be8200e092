"""The examples that run networks of packages: files, notes and text are recognised."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

FOLDER = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.optimised, pytest.mark.alone]  # CI runs the scripts on others


def example(name):
    """An example as a module, if the package that it needs is installed."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if importlib.util.find_spec(module.PACKAGE) is None:
        pytest.skip(f"{module.PACKAGE} is not installed")
    return module


def test_kinds_of_files(device, tmp_path, capsys):
    module = example("file_types")
    (tmp_path / "a").write_text('#include <stdio.h>\nint main(void) { puts(""); return 0; }\n' * 9)
    picture = FOLDER.parent / "docs" / "digits.png"
    found = module.kinds([tmp_path / "a", picture, FOLDER / "file_types.py"])
    assert [kind for kind, _ in found] == ["c", "png", "python"]
    module.main([str(FOLDER / "tour.ipynb")])
    assert "ipynb" in capsys.readouterr().out


def test_features_are_those_of_the_package():
    module = example("file_types")
    config = {"block_size": 16, "beg_size": 4, "end_size": 6, "padding_token": 256}
    found = module.features(b"  ab\n", config)
    assert found.tolist() == [[97, 98, 10, 256, 256, 256, 32, 32, 97, 98]]
    found = module.features(bytes(range(65, 91)), config)
    assert found.tolist() == [[65, 66, 67, 68, 85, 86, 87, 88, 89, 90]]


def test_notes_are_heard(device):
    module = example("notes")
    found = module.heard(module.sound())
    assert sorted(note for note, _, _ in found) == sorted(note for note, _, _ in module.TUNE)
    begins = {note: begin for note, begin, _ in module.TUNE}
    assert all(abs(begin - begins[note]) < 0.15 for note, begin, _ in found)
    assert not module.heard(np.zeros((1, module.SAMPLES, 1), np.float32))


def test_a_page_is_read(device, tmp_path, monkeypatch, capsys):
    pytest.importorskip("skimage")
    module = example("read_text")
    monkeypatch.chdir(tmp_path)
    module.main([])
    text = capsys.readouterr().out
    assert "first determine markers of the coins" in text
    assert "histogram of grey values" in text
    assert (tmp_path / "build" / "text.png").read_bytes().startswith(b"\x89PNG")
