import dataclasses

import pytest

from clprim.runtime.stats import Counters, Stats, counters, stats


def test_a_snapshot_stays_when_the_counters_move_on():
    before = stats()
    counters.launches += 3
    counters.disk_hits += 1
    assert stats() - before == Stats(launches=3, disk_hits=1)
    assert before == before - Stats()


def test_every_counter_is_in_the_snapshot():
    assert {field.name for field in dataclasses.fields(Stats)} == set(Counters.__slots__)


def test_a_snapshot_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats().builds = 0


def test_a_misspelt_counter_is_an_error():
    with pytest.raises(AttributeError):
        counters.launchs = 1


def test_only_snapshots_subtract():
    with pytest.raises(TypeError):
        stats() - 1


def test_printed_with_singulars_and_plurals():
    shown = str(Stats(builds=1, disk_hits=2, memory_hits=1, plans=0, launches=12345))
    assert shown == "1 build, 2 disk hits, 1 memory hit, 0 plans, 12,345 launches"
    assert str(Stats(launches=1, plans=1)).endswith("1 plan, 1 launch")
