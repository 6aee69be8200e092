"""Tensors of the host in graphs that run on the device: moved there, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from clprim.plan.strides import Operand, dense_strides, overlaps_itself
from clprim.torch import private
from clprim.torch.parts import Lies, is_written, lies_of
from clprim.torch.tensors import on_device

_HERE = torch.device("cpu")
_BYTE = np.dtype(np.uint8)


def to_device(values: dict[fx.Node, Any], besides: Container[fx.Node]) -> None:
    """Replaces tensors of the host by copies on the device; numbers go there together."""
    numbers: dict[torch.dtype, list[fx.Node]] = defaultdict(list)
    for node, value in values.items():
        if isinstance(value, torch.Tensor) and not on_device(value) and node not in besides:
            if value.ndim:
                values[node] = value.detach().to(private.NAME)
            else:
                numbers[value.dtype].append(node)
    for nodes in numbers.values():
        there = torch.stack([values[node].detach() for node in nodes]).to(private.NAME)
        values.update(zip(nodes, there.unbind(), strict=True))


def laid_out(node: fx.Node, found: Any) -> Any:
    """Returns results as the graph was told that they lie: the CPU's kernels differ in places."""
    told = lies_of(node)
    if isinstance(found, torch.Tensor) and isinstance(told, Lies) and not is_written(node):
        return _laid_out(told, found)
    if isinstance(found, (list, tuple)) and isinstance(told, list):
        both = zip(told, found, strict=True)
        return type(found)(
            _laid_out(t, f) if isinstance(f, torch.Tensor) and t is not None else f for t, f in both
        )
    return found


def in_order(node: fx.Node, found: Any) -> Any:
    """Returns an argument in the order of dimensions that the graph was told, without gaps."""
    told = lies_of(node)
    if not isinstance(found, torch.Tensor) or not isinstance(told, Lies):
        return found
    return _laid_out(told, found, gaps=False)


def _laid_out(lies: Lies, found: torch.Tensor, *, gaps: bool = True) -> torch.Tensor:
    wanted, strides = lies.strides, found.stride()
    if wanted is None:
        return found  # sizes that are not known before
    rows = zip(found.shape, strides, wanted, strict=True)
    if strides == wanted or all(size == 1 or have == want for size, have, want in rows):
        return found
    told = Operand(tuple(found.shape), wanted, 0, _BYTE)
    if 0 in found.shape or overlaps_itself(told):
        return found  # elements that are repeated
    if not gaps:
        order = sorted(range(found.ndim), key=wanted.__getitem__, reverse=True)
        wanted = dense_strides(found.shape, 1, order)
    return torch.empty_strided(found.shape, wanted, dtype=found.dtype, device=found.device).copy_(
        found
    )


class Moved:
    """A graph of the CPU's tensors that runs on the device."""

    def __init__(
        self, module: fx.GraphModule, weights: Iterable[fx.Node], *, frozen: bool = False
    ) -> None:
        graph = module.graph
        self._device = torch.device(private.NAME)
        given = [n for n in graph.nodes if n.op == "placeholder"]
        self._weights = [n in set(weights) for n in given]
        self._known: dict[int, tuple[torch.Tensor, int, int]] = {}
        written = {n.args[0] for n in graph.nodes if n.op == "call_function" and is_written(n)}
        self._written = [n for n, node in enumerate(given) if node in written]
        self._frozen = frozen
        self._places = {node: n for n, node in enumerate(given)}
        self._there: list[Any] = []
        for node in graph.nodes:
            if node.op == "call_function":
                self._redirect(node)
        for inner in module.modules():
            if isinstance(inner, fx.GraphModule) and inner is not module:
                self._move(inner)

    def _move(self, inner: fx.GraphModule) -> None:
        """Moves what `cond`, `scan` and their like call, with its constants."""
        for node in inner.graph.nodes:
            if node.op == "call_function":
                self._redirect(node)
            elif node.op == "get_attr":
                place, _, name = str(node.target).rpartition(".")
                owner = inner.get_submodule(place)
                with unset_fake_temporarily():
                    setattr(owner, name, self.constant(getattr(owner, name)))
        inner.recompile()

    def _redirect(self, node: fx.Node) -> None:
        """Lets a node make its tensors on the device."""
        schema = getattr(node.target, "_schema", None)
        takes = schema is not None and any(a.name == "device" for a in schema.arguments)
        if takes and (node.kwargs.get("device") is not None or not node.all_input_nodes):
            node.kwargs = {**node.kwargs, "device": self._device}
        if takes and node.kwargs.get("pin_memory"):
            node.kwargs = {**node.kwargs, "pin_memory": False}

    def constant(self, value: Any) -> Any:
        """Returns a constant of the graph, on the device."""
        return value.to(self._device) if isinstance(value, torch.Tensor) else value

    def there(self, given: Sequence[Any]) -> list[Any]:
        """Returns arguments on the device; what is there stays."""
        self._there = [
            self._weight(n, value) if self._weights[n] else _moved(value, self._device)
            for n, value in enumerate(given)
        ]
        return [*self._there]

    def _weight(self, n: int, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or on_device(value):
            return value
        known = self._known.get(n)
        if self._frozen and known is not None and n not in self._written:
            return known[0]
        place = value.data_ptr()
        version = -1 if value.is_inference() else value._version
        if known is not None and known[1:] == (place, version) and version >= 0:
            return known[0]
        # Whether writes are counted, and something may be kept, is as it is with the parameter.
        with torch.inference_mode(value.is_inference()), torch.no_grad():
            if known is None or known[0].shape != value.shape or known[0].dtype != value.dtype:
                made = value.detach().to(self._device)
            else:
                made = known[0].copy_(value)
        self._known[n] = made, place, version
        return made

    def back(
        self,
        given: Sequence[Any],
        results: list[Any],
        nodes: Sequence[Any],
        returned: int | None,
    ) -> list[Any]:
        """Returns results on the CPU, and brings back what was written to arguments."""
        for n in self._written:
            here, there = given[n], self._there[n]
            if not on_device(here):
                with torch.no_grad():
                    here.copy_(there)
                if n in self._known:
                    version = -1 if here.is_inference() else here._version
                    self._known[n] = self._known[n][0], here.data_ptr(), version
        self._there = []
        found, there = [*results], {}
        for k, (value, node) in enumerate(zip(results, nodes, strict=True)):
            if returned is not None and k >= returned:
                break
            place = self._places.get(node) if isinstance(node, fx.Node) else None
            if place is not None:
                found[k] = given[place]
            elif isinstance(value, torch.Tensor) and not value.is_meta:
                there[k] = value
        for k, value in _downloaded(there).items():
            found[k] = value
        return found


def _downloaded(values: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Returns copies on the CPU, which share memory where they shared it."""
    shared: dict[int, list[int]] = defaultdict(list)
    for k, value in values.items():
        shared[value.untyped_storage().data_ptr()].append(k)
    found = {}
    for address, several in shared.items():
        if not address or len(several) == 1:
            found.update({k: values[k].to(_HERE) for k in several})
            continue
        first = values[several[0]]
        flat = private.restride(first, (first.untyped_storage().nbytes() // first.itemsize,), (1,))
        storage = flat.to(_HERE).untyped_storage()
        for k in several:
            lies = values[k].storage_offset(), values[k].shape, values[k].stride()
            found[k] = torch.empty(0, dtype=values[k].dtype).set_(storage, *lies)
    return found


def _moved(value: Any, device: torch.device) -> Any:
    if not isinstance(value, torch.Tensor) or on_device(value):
        return value
    return value.detach().to(device)
