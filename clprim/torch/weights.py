"""Tensors that functions read beside their arguments: parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from clprim.call.packed import PackedWeight
from clprim.graph.graph import Buffer, buffer_of
from clprim.graph.trace import Trace
from clprim.torch.tensors import array_of


class Weights:
    """Tensors that a function reads beside its arguments; as a rule they stay where they are."""

    def __init__(
        self, tensors: Sequence[torch.Tensor] = (), *, kept: bool = True, frozen: bool = False
    ) -> None:
        self.tensors = [*tensors]
        self.kept, self.frozen = kept, frozen
        self._places = _addresses(self.tensors)
        self._packed: dict[int, PackedWeight] = {}
        self.first: dict[int, int] = {}
        self.uncounted = False

    def now(self, tensors: Sequence[torch.Tensor]) -> Weights:
        """Returns these for a call with tensors, or others where one of them lies elsewhere."""
        if self.frozen and self.tensors:
            return self
        # No two storages have one address.
        if _addresses(tensors) == self._places:
            self.tensors = [*tensors]
            return self
        return Weights(tensors, kept=self.kept, frozen=self.frozen)

    def bound(self, trace: Trace, written: set[Buffer]) -> list[Buffer]:
        """Returns their buffers, and lets those stay that nothing in a trace writes."""
        found = []
        for n, tensor in enumerate(self.tensors):
            array = array_of(tensor)
            buffer = buffer_of(trace.operand(array))
            found.append(buffer)
            stays = self.kept and array.size and buffer.kind == "constant"
            if stays and buffer not in written:
                if tensor.is_inference() and not self.frozen:
                    self.uncounted = True
                    continue
                packed = self._packed.setdefault(id(array.base_data), PackedWeight(array))
                buffer.weight = buffer.weight or packed
                if not self.frozen:
                    self.first.setdefault(n, tensor._version)
        return found


def _addresses(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [*map(torch.Tensor.data_ptr, tensors)]  # a subclass has no other one
