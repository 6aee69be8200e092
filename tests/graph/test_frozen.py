"""Graphs as bytes: what comes back does the same with nothing planned, whatever its constants."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.graph import frozen
from clprim.graph.compiled import Compiled
from clprim.graph.signature import Place

pytestmark = pytest.mark.usefixtures("unoptimised")


def graph_of(device):
    """A compiled function of one array with two constants; one is named ``w``."""
    w = cp.asarray(np.arange(32, dtype=np.float32).reshape(8, 4))
    shift = cp.asarray(np.float32([1, 2, 3, 4]))

    @cp.jit(constants=("w", "shift"))
    def net(x, w, shift):
        return ops.relu(ops.matmul(x, w) + shift)

    x = cp.asarray(np.arange(24, dtype=np.float32).reshape(3, 8) - 12)
    graph = net.graph(x, w, shift)
    weights = {id(b.memory): b.weight for n in graph.nodes for b in n.touched if b.weight}
    (named,) = [k for k, v in weights.items() if v.array.nbytes == w.nbytes]
    return x, graph, named, weights[named], net(x, w, shift).get()


def test_a_graph_runs_again_with_nothing_planned(device, monkeypatch):
    x, graph, named, weight, wanted = graph_of(device)
    name_of = lambda buffer: "w" if id(buffer.memory) == named else None  # noqa: E731
    data = frozen.freeze(device, graph, name_of, {"beside": (1, "two")})
    asked = []
    monkeypatch.setattr(cp.Pointwise, "plan", None)

    def constant(name):
        asked.append(name)
        return weight

    again, beside = frozen.thaw(device, data, constant)
    assert asked == ["w"]
    assert beside == {"beside": (1, "two")}
    compiled = Compiled(device, again, Place(0), passes=False)
    np.testing.assert_array_equal(compiled([x]).get(), wanted)
    with pytest.raises(cp.DefinitionError, match="one call alone"):
        again.nodes[0].primitive.problem(None, device)


def test_large_constants_without_a_name_are_not_kept(device, monkeypatch):
    _, graph, *_ = graph_of(device)
    monkeypatch.setattr(frozen, "MOST_BYTES", 100)
    assert frozen.freeze(device, graph, lambda buffer: None, None) is None
