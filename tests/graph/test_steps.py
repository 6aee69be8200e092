"""Kernels of a graph are launched with memory that is there."""

import numpy as np
import pytest

import clprim as cp
from clprim.errors import DeviceError
from clprim.graph.graph import buffer_of
from clprim.graph.replay import Replay
from clprim.graph.steps import enqueue, steps_of
from clprim.graph.trace import traced

pytestmark = pytest.mark.usefixtures("unoptimised")


@pytest.mark.parametrize("launch", [Replay, lambda d, g: enqueue(d, steps_of(d, g.nodes), {})])
def test_a_constant_without_memory_is_refused(device, launch):
    x = cp.asarray(np.ones(3, np.float32))
    _, graph, _ = traced("f", lambda: x + 1, [])
    (read,) = graph.nodes[0].reads
    assert buffer_of(read).kind == "constant"
    buffer_of(read).memory = None
    with pytest.raises(DeviceError, match="constant of 12 bytes> has no memory"):
        launch(device, graph)
