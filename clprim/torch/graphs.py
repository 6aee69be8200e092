"""Functions of tensors on the device: traced once for every signature, fused, and replayed.

A function is called as it is under a trace, so that the kernels of `clprim.torch.table` fill the
graph. What it returns are tensors again, with the strides that it gave them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from clprim.arrays.array import array_over
from clprim.graph.compiled import Compiled, Signatures
from clprim.graph.graph import Buffer, buffer_of, layout_of
from clprim.graph.signature import sharing
from clprim.graph.store import collecting
from clprim.graph.trace import traced
from clprim.options import current_options
from clprim.plan.strides import Operand
from clprim.runtime import tracing
from clprim.runtime.device import Device, current_device, on
from clprim.torch import private
from clprim.torch.numbers import run_on
from clprim.torch.precision import precise
from clprim.torch.tensors import adopt, array_of, elsewhere, kind_of, placement
from clprim.torch.weights import Weights

# Why a call is not replayed, and why it computes more than it has to.
OVERLAP = "with arguments over overlapping parts of one piece of memory"
UNCOUNTED = (
    "parameters or buffers were made in torch.inference_mode(), where PyTorch counts no writes to "
    "them: what depends on them is computed with every call; make and load them outside of it"
)

# Makes a result: of a call's tensors, its replay's memory, and tensors over whole buffers of it.
_Maker = Callable[[Sequence[torch.Tensor], Sequence[Any], dict[Buffer, torch.Tensor]], Any]


class Recorded(Compiled):
    """What a function of tensors launches for one signature."""

    def __init__(
        self,
        device: Device,
        what: str,
        function: Callable[[], Any],
        tensors: Sequence[torch.Tensor],
        weights: Weights,
        free: Collection[int] = (),
        bare: Collection[int] = (),
    ) -> None:
        results: list[Any] = []
        loose: set[int] = set()

        def call() -> list[Any]:
            result = function()
            for n in bare:
                result[n] = private.form_of(result[n])
            loose.update(id(result[n]) for n in free)
            results[:], self._tree = tree_flatten(result)
            return [array_of(r) for r in results if _is_made(r)]

        with torch.no_grad(), _same_peak():
            trace, graph, _ = traced(what, call, [array_of(t) for t in tensors])
            written = {buffer_of(w) for node in graph.nodes for w in (*node.writes, *node.changed)}
            bound = weights.bound(trace, written)
        made = filter(_is_made, results)
        numbers = frozenset(n for n, r in enumerate(made) if id(r) in loose)
        with collecting() as self._kept:
            super().__init__(device, replace(graph, free=numbers))
        self._device = device
        self._makers = self._makers_of(results, tensors, weights.tensors)
        inside = [*map(buffer_of, graph.inputs), *bound]
        self._written = [n for n, buffer in enumerate(inside) if buffer in written]
        sources = {id(weight) for kept in self._kept for weight in kept.sources()}
        self._watched = [n for n in weights.first if id(bound[n].weight) in sources]
        # What another signature has kept may be of older ones; then the first call makes it again.
        self._versions = [weights.first[n] for n in self._watched]
        self._repeatable = not (self._written or any(s.draws for s in self.replay.steps))

    def ahead(self, tensors: Sequence[torch.Tensor]) -> list[Any] | None:
        """Launches it before anybody has looked at weights, so that the device has begun."""
        return self._launched(tensors) if self._repeatable else None

    def run(
        self, tensors: Sequence[torch.Tensor], weights: Weights, memory: list[Any] | None = None
    ) -> Any:
        """Runs it on the tensors of a call."""
        if self._watched:
            # Versions are PyTorch's count of what was written to a tensor.
            versions = [weights.tensors[n]._version for n in self._watched]
            if versions != self._versions:
                with on(self._device):
                    for kept in self._kept:
                        kept.renew()
                self._versions, memory = versions, None
        if memory is None:
            memory = self._launched(tensors)
        if self._written:
            every = [*tensors, *weights.tensors]
            changed = [every[n] for n in self._written if not every[n].is_inference()]
            torch.autograd.graph.increment_version(changed)
        whole: dict[Buffer, torch.Tensor] = {}
        found = [make(tensors, memory, whole) for make in self._makers]
        return found[0] if self._tree.is_leaf() else tree_unflatten(found, self._tree)

    def _launched(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        return self.replay([private.storage_of(t).clprim.root.base_data for t in tensors])

    def _makers_of(
        self, results: Sequence[Any], given: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> list[_Maker]:
        """Returns what makes every result of a call."""
        found = self.replay.graph.outputs
        counts = Counter(map(buffer_of, found))
        outputs = iter(found)
        makers: list[_Maker] = []
        for result in results:
            if not _is_made(result):
                makers.append(_there(result, given, weights))
                continue
            operand = next(outputs)
            several = counts[buffer_of(operand)] > 1
            makers.append(self._view(operand) if several else self._new(operand))
        return makers

    def _new(self, operand: Operand) -> _Maker:
        """Returns what makes a tensor of memory that a replay has written."""
        device, replay = self._device, self.replay
        buffer = buffer_of(operand)
        where = layout_of(operand)

        def make(_: Any, memory: Sequence[Any], __: Any) -> torch.Tensor:
            found = adopt(array_over(device, replay.memory_of(buffer, memory), *where))
            # What depends on constants alone is there once, and a result is its caller's.
            return found.clone() if buffer.kind == "constant" else found

        return make

    def _view(self, operand: Operand) -> _Maker:
        """Returns what makes a tensor that shares its storage with other results."""
        buffer, itemsize = buffer_of(operand), operand.dtype.itemsize
        size = buffer.nbytes // itemsize
        whole = self._new(Operand((size,), (itemsize,), 0, operand.dtype, operand.memory))
        kind, shape, offset = kind_of(operand.dtype), operand.shape, operand.offset // itemsize
        steps = tuple([s // itemsize for s in operand.strides])

        def make(given: Any, memory: Any, known: dict[Buffer, torch.Tensor]) -> torch.Tensor:
            base = known.get(buffer)
            if base is None:
                base = known[buffer] = whole(given, memory, known)
            if base.dtype is kind:
                return private.restride(base, shape, steps, offset)
            return private.seen_as(base, kind, shape, steps, offset)

        return make


class Ahead(NamedTuple):
    """What was launched before it was known whether it is right, and the memory it writes."""

    recorded: Recorded
    memory: list[Any]


def _is_made(result: Any) -> bool:
    """Whether a trace's result is a tensor in memory that was not there before."""
    if not isinstance(result, torch.Tensor) or result.device.type != private.NAME:
        return False
    root = private.storage_of(result).clprim.root
    return isinstance(root.base_data, Buffer) and bool(root.size)


def _there(result: Any, given: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> _Maker:
    """Returns what makes a result that is no new tensor: an argument, a view of one, a number."""
    if not isinstance(result, torch.Tensor):
        return lambda *_: result
    for n, tensor in enumerate(given):
        if result is tensor:
            return lambda tensors, *_: tensors[n]
    if any(result is weight for weight in weights):
        return lambda *_: result
    if result.is_meta:
        return lambda *_: result
    if result.device.type != private.NAME:
        return lambda *_: result.clone()
    if not result.numel():
        how = {"dtype": result.dtype, "device": result.device}
        shape, strides = result.shape, result.stride()
        return lambda *_: torch.empty_strided(shape, strides, **how)
    address = private.storage_of(result).data_ptr()
    shape, strides, offset = result.shape, result.stride(), result.storage_offset()
    for n, tensor in enumerate(given):
        if private.storage_of(tensor).data_ptr() == address:
            if result.dtype is tensor.dtype:
                return lambda tensors, *_: tensors[n].as_strided(shape, strides, offset)
            kind = result.dtype
            return lambda tensors, *_: private.seen_as(tensors[n], kind, shape, strides, offset)
    return lambda *_: result.detach()


@contextmanager
def _same_peak() -> Iterator[None]:
    """Leaves the count of memory as it was before a trace, which allocates none."""
    before = {number: usage.peak for number, usage in placement.usage.items()}
    try:
        yield
    finally:
        for number, usage in placement.usage.items():
            usage.peak = max(before.get(number, 0), usage.now)


class Graphs:
    """What is known of a function of tensors and weights, by the signatures of its calls."""

    def __init__(
        self, what: str, weights: Weights, free: Collection[int] = (), bare: Collection[int] = ()
    ) -> None:
        self.what, self.weights, self._free, self._bare = what, weights, free, bare
        self._known: Signatures[Recorded] = Signatures()
        self._told: set[str] = set()

    def take(self, weights: Weights) -> None:
        """Takes other weights, with which nothing has been called."""
        with self._known.lock:
            self.weights = weights
            self._known.clear()

    def __call__(
        self,
        function: Callable[[], Any],
        tensors: Sequence[torch.Tensor],
        key: Hashable = (),
        ahead: Ahead | None = None,
    ) -> Any:
        """Returns what a function does, which is called where a signature is new."""
        if tracing.active.now is not None:
            return function()  # a part of another one, which is traced
        found = self.recorded(function, tensors, key)
        if found is None:
            self._tell(f"{OVERLAP}: its kernels run one by one")
            return function()
        memory = ahead.memory if ahead is not None and ahead.recorded is found else None
        return found.run(tensors, self.weights, memory)

    def ahead(self, tensors: Sequence[torch.Tensor], key: Hashable = ()) -> Ahead | None:
        """Launches what such a call launched last time, before anybody looks at weights."""
        if tracing.active.now is not None:
            return None
        place = (*tensors, *self.weights.tensors[:1])
        found: Recorded | None = run_on(place, self._seen, tensors, key)
        memory = None if found is None else found.ahead(tensors)
        return None if found is None or memory is None else Ahead(found, memory)

    def _seen(self, tensors: Sequence[torch.Tensor], key: Hashable) -> Recorded | None:
        return self._known.get(_signature(tensors, key))

    def _tell(self, why: str) -> None:
        """Warns, the first time that there is this reason."""
        if why not in self._told:
            self._told.add(why)
            warnings.warn(f"{self.what}: {why}", stacklevel=3)

    def recorded(
        self, function: Callable[[], Any], tensors: Sequence[torch.Tensor], key: Hashable = ()
    ) -> Recorded | None:
        """Returns what runs for a call; None where its memory overlaps in part."""
        place = (*tensors, *self.weights.tensors[:1])
        found: Recorded | None = run_on(place, self._found, function, tensors, key)
        return found

    def _found(
        self, function: Callable[[], Any], tensors: Sequence[torch.Tensor], key: Hashable
    ) -> Recorded | None:
        whole = _signature(tensors, key)
        if whole is None:
            return None
        with self._known.lock:  # one thread traces
            found = self._known.get(whole)
            if found is None:
                how = self.weights, self._free, self._bare
                made = precise(Recorded)(current_device(), self.what, function, tensors, *how)
                found = self._known.keep(whole, made)
                if self.weights.uncounted:
                    self._tell(UNCOUNTED)
        return found


def _signature(tensors: Sequence[torch.Tensor], key: Hashable) -> Hashable | None:
    """Returns what tells the tensors of two calls apart; None where memory overlaps in part."""
    found: list[Any] = [current_device().index, current_options(), key]
    found.append(torch.get_float32_matmul_precision())
    memories: list[Any] = []
    for tensor in tensors:
        try:
            root = private.storage_of(tensor).clprim.root
        except AttributeError:
            raise elsewhere(tensor.device) from None
        memories.append(root.base_data)
        found += (tensor.shape, tensor.stride(), tensor.dtype)
        found += (tensor.storage_offset(), root.offset)
    shared = sharing(memories)
    return None if shared is None else (*found, *shared)
