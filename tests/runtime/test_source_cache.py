"""Printed kernels on disk: the same text, no template engine, nothing that is executed."""

import json
import os
import re
import subprocess
import sys

import pytest
from rendered import kernels
from support import answers_in

from clprim.render import render
from clprim.runtime import disk_cache, source_cache
from clprim.runtime.source_cache import source_of


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    source_of.cache_clear()
    yield tmp_path / "programs"
    source_of.cache_clear()


def test_the_text_is_that_of_the_template(own_cache, monkeypatch):
    printed = {name: render(template, code) for name, template, code in kernels()[:5]}
    for _ in "printed", "kept":
        for name, template, code in kernels()[:5]:
            assert source_of(template, code) == printed[name]
        source_of.cache_clear()
    assert len(list(own_cache.iterdir())) == 5
    monkeypatch.setattr(source_cache, "render", None)
    for name, template, code in kernels()[:5]:
        assert source_of(template, code) == printed[name]


def test_codes_are_told_apart_by_their_representation():
    codes = {(template, code): repr(code) for _, template, code in kernels()}
    assert len(set(codes.values())) == len(codes)
    for text in codes.values():
        assert not re.search(r" at 0x|frozenset\(", text)


def test_a_change_of_what_prints_is_another_entry(own_cache, monkeypatch):
    _, template, code = kernels()[0]
    source_of(template, code)
    source_of.cache_clear()
    monkeypatch.setattr(source_cache, "_printers", lambda: "of another version")
    source_of(template, code)
    assert len(list(own_cache.iterdir())) == 2


def test_everything_that_prints_is_in_the_digest():
    found = {path for path, _, _ in source_cache._printing()}
    assert not any("/runtime/" in path or "/ops/" in path for path in found)
    assert found < {path for path, _, _ in source_cache._ours()}
    ends = "render.py", "dtypes.py", "traits.py", "plan/kernel.py", "language/snippet.py"
    for end in (*ends, "templates/_store.cl.jinja", "pointwise/elements.cl.jinja"):
        assert any(path.endswith(f"/{end}") for path in found), end


def test_a_file_that_is_written_again_changes_the_digest(tmp_path):
    file = tmp_path / "deep" / "kernel.cl.jinja"
    file.parent.mkdir()
    file.write_text("one")
    (tmp_path / "notes.txt").write_text("is none of them")
    digest = lambda: source_cache._digest(source_cache._written([str(tmp_path)]))  # noqa: E731
    before = digest()
    assert digest() == before
    os.utime(file, ns=(1, 1))
    assert digest() != before


def test_without_a_cache_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", "off")
    _, template, code = kernels()[0]
    monkeypatch.setattr(disk_cache, "load", None)
    assert source_of(template, code) == render(template, code)


SECOND_PROCESS = """
import json, sys
import numpy as np, clprim as cp
cp.set_device(int(sys.argv[1]))
print(json.dumps([float((cp.asarray(np.ones(5, "f")) + 1).get().sum()), "jinja2" in sys.modules]))
"""


@pytest.mark.alone
def test_a_second_process_needs_no_template_engine(device, tmp_path):
    answers_in(tmp_path, device)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SECOND_PROCESS, str(device.index)]
    runs = [
        json.loads(subprocess.check_output(command, env=environment, timeout=60)) for _ in range(2)
    ]
    assert runs == [[10.0, True], [10.0, False]]
