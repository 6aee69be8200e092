"""``CLPRIM_CHECK=passes``: what a pass must not change is seen, users' arrays stay."""

import numpy as np
import pytest
from support import equal, numbers

import clprim as cp
from clprim import ops
from clprim.graph import check, passes
from clprim.graph import memory as graph_memory
from clprim.graph import replay as graph_replay
from clprim.graph.graph import planned

pytestmark = pytest.mark.usefixtures("device", "checked")


@pytest.fixture
def checked(monkeypatch):
    monkeypatch.setenv("CLPRIM_CHECK", "passes")


def arrays(*shapes):
    return [cp.asarray(numbers(shape, seed=n).astype(np.float32)) for n, shape in enumerate(shapes)]


def renamed(old, new):
    """A pass that gives nodes of one string another one."""

    def broken(graph, device):
        def changed(node):
            if getattr(node.primitive, "definition", None) is None:
                return node
            if node.primitive.definition.expr.text != old:
                return node
            rest = node.numbers, node.options, node.kept, node.line
            return planned(device, cp.Pointwise(new), node.reads, node.writes, *rest)

        return graph.with_nodes([changed(node) for node in graph.nodes])

    return broken


def test_sound_passes_change_nothing():
    def function(x, w, s, index):
        y = ops.relu(ops.conv2d(x, w, padding=1) * s + 1)
        x[:, 1:] *= 2
        z = ops.layer_norm(y + x, 6)
        return ops.index_select(z, 1, index), ops.cat([y, x], 1)

    x, w, s = arrays((2, 4, 5, 6), (4, 4, 3, 3), (4, 1, 1))
    index = cp.asarray(np.array([3, 0, 3]))
    same = x.copy()
    compiled = cp.jit(function, constants=("w", "s"))
    for found, expected in zip(compiled(x, w, s, index), function(same, w, s, index), strict=True):
        np.testing.assert_allclose(found.get(), expected.get(), rtol=1e-4, atol=1e-4)
    equal(x, same.get())


OLD = "y0 = x0 > 0 ? x0 : w0 * x0;"


@pytest.mark.parametrize(
    ("new", "first"),
    [
        ("y0 = x0 >= 0 ? x0 : w0 * fabs(x0);", "(0"),
        ("y0 = x0 > 0 ? x0 : w0 * x0 + 0.0f;", "(\\d+, \\d+\\): .*0.0"),
        ("y0 = x0 > 0 || x0 != x0 ? (x0 != x0 ? 1 : x0) : w0 * x0;", ".*1.0.* for .*nan"),
    ],
)
def test_a_pass_that_changes_a_node_is_named_with_it(monkeypatch, new, first):
    broken = renamed(OLD, new)
    monkeypatch.setattr(passes, "PASSES", (passes.dead_code, broken))
    leaky = cp.Pointwise(OLD, name="leaky")

    def function(x):
        return ops.sqrt(leaky(x, 2.0))

    (x,) = arrays((8, 33))
    with pytest.raises(check.PassError) as error:
        cp.jit(function)(x)
    assert "function: the pass 'broken' changed" in str(error.value)
    assert "test_check.py:" in str(error.value) and "leaky" not in str(error.value)[:20]


def test_a_bound_is_taken_and_held(monkeypatch):
    nearly = renamed("y0 = x0 * 2;", "y0 = x0 * 2.000001f;")
    monkeypatch.setattr(passes, "PASSES", (nearly,))
    double = cp.Pointwise("y0 = x0 * 2;")
    (x,) = arrays((8, 33))
    for units, refused in (({}, True), ({"float32": 16.0}, False), ({"float32": 1.0}, True)):
        monkeypatch.setattr(passes, "BOUNDS", {nearly: units})
        if refused:
            with pytest.raises(check.PassError, match="changed"):
                cp.jit(double)(x)
        else:
            cp.jit(double)(x)


def test_a_bound_lets_no_infinity_appear(monkeypatch):
    broken = renamed("y0 = x0 * 2;", "y0 = x0 > 1 ? INFINITY : x0 * 2;")
    monkeypatch.setattr(passes, "PASSES", (broken,))
    monkeypatch.setattr(passes, "BOUNDS", {broken: {"float32": 16.0}})
    double = cp.Pointwise("y0 = x0 * 2;")
    with pytest.raises(check.PassError, match="inf"):
        cp.jit(double)(arrays((8, 33))[0])


def test_sums_of_other_strides_may_be_added_up_in_another_order():
    def function(x, y):
        z = ops.maximum(x, y)
        w = z * 2
        return ops.sum(ops.cat([w, w, z, z], 1)), ops.sum(z[::-1])

    for rows in (4, 5, 7):
        given = arrays((rows, 6), (rows, 6))
        for found, expected in zip(cp.jit(function)(*given), function(*given), strict=True):
            np.testing.assert_allclose(found.get(), expected.get(), rtol=1e-6)


def test_memory_that_is_shared_too_early_is_seen(monkeypatch):
    def cut(steps, without):
        lives = graph_memory.lives_of(steps, without)
        return {buffer: (first, first) for buffer, (first, _) in lives.items()}

    monkeypatch.setattr(graph_replay, "lives_of", cut)

    def function(x, w):
        a = ops.softmax(x, -1)
        b = ops.softmax(x @ w, -1)
        return ops.matmul(a, b)

    x, w = arrays((8, 8), (8, 8))
    with pytest.raises(check.PassError, match=r"replayed in shared memory, .* differ"):
        cp.jit(function)(x, w)


def test_what_is_captured_and_what_is_drawn_stays():
    (held,) = arrays((50,))
    before = held.get()
    draw = cp.Pointwise("y0 = x0 + rand();")

    def function(x):
        held[...] = held + 1
        return draw(x) * 2 + 0 * held

    (x,) = arrays((50,))
    compiled = cp.jit(function)
    cp.random.seed(3)
    found = compiled(x).get()
    equal(held, before + 1)
    cp.random.seed(3)
    equal(function(x), found)


def test_the_variable_is_read_with_care(monkeypatch):
    monkeypatch.setenv("CLPRIM_CHECK", "everything")
    with pytest.raises(cp.DefinitionError, match="CLPRIM_CHECK='everything': expected 'passes'"):
        cp.jit(lambda x: x + 1)(arrays((3,))[0])
