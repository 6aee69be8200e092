"""What a function does for one signature, ready to run on the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clprim.graph.graph import Graph
from clprim.graph.replay import Replay


class Compiled:
    """A replay that takes arrays and returns what the function returned."""

    def __init__(self, traced: Graph, replay: Replay, results: Callable[[Any, Any], Any]) -> None:
        self.traced, self.replay, self._results = traced, replay, results

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Runs it on the arrays of a call, in the order that they were traced in."""
        replay = self.replay
        memory = replay([array.base_data for array in arrays])
        return self._results(lambda number: replay.result(number, memory), arrays)
