"""Tables of tiles on disk: kept, found again, left out with a word where they are broken."""

import dataclasses
import warnings

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call.signature import Calls
from clprim.ops.conv import problem as conv
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
    code = call.stages[0].launch.plan.code
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
    wanted = Choice("depthwise/windows", (2, 1, 1))
    tuning.save(device, {("conv", problem): Entry(wanted, 1.5)})
    Calls.forget()
    np.testing.assert_array_equal(ops.conv2d(*operands, groups=20).get(), x)
    known = conv.forward("conv2d").calls._known.values()
    calls = [call for call in known if len(call.stages) == 1]
    (code,) = {call.stages[0].launch.plan.code for call in calls}
    assert (code.along, code.rows) == ("channel", 2)


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


def test_without_a_cache_it_holds_for_the_process(device, monkeypatch):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", "off")
    assert tuning.user_file(device) is None
    assert tuning.save(device, ENTRIES) is None
    assert tuning.table_of(device).choices[("product", PRODUCT)] == Choice("panels", (2, 1))
    tuning.forget()
    assert ("product", PRODUCT) not in tuning.table_of(device).choices


def test_where_the_rule_won_it_goes_on_to_decide(device):
    tuning.save(device, ENTRIES, "1.0")
    same = {("product", PRODUCT): Entry(Choice("panels", (3, 1)), 1.0)}
    path = tuning.save(device, same, "1.0")
    found = tuning.table_of(device)
    assert ("product", PRODUCT) not in found.choices
    assert found.timed == {("product", PRODUCT): "1.0"}
    # Another version's rule may be another one: what won over nothing is forgotten with it.
    tuning.save(device, TILES, "2.0")
    assert TuningFile.parse(path.read_text(), FAMILIES).entries == TILES
    assert tuning.table_of(device).timed == dict.fromkeys(TILES, "2.0")


def _elsewhere(device, **changes):
    """The table of another device, whose entries are those of this one's traits but for some."""
    traits = {name: getattr(device.traits, name) for name in tuning.IDENTITY} | changes
    return TuningFile(("Other",), device.platform, "7.0", traits, ENTRIES, "1.0")


def test_a_table_of_its_class_counts_beneath_its_own(device, folder):
    units = device.traits.compute_units + 6
    path, count = tuning.adopt(_elsewhere(device, compute_units=units), device)
    assert path.parent == folder
    assert (count, path != tuning.user_file(device)) == (1, True)
    found = tuning.table_of(device)
    assert found.choices[("product", PRODUCT)] == Choice("panels", (2, 1))
    assert ("product", PRODUCT) not in found.timed  # on this device nobody has
    tuning.save(device, {("product", PRODUCT): Entry(Choice("panels", (4, 1)), 1.1)})
    assert tuning.table_of(device).choices[("product", PRODUCT)] == Choice("panels", (4, 1))


def test_a_table_of_another_class_does_not_count(device):
    tuning.adopt(_elsewhere(device, vector_bytes=device.traits.vector_bytes * 2), device)
    assert ("product", PRODUCT) not in tuning.table_of(device).choices


def test_an_imported_table_leaves_what_was_timed_here(device):
    tuning.save(device, {("product", PRODUCT): Entry(Choice("panels", (4, 1)), 1.1)})
    path = tuning.user_file(device)
    given = dataclasses.replace(
        tuning.table_file(device), names=(), driver="", entries={**ENTRIES, **TILES}
    )
    assert tuning.adopt(given, device) == (path, 1)
    assert tuning.table_of(device).choices[("product", PRODUCT)] == Choice("panels", (4, 1))
    assert tuning.table_of(device).choices[("product", OTHER)] == TILES[("product", OTHER)].choice
    assert tuning.table_file(device).names == (device.name,)


def test_there_may_be_no_table_to_share(device, monkeypatch):
    with pytest.raises(cp.DefinitionError, match="no table of tiles yet"):
        tuning.table_file(device)
    monkeypatch.setenv("CLPRIM_CACHE_DIR", "off")
    with pytest.raises(cp.DefinitionError, match="CLPRIM_CACHE_DIR switches"):
        tuning.adopt(_elsewhere(device), device)


def test_what_cannot_be_written_holds_for_the_process(device, monkeypatch):
    def refused(*_, **__):
        raise OSError("no room")

    monkeypatch.setattr(tuning.tempfile, "mkstemp", refused)
    with pytest.raises(OSError, match="no room"):
        tuning.save(device, ENTRIES)
    assert ("product", PRODUCT) in tuning.table_of(device).choices


def test_repeated_calls_read_no_file(device, monkeypatch):
    a = cp.asarray(np.ones((3, 4), np.float32))
    ops.matmul(a, a, transpose_b=True)
    monkeypatch.setattr(tuning, "table_of", None)
    monkeypatch.setattr("clprim.tune.ask.table_for", None)
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
