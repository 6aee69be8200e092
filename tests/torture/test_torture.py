"""A short run of `python -m bench torture` from fixed seeds; and it would see a fault."""

import dataclasses
import multiprocessing
import re

import numpy as np
import pytest
from support import answers_in

import clprim as cp
from bench.__main__ import main
from bench.torture import cases, damage, run
from bench.torture.case import Case, WrongError
from bench.torture.cases import KINDS, draw_case
from bench.torture.draw import Draw
from bench.torture.run import run_case, torture
from bench.torture.threads import storm

SEED = 20260
pytestmark = pytest.mark.optimised
# What is asked of caches, threads and words does not depend on it.
as_written = pytest.mark.usefixtures("unoptimised")


def test_drawn_cases_are_right(device, some):
    for number in some(range(16), 3):
        run_case(device, SEED, number)


def test_elements_that_go_different_ways(device, some):
    for number in some(range(12), 3):
        draw_case(Draw(SEED, number), ("ways",)).check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_drawn_the_same_from_the_same_seed(device, kind):
    first, again, other = (draw_case(Draw(SEED, n), (kind,)) for n in (1, 1, 2))
    assert first.text == again.text != other.text
    for a, b in zip(first.expected, again.expected, strict=True):
        np.testing.assert_array_equal(a, b)


CLAIMS = [
    {"local_memory": 1 << 16},
    {"local_memory": 1 << 14},
    *({"sub_group_size": size} for size in (1, 8, 16, 32, 64)),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_claimed_traits_of_gpus(device, some, monkeypatch, claim):
    # What a device is planned for decides no result; local memory that it lacks is not claimed.
    own = device.traits
    planned = dataclasses.replace(
        own, is_cpu=False, vector_bytes=16, max_work_group_size=min(256, own.max_work_group_size)
    )
    claimed = dataclasses.replace(planned, **claim)
    claimed = dataclasses.replace(claimed, local_memory=min(claimed.local_memory, own.local_memory))
    monkeypatch.setitem(device.__dict__, "traits", claimed)
    # Operators remember calls by the device's number.
    monkeypatch.setattr(device, "index", f"{device.index} with {claim}")
    for kind in some(["reduction", "product", "convolution", "norm"], 3):
        draw_case(Draw(SEED, 5), (kind,)).check()


@as_written
def test_threads_profiles_and_switches(device):
    others = [d for d in cp.devices() if d.compiles and d != device][:1]
    cases = []
    for each in [device, *others]:
        cp.set_device(each)
        for number, kind in enumerate(("chain", "reduction", "pointwise", "product", "chain")):
            case = draw_case(Draw(SEED, number), (kind,))
            case.check()
            cases.append((each, case))
    ran, refused = storm(cases, 3.0, SEED)
    assert ran > 50
    assert refused == 0 or others


@as_written
def test_a_damaged_cache(device):
    with damage.own_cache() as folder:
        for number in range(3):
            assert damage.damage_and_run(folder, SEED, number)


@pytest.mark.parametrize("name", sorted(damage._DAMAGES))
def test_a_file_alone_in_its_folder_is_damaged(tmp_path, name):
    (tmp_path / "file").write_bytes(b"text")
    damage._DAMAGES[name](tmp_path / "file", Draw(SEED, 0))


@as_written
def test_each_damage(device, some, monkeypatch):
    damages = dict(damage._DAMAGES)
    for name in some(list(damages), 4):
        monkeypatch.setattr(damage, "_DAMAGES", {name: damages[name]})
        with damage.own_cache() as folder:
            assert name in damage.damage_and_run(folder, SEED, 0)


@as_written
def test_a_run_says_what_it_did(device):
    lines = []
    torture([device], 1.0, SEED, threads=2, say=lines.append)
    assert "runs from 2 threads" in lines[0]


def texts_of_a_run(monkeypatch, capsys, *options):
    """The command's status, what it printed, and the cases that it drew."""
    texts = []

    def drawn(*arguments):
        case = draw_case(*arguments)
        texts.append(case.text)
        return case

    monkeypatch.setattr(run, "draw_case", drawn)
    monkeypatch.setattr(run, "_CASES", 3)
    device = str(cp.current_device().index)
    arguments = ["torture", "--minutes", "0.01", "--threads", "2", "--device", device, *options]
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out + said.err, texts


@as_written
def test_the_seed_is_printed_and_replays(device, monkeypatch, capsys):
    status, said, texts = texts_of_a_run(monkeypatch, capsys)
    assert status == 0, said
    seed = re.search(r"^seed (\d+), on:$", said, re.MULTILINE)[1]
    *_, again = texts_of_a_run(monkeypatch, capsys, "--seed", seed)
    common = min(len(texts), len(again))
    assert common and texts[:common] == again[:common]
    _, said, (third,) = texts_of_a_run(monkeypatch, capsys, "--seed", seed, "--case", "0")
    assert third == texts[0] and f"{third}: right" in said


@as_written
def test_a_wrong_case_is_told_with_the_command_that_repeats_it(device, monkeypatch, capsys):
    sound = KINDS["chain"]
    monkeypatch.setattr(cases, "KINDS", {"chain": lambda draw: wrong(sound(draw))})
    status, said, (text, *_) = texts_of_a_run(monkeypatch, capsys)
    assert status == 1
    command = re.search(r"python -m bench torture (--seed \d+ --case \d+) --device", said)
    status, said, (again,) = texts_of_a_run(monkeypatch, capsys, *command[1].split())
    assert status == 1 and again == text and text in said


# --- it would see a fault ---------------------------------------------------------------------


def wrong(case):
    """The case with one element of the first result off by one."""
    changed = case.expected[0].copy()
    changed.flat[0] += 1
    return dataclasses.replace(case, expected=(changed, *case.expected[1:]))


@as_written
def test_a_wrong_element_is_seen(device, monkeypatch):
    case = draw_case(Draw(SEED, 0), ("chain",))
    case.check()
    with pytest.raises(WrongError, match=r"y0 of shape .*: 1 elements are wrong, the first at"):
        wrong(case).check()
    monkeypatch.setitem(KINDS, "upload", lambda draw: wrong(case))
    only = Draw(SEED, 0)
    with pytest.raises(WrongError, match="upload"):
        storm([(device, draw_case(only, ("upload",)))], 5.0, SEED)


def test_a_wrong_shape_and_nan_are_seen():
    zeros = np.zeros((2, 3))
    with pytest.raises(WrongError, match="has shape"):
        Case("", lambda: (zeros.T,), (zeros,)).check()
    with pytest.raises(WrongError, match="nan for 0"):
        Case("", lambda: (zeros * np.nan,), (zeros,)).check()


def test_queues_that_are_not_ordered_are_seen(device, monkeypatch):
    # The fault that this was written for: a profile that does not wait before it takes over.
    def unordered(self, queue):
        old, self.queue = self.queue, queue
        return old

    if device.cl.max_compute_units < 2 or device.type != "cpu":
        pytest.skip("one unit has no two kernels at once")
    slow = cp.Pointwise("y0 = x0; for (int k = 0; k < 2000; ++k) y0 = y0 * 0.5f + 0.5f;")
    x = cp.full(100_000, 3.0)
    case = Case("slow, then fast", lambda: ((slow(x) + 1).get(),), (np.full(100_000, 2.0),))
    case.check()
    monkeypatch.setattr(type(device), "replace_queue", unordered)

    def is_seen(attempt):
        try:
            storm([(device, case)], 0.7, attempt, threads=4)
        except WrongError:
            return True
        return False

    seen = any(is_seen(attempt) for attempt in range(3))
    device.queue = device.queues[0]
    device.synchronize()
    if not seen:
        pytest.skip("this runtime runs the kernels of all queues one after another")


def right_in_a_process(index):
    return [run_case(cp.devices()[index], SEED, number).text for number in range(3)]


@as_written
@pytest.mark.alone
def test_processes_that_share_a_cache(device):
    with (
        damage.own_cache() as folder,
        multiprocessing.get_context("spawn").Pool(2) as pool,
    ):
        answers_in(folder.parent, device)
        first, other = pool.map(right_in_a_process, [device.index] * 2)
    assert other == first
