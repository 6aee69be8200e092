"""What the system says of the processor: caches of a core, threads that are not cores."""

import pytest

from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.runtime import host, query
from clprim.traits import DeviceTraits


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two cores of two threads, of which the first three may be used."""
    for cpu in range(4):
        folder = tmp_path / f"cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        pair = "0,2" if cpu % 2 == 0 else "1,3"
        (folder / "topology" / "thread_siblings_list").write_text(f"{pair}\n")
        for n, (level, kind, size) in enumerate(
            [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2M")]
        ):
            cache = folder / "cache" / f"index{n}"
            cache.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size)):
                (cache / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "CPUS", tmp_path)
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    return tmp_path


def test_caches_of_a_core(machine):
    assert (host.cache(1), host.cache(2), host.cache(3)) == (48 << 10, 2 << 20, None)
    (machine / "cpu0" / "cache" / "index2" / "size").write_text("all of it")
    assert host.cache(2) is None


def test_threads_are_no_cores(machine):
    assert host.cores() == 2
    (machine / "cpu1" / "topology" / "thread_siblings_list").unlink()
    assert host.cores() is None


def test_a_system_that_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "CPUS", tmp_path / "nowhere")
    assert (host.cache(1), host.cores()) == (None, None)
    monkeypatch.delattr(host.os, "sched_getaffinity", raising=False)
    assert host.cores() is None


@pytest.mark.parametrize(
    ("machine_name", "width", "registers"),
    [("aarch64", 16, 32), ("arm64", 16, 32), ("x86_64", 32, 16), ("x86_64", 64, 32)],
)
def test_registers_are_counted_not_measured(monkeypatch, machine_name, width, registers):
    monkeypatch.setattr(query.platform, "machine", lambda: machine_name)
    assert query.registers(width) == registers


def test_a_sum_of_the_units_caches_betrays_one():
    class Told:
        max_compute_units = 132

        def __init__(self, reported):
            self.global_mem_cache_size = reported

    assert query._unit_cache(Told(4325376)) == 32 << 10
    assert query._unit_cache(Told(4 << 20)) is None
    assert query._unit_cache(Told(132 << 20)) is None


def test_32_narrow_registers_hold_as_many_sums_as_wide_ones():
    traits = DeviceTraits(is_cpu=True, vector_bytes=16, max_work_group_size=4096)
    few, many = (
        PRODUCTS.plan(dense_product(512, 512, 512), t).choice.numbers
        for t in (traits, DeviceTraits(**{**vars(traits), "registers": 32}))
    )
    assert few[0] * few[1] <= 12 < many[0] * many[1] <= 28
