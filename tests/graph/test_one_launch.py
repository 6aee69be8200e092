"""Graphs in one launch: the same bits as launched apart, whoever runs beside them."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.graph.compiled import Compiled
from clprim.graph.graph import Graph
from clprim.graph.jit import Function
from clprim.graph.one_launch import Spot, Walk, waits_of
from clprim.graph.trace import traced
from clprim.plan.kernel import KernelPlan, PrintedCode
from clprim.plan.launch.body import Body
from clprim.plan.launch.gain import OTHERS, TAKEN, gain
from clprim.plan.launch.walker import Phase
from clprim.traits import DeviceTraits

pytestmark = pytest.mark.usefixtures("device")

N, SEEDS = 24, 40
MIX = cp.Pointwise("y0 = x0 * 0.5f - x1 * 0.25f;")
CLIP = cp.Pointwise("y0 = fmin(fmax(x0 * w0, -4.0f), 4.0f);")
SUMS = cp.Reduction("y0 = x0 * 0.125f;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")


@pytest.fixture(autouse=True)
def walks(device):
    if not device.traits.walks:
        pytest.skip("the device launches kernels apart")


def data(seed, count=4):
    drawn = np.random.default_rng(seed)
    return [cp.asarray(drawn.standard_normal((N, N)).astype(np.float32)) for _ in range(count)]


def random_graph(seed):
    """A function of four arrays: all kernels of the palette, then as many as chance has it."""

    def function(*given):
        choose, known = random.Random(seed), [*given]
        # Only what the function made is written again: by kernels that read it, and read others.
        made = []
        for n in range(6 + choose.randrange(30)):
            kind = n if n < 6 else choose.randrange(6)
            a, b = choose.choice(known), choose.choice(known)
            out = choose.choice(made) if made and choose.random() < 0.4 else None
            if kind == 0:
                y = MIX(a, b, out=out)
            elif kind == 1:
                y = CLIP(a, 1.5, out=out)
            elif kind == 2:
                y = CLIP(ops.matmul(a, b), 0.25, out=out)
            elif kind == 3:
                y = ops.softmax(a, dim=1)
            elif kind == 4:
                y = MIX(a, SUMS(b, axis=0, keepdims=True))
            else:
                y = ops.contiguous(a.T)
            known.append(y)
            made.append(y)
        return tuple(known[-5:])

    return function


def both(device, function, given, passes=False):
    """The function compiled, in one launch and apart."""
    found = []
    for launches in ("one", "each"):
        with cp.options(launches=launches):
            _, graph, form = traced("random", lambda: function(*given), given)
            found.append(Compiled(device, graph, form, passes=passes))
    return found


def bits(results):
    return [r.get().tobytes() for r in results]


def walked(compiled):
    return [part for part in compiled.replay.parts if isinstance(part, Walk)]


# --- the same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 2000, SEEDS))
def test_random_graphs_have_the_bits_of_kernels_apart(device, first):
    for seed in range(first, first + SEEDS if first == 0 else first + 5):
        given = data(seed)
        one, each = both(device, random_graph(seed), given)
        wanted = bits(each(given))
        assert walked(one)
        assert len(one.replay.parts) < len(each.replay.parts)
        for _ in range(3):
            assert bits(one(given)) == wanted, seed


@pytest.mark.parametrize("seed", range(4))
def test_with_passes_too(device, seed):
    given = data(seed)
    one, each = both(device, random_graph(seed), given, passes=True)
    assert bits(one(given)) == bits(each(given))


def test_written_arguments_are_written_once(device):
    def step(w, m, g):
        MIX(m, g, out=m)
        MIX(w, m, out=w)
        return SUMS(w, axis=0)

    results = []
    for launches in ("one", "each"):
        given = data(7, 3)
        compiled = cp.jit(step, launches=launches)
        found = [compiled(*given).get() for _ in range(5)]
        results.append([*found, *(g.get() for g in given)])
    assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]


def test_value_and_grad(device):
    def loss(w, x):
        return (ops.relu(ops.matmul(x, w)) * x).sum()

    w, x = data(3, 2)
    (a, (ga, gb)), (b, (ha, hb)) = (
        cp.value_and_grad(loss, launches=launches)(w, x) for launches in ("one", "each")
    )
    assert bits((a, ga, gb)) == bits((b, ha, hb))


def test_a_saved_graph_is_launched_as_it_was(device, tmp_path):
    x, y = data(5, 2)
    f = cp.jit(lambda x, y: SUMS(MIX(CLIP(x, 2.0), y), axis=0), launches="one")
    before = cp.stats().launches
    wanted = f(x, y).get()
    launches = cp.stats().launches - before
    f.graph(x, y).save(tmp_path / "net.clprim")
    graph = Graph.load(tmp_path / "net.clprim")
    before = cp.stats().launches
    assert graph(x, y).get().tobytes() == wanted.tobytes()
    assert cp.stats().launches - before == launches == 1


def test_onnx_and_torch_say_it_too(device):
    pytest.importorskip("onnx")
    from onnx import parser

    import clprim.onnx

    model = parser.parse_model('''
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 8] x) => (float[4, 8] y) { a = Softmax(x) b = MatMul(a, c) y = Softmax(b) }'''
        .replace("g (float[4, 8] x)", "g (float[4, 8] x, float[8, 8] c)"))  # fmt: skip
    net, x, c = clprim.onnx.load(model), *data(1, 2)
    given = x.get()[:4, :8], c.get()[:8, :8]
    apart, found = net(*given), []
    for launches in ("one", "each"):
        net.options["launches"] = launches
        found.append(net(*given))
        before = cp.stats().launches
        net(*given)
        assert (cp.stats().launches - before == 1) is (launches == "one")
    assert found[0].tobytes() == found[1].tobytes() == apart.tobytes()
    assert net.times(*given)
    net.options["launches"] = "two"
    with pytest.raises(cp.DefinitionError, match="launches='two'"):
        net(*given)
    compiling = pytest.importorskip("clprim.torch.compiling")
    assert compiling._chosen(None, {"launches": "one"})["launches"] == "one"
    with pytest.raises(cp.DefinitionError, match=r"torch.compile: launches='two'"):
        compiling._chosen(None, {"launches": "two"})


# --- counters ------------------------------------------------------------------------------------


def test_counters_wrap_around(device):
    given = data(1)
    one, each = both(device, random_graph(1), given)
    wanted = bits(each(given))
    (walk,) = walked(one)
    assert bits(one(given)) == wanted
    # As they are after 2³² - 2 launches: every counter has gone on by its tiles each time.
    epoch = 2**32 - 2
    counters = np.zeros((len(walk.phases), 1 + walk.groups, 16), np.uint32)
    for row, tiles in zip(counters, walk.tiles(), strict=True):
        ends = [tiles * n // walk.groups for n in range(walk.groups + 1)]
        shares = np.diff(ends)
        row[:, 0] = [epoch * int(n) % 2**32 for n in (tiles, *shares)]
    walk._own[1].set(counters.view(np.uint8).ravel())
    walk._epoch = epoch
    for _ in range(5):
        assert bits(one(given)) == wanted
    assert walk._epoch == 3


def test_a_launch_that_nobody_knows_of_begins_anew(device):
    given = data(2)
    one, each = both(device, random_graph(2), given)
    wanted = bits(each(given))
    one(given)
    (walk,) = walked(one)
    walk.begin()  # and it is not enqueued
    walk.lost()
    assert bits(one(given)) == wanted


def test_a_call_changes_an_argument_for_each_of_its_arrays(device):
    # A walker takes more pieces of memory than most graphs have.
    given = data(3)
    one, _ = both(device, random_graph(3), given)
    for (*_, changing, _), part in zip(one.replay._rows, one.replay.parts, strict=True):
        if isinstance(part, Walk):
            places = [place for _, place in changing]
            assert len(places) == len({*places}) <= len(given) + len(one.replay._outputs)


# --- what it depends on --------------------------------------------------------------------------


def test_arguments_of_eight_bytes(device):
    def function(x, length):  # the window of attention is a ``long``
        told = {"is_causal": True, "length": length, "window": 3}
        return ops.scaled_dot_product_attention(x, x, x, **told) * 2

    x = cp.asarray(np.random.default_rng(5).standard_normal((1, 2, 6, 16)).astype(np.float32))
    length = cp.asarray(np.int32([6]))
    expected, found = (cp.jit(function, launches=how)(x, length) for how in ("each", "one"))
    np.testing.assert_array_equal(found.get(), expected.get())


def test_another_size_compiles_nothing(device):
    f = cp.jit(
        lambda x, y: MIX(CLIP(MIX(x, y), 2.0), SUMS(y, axis=1, keepdims=True)), launches="one"
    )
    shapes = [(256, 512), (300, 512), (280, 512)]
    given = [[cp.full(s, float(n), "float32") for n in (1, 2)] for s in shapes]
    f(*given[0])
    before = cp.stats()
    for x, y in given[1:]:
        f(x, y)
    assert (cp.stats() - before).builds == 0
    assert (cp.stats() - before).disk_hits == 0


def test_waits_are_for_what_is_read_and_for_memory_that_is_written_again():
    class Memory:
        def __init__(self, begin, nbytes=4):
            self.begin, self.nbytes = begin, nbytes

    class Launch:
        def __init__(self, *written):
            self.written = written

    class Step:
        def __init__(self, *taken):
            self.buffers = [(n, buffer) for n, (buffer, _) in enumerate(taken)]
            self.launch = Launch(*(written for _, written in taken))

    a, b, c, d = (Memory(4 * n) for n in range(4))
    whole = object()
    steps = [
        Step((a, True)),
        Step((a, False), (b, True)),
        Step((a, False), (c, True)),
        Step((b, False), (c, False), (d, True)),
        Step((d, False), (a, True)),  # after its readers, which 3 has waited for
        Step((Memory(100), True)),
        Step((Memory(2), True)),  # over parts of a and b
    ]
    waits = waits_of(steps, lambda buffer: Spot(whole, None, buffer.begin))
    assert waits == [(), (0,), (0,), (1, 2), (3,), (), (4,)]


def test_explain_says_phases_tiles_and_waits(device, peaks):
    given = data(0)
    f = cp.jit(lambda *g: MIX(ops.softmax(ops.matmul(g[0], g[1]), dim=1), g[2]), launches="one")
    text = f.explain(*given)
    assert "phases of one launch" in text and "waits for" in text and "nothing" in text
    assert "µs" in f.explain(*given, measure=True)
    with cp.profile() as p:
        f(*given)
    assert [event.name for event in p.events] == ["phases"]
    assert "phases" not in cp.jit(lambda x: CLIP(x, 2.0), launches="one").explain(given[0])


@pytest.mark.parametrize("wrong", ["two", None, 1, True, ["one"]])
def test_other_words_are_refused(device, wrong):
    with pytest.raises(cp.DefinitionError, match=r"jit: launches=.*'auto', 'one', 'each'"):
        cp.jit(MIX, launches=wrong)
    with pytest.raises(cp.DefinitionError, match=r"value_and_grad: launches="):
        cp.value_and_grad(lambda x: x, launches=wrong)
    with pytest.raises(cp.DefinitionError, match=r"cp.options: launches="):
        cp.options(launches=wrong)


# --- who else runs -------------------------------------------------------------------------------


def test_eight_threads_replay_different_graphs(device):
    jobs, wrong = [], []
    for seed in range(8):
        given = data(seed)
        one, each = both(device, random_graph(seed), given)
        jobs.append((one, given, bits(each(given))))

    def run(one, given, wanted):
        wrong.extend(n for n in range(40) if bits(one(given)) != wanted)

    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import clprim as cp
    cp.set_device({index})
    from graph.test_one_launch import bits, both, data, random_graph, walked
    device = cp.current_device()
    assert device.traits.walks
    for seed in range({graphs}):
        given = data(seed)
        one, each = both(device, random_graph(seed), given)
        wanted = bits(each(given))
        assert walked(one)
        print("begun", flush=True)
        for _ in range({launches}):
            assert bits(one(given)) == wanted
        print("right", flush=True)
"""


def begun(device, launches=20, before=(), graphs=3, **environment):
    """A process of the same tests."""
    tests = str(Path(__file__).resolve().parents[1])
    script = textwrap.dedent(SCRIPT).format(
        tests=tests, index=device.index, launches=launches, graphs=graphs
    )
    return subprocess.Popen(
        [*before, sys.executable, "-c", script],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone pins processes")
@pytest.mark.parametrize(
    "how", [{"before": ("taskset", "-c", "0")}, {"POCL_MAX_PTHREAD_COUNT": "1"}], ids=str
)
def test_one_core_and_one_thread_hang_nowhere(device, how):
    if "POCL_MAX_PTHREAD_COUNT" in how and "Portable" not in device.platform:
        pytest.skip("the setting is PoCL's")
    said, _ = begun(device, launches=60, graphs=1, **how).communicate(timeout=300)
    assert said.split() == ["begun", "right"]


def test_busy_processes_beside(device):
    child = begun(device, launches=20, graphs=1)
    # It is planned and built in peace; what follows stays in the pipe.
    assert os.read(child.stdout.fileno(), 5) == b"begun"
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(16)]
    try:
        said, _ = child.communicate(timeout=300)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert said.split() == ["right"]


def test_the_next_process_is_well_after_one_was_killed_in_a_launch(device):
    first = begun(device, launches=10**9)
    assert first.stdout.readline() == "begun\n"
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    said, _ = begun(device, launches=3).communicate(timeout=300)
    assert said.split() == ["begun", "right"] * 3


def test_replays_take_no_memory(device):
    # Hours of it, and graphs by the thousand: `python tests/one_launch.py`.
    from one_launch import growth

    count, more = growth(device, seconds=0)
    assert count >= 1800
    assert more < 4 << 20


def test_snippets_may_call_theirs_as_kernels_call_parameters(device):
    named = cp.Pointwise("float n = 2, n0 = x0, n1 = 1, rows = n0 * n; y0 = rows + n1;")
    given = data(4, 2)
    one, each = both(device, lambda x, y: named(ops.matmul(named(x), y).T), given)
    assert bits(one(given)) == bits(each(given))
    assert walked(one)


# --- by cost -------------------------------------------------------------------------------------


def phase(flops, waits=(), groups=16):
    code = PrintedCode(name="k", parameters=(), index="int", doubles=False, text="", version=(1, 2))
    kernel = KernelPlan("", code, (), (groups,), (1,), 0, flops)
    return Phase(kernel, Body("", (), False), (), {}, waits)


def row(count, flops, groups=16):
    return [phase(flops, (n - 1,) if n else (), groups) for n in range(count)]


def test_costs_say_what_one_launch_spares():
    cpu = DeviceTraits(is_cpu=True, compute_units=2, vector_bytes=32, walks=True, spared=400)
    of_unit = 2 * 8 * 8 * 2 / TAKEN  # operations of both units in a step
    step = 400 * OTHERS * of_unit
    assert gain([], cpu) == 0
    assert gain(row(50, step), cpu) == pytest.approx(0.5)
    assert gain(row(50, 99 * step), cpu) == pytest.approx(0.01)
    # One tile, or three for two cores: nobody fills the gap where each waits for the one before.
    assert gain(row(50, step, groups=1), cpu) == pytest.approx(1 / 3)
    apart = replace(cpu, spared=0)
    assert gain(row(50, step, groups=3), apart) == 0
    beside = [phase(step, (), 1), phase(step, (), 1)]
    assert gain(beside, apart) == pytest.approx(0.5)


def small(x, y):
    return MIX(ops.softmax(ops.matmul(x, y), dim=1), y)


def until_walked(f, given, wanted, seconds=120):
    """Calls a function until its kernels are one launch; returns after how many calls they are."""
    calls, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        before = cp.stats().launches
        assert f(*given).get().tobytes() == wanted
        if cp.stats().launches - before == 1:
            return calls
        calls += 1
    return None


@pytest.mark.alone
def test_what_is_called_often_becomes_one_launch(device, monkeypatch, tmp_path):
    monkeypatch.setattr("clprim.graph.replay.OFTEN", 3)
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(device.__dict__, "traits", replace(device.traits, spared=1000))
    given = data(9, 2)
    wanted = cp.jit(small, launches="each")(*given).get().tobytes()
    f = cp.jit(small)
    assert "in one launch would take" in f.explain(*given)
    before = cp.stats().builds
    assert until_walked(f, given, wanted) >= 2
    assert cp.stats().builds == before  # another process did
    assert "phases of one launch" in f.explain(*given)
    # What lies on disk is there at the third call.
    assert until_walked(cp.jit(small), given, wanted) == 2


@pytest.mark.alone
def test_what_is_said_to_be_called_often_is_one_launch_as_soon_as_it_is_built(
    device, monkeypatch, tmp_path
):
    monkeypatch.setenv("CLPRIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(device.__dict__, "traits", replace(device.traits, spared=1000))
    given = data(9, 2)
    wanted = cp.jit(small, launches="each")(*given).get().tobytes()
    assert until_walked(Function(small, (), False, often=True), given, wanted) is not None
    # What lies on disk is there at the first call, without kernels of its own.
    assert until_walked(Function(small, (), False, often=True), given, wanted) == 0
    assert until_walked(Function(small, (), False, "each", often=True), given, wanted, 1) is None


def test_what_gains_little_stays_apart(device, monkeypatch):
    monkeypatch.setattr("clprim.graph.replay.OFTEN", 2)
    monkeypatch.setattr("clprim.graph.one_launch.build_aside", None)  # nobody asks
    given = data(9, 2)
    for traits in ({"spared": 0}, {"walks": False, "spared": 10**9}):
        with monkeypatch.context() as patch:
            patch.setitem(device.__dict__, "traits", replace(device.traits, **traits))
            f = cp.jit(lambda x, y: CLIP(SUMS(MIX(x, y), axis=0), 2.0))
            launches = set()
            for _ in range(5):
                before = cp.stats().launches
                f(*given)
                launches.add(cp.stats().launches - before)
            assert len(launches) == 1 and launches.pop() > 1


def test_without_a_cache_on_disk_nothing_is_built_aside(device, monkeypatch):
    monkeypatch.setattr("clprim.graph.replay.OFTEN", 2)
    monkeypatch.setenv("CLPRIM_CACHE_DIR", "")
    monkeypatch.setitem(device.__dict__, "traits", replace(device.traits, spared=1000))
    given = data(9, 2)
    f = cp.jit(lambda x, y: MIX(ops.softmax(ops.matmul(x, y), dim=0), x))
    wanted = f(*given).get().tobytes()
    assert until_walked(f, given, wanted, seconds=2) is None


def test_phases_stand_below_their_launch_in_profiles(device):
    given = data(0)
    f = cp.jit(lambda *g: MIX(ops.softmax(ops.matmul(g[0], g[1]), dim=1), g[2]), launches="one")
    f(*given)
    with cp.profile() as p:
        f(*given)
    (event,) = p.events
    assert event.name == "phases" and len(event.phases) > 1
    lines = p.table().splitlines()
    assert lines[2].startswith("phases ") and lines[3].strip().split()[0] in event.phases


def test_prefixes_say_what_phases_take(device, peaks):
    given = data(0)
    f = cp.jit(lambda *g: MIX(ops.softmax(ops.matmul(g[0], g[1]), dim=1), g[2]), launches="one")
    wanted = f(*given).get().tobytes()
    text = f.explain(*given, measure=True)
    assert "µs as a phase" in text and "as phases; its peaks" in text
    assert f(*given).get().tobytes() == wanted


def test_complex_numbers_are_arguments(device):
    """Of kernels in one launch as of those apart, in both precisions."""
    for dtype in (np.complex64, np.complex128) if device.traits.fp64 else (np.complex64,):
        drawn = np.random.default_rng(0).standard_normal((2, N, N))
        z = cp.asarray((drawn[0] + 1j * drawn[1]).astype(dtype))

        def function(z):
            return (z * (2 - 1j)).sum(axis=1, keepdims=True) * z + 0.5j

        found = cp.jit(function, launches="one")
        np.testing.assert_array_equal(found(z).get(), function(z).get())
