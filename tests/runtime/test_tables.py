"""Tables of tiles on disk: kept, found again, left out with a word where they are broken."""

import dataclasses
import warnings

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.ops.conv import forward as conv
from clprim.ops.product import matmul as gemm
from clprim.plan.conv.problem import ConvolutionClass
from clprim.plan.families import FAMILIES
from clprim.plan.kernel import Choice
from clprim.plan.product.family import ContractionClass
from clprim.plan.table import Entry, Table, TuningFile
from clprim.runtime import tables as tuning

PRODUCT = ContractionClass("float32", "float32", "outputs", "depth", False, 1, 1, 64, 33, 16, 32)
OTHER = dataclasses.replace(PRODUCT, depth=64)
ENTRIES = {("product", PRODUCT): Entry(Choice("panels", (2, 1)), 1.5)}
TILES = {("product", OTHER): Entry(Choice("tiles", (4, 4, 4, 4, 4, 4)), 1.25)}


@pytest.fixture(autouse=True)
def folder(device, tmp_path, monkeypatch):
    """An empty cache folder, and calls that are planned anew."""
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    tuning.forget()
    Calls.forget()
    yield tmp_path / "tuning"
    tuning.forget()
    Calls.forget()


def test_what_was_kept_is_found(device, folder):
    before = tuning.table_of(device)
    path = tuning.save(device, ENTRIES)
    assert [path] == list(folder.iterdir())
    found = tuning.table_of(device)
    assert found.choices == {**before.choices, ("product", PRODUCT): Choice("panels", (2, 1))}
    # Another run adds to it, and replaces what it measured again.
    again = {("product", PRODUCT): Entry(Choice("panels", (4, 1)), 1.1)}
    assert tuning.save(device, TILES) == tuning.save(device, again) == path
    assert TuningFile.parse(path.read_text(), FAMILIES).entries == {**again, **TILES}
    assert tuning.table_of(device).choices[("product", PRODUCT)] == Choice("panels", (4, 1))


def test_what_was_kept_is_run(device):
    a = cp.asarray(np.ones((33, 20), np.float32))
    b = cp.asarray(np.ones((20, 16), np.float32))
    # Any tile gives the sums; which one it was is seen in the plan of the call.
    tuning.save(device, ENTRIES)
    y = ops.matmul(a, b, algorithm="panels")
    np.testing.assert_array_equal(y.get(), np.full((33, 16), 20))
    (call,) = gemm._product.calls._known.values()
    code = call.stages[0].launch._plan.code
    assert (code.rows, code.vectors) == (2, 1)


def test_a_depthwise_tile_is_run(device):
    x = np.arange(2 * 20 * 5 * 5, dtype=np.float32).reshape(2, 20, 5, 5) % 7
    w = np.ones((20, 1, 1, 1), np.float32)
    recorder = {}

    class Asked(Table):
        def choice(self, family, problem):
            recorder[family.name] = problem

    operands = [cp.asarray(a, memory_format="channels_last") for a in (x, w)]
    with tuning.using(Asked()):
        ops.conv2d(*operands, groups=20)
    problem = ConvolutionClass.of(recorder["conv"])
    wanted = Choice("depthwise/lanes", (2, 1))
    tuning.save(device, {("conv", problem): Entry(wanted, 1.5)})
    Calls.forget()
    np.testing.assert_array_equal(ops.conv2d(*operands, groups=20).get(), x)
    known = conv._primitive("conv2d").calls._known.values()
    calls = [call for call in known if len(call.stages) == 1]
    (code,) = {call.stages[0].launch._plan.code for call in calls}
    assert (code.along, code.outputs_a_item) == ("channel", 2)


def test_other_traits_another_table(device, monkeypatch):
    tuning.save(device, ENTRIES)
    shrunk = dataclasses.replace(device.traits, local_memory=device.traits.local_memory // 2)
    monkeypatch.setitem(device.__dict__, "traits", shrunk)
    assert ("product", PRODUCT) not in tuning.table_of(device).choices
    # What is measured on the device as it is now starts a new table.
    path = tuning.save(device, TILES)
    assert TuningFile.parse(path.read_text(), FAMILIES).entries == TILES


@pytest.mark.parametrize("broken", ["", "{", '{"format": 0}', "[]", "\udcff"])
def test_a_broken_file_is_named_and_left_out(device, broken, folder):
    path = tuning.user_file(device)
    folder.mkdir()
    path.write_text(broken, errors="surrogateescape")
    a = cp.asarray(np.ones((3, 4), np.float32))
    with pytest.warns(UserWarning, match="cannot be read") as found:
        y = ops.matmul(a, a, transpose_b=True)
    assert str(path) in str(found[0].message)
    np.testing.assert_array_equal(y.get(), np.full((3, 3), 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        ops.matmul(a, a, transpose_b=True, out=cp.zeros((3, 3)))
    tuning.save(device, ENTRIES)
    assert TuningFile.parse(path.read_text(), FAMILIES).entries == ENTRIES


def test_a_folder_in_the_place_of_the_file(device):
    tuning.user_file(device).mkdir(parents=True)
    with pytest.warns(UserWarning, match="cannot be read"):
        tuning.table_of(device)


def test_without_a_cache_there_is_no_file(device, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", "off")
    assert tuning.user_file(device) is None
    assert tuning.save(device, ENTRIES) is None
    assert ("product", PRODUCT) not in tuning.table_of(device).choices


def test_repeated_calls_read_no_file(device, monkeypatch):
    a = cp.asarray(np.ones((3, 4), np.float32))
    ops.matmul(a, a, transpose_b=True)
    monkeypatch.setattr(tuning, "table_of", None)
    monkeypatch.setattr("clprim.call.primitive.table_of", None)
    ops.matmul(a, a, transpose_b=True)


def test_a_table_stands_for_all_files(device):
    table = Table({("product", PRODUCT): Choice("panels", (1, 1))})
    tuning.save(device, ENTRIES)
    with tuning.using(table):
        assert tuning.table_of(device) is table
    assert tuning.table_of(device).choices[("product", PRODUCT)] == Choice("panels", (2, 1))


def test_shipped_tables_are_for_their_devices(device):
    for file in tuning.shipped():
        assert file.entries
        assert min(entry.gain for entry in file.entries.values()) > 1
        for name in file.names or ("any",):
            traits = dataclasses.replace(device.traits, **file.traits)
            assert file.is_for(f"The {name} GPU", "Its platform", "1.0", traits) or file.platform
