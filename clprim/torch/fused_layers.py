"""The layers that `fuse` puts into a network: PyTorch's own wherever they cannot do a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from clprim import ops
from clprim.arrays.array import Array
from clprim.ops.elementwise.table import ROWS
from clprim.plan.strides import is_channels_last
from clprim.torch import private
from clprim.torch.memory import adopt, array_of, on_device
from clprim.torch.numbers import run_on

# The strings of `clprim.ops`, on what the layer has computed.
_EPILOGUES = {
    "": "",
    **{
        name: re.sub(r"\bx0\b", "y0", ROWS[name].text())
        for name in ("relu", "relu6", "silu", "sigmoid", "hardswish", "hardsigmoid")
    },
}


def _differentiated(*tensors: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def whole_of(part: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """Returns the tensor of a shape whose channels a part is some of, or None where it is not."""
    if not on_device(part) or part.ndim != 4:
        return None
    n, channels, height, width = shape
    steps = {
        torch.contiguous_format: (channels * height * width, height * width, width, 1),
        torch.channels_last: (channels * height * width, 1, channels * width, channels),
    }
    size = n * channels * height * width * part.element_size()
    if private.storage_of(part).clprim.nbytes < size or part.shape[2:] != (height, width):
        return None
    found = next((s for s in steps.values() if s == part.stride()), None)
    return None if found is None or part.shape[0] != n else part.as_strided(shape, found, 0)


class FusedConv2d(nn.Module):  # type: ignore[misc]
    """A convolution whose kernel adds another tensor and applies an activation before it stores.

    Its weight is packed once, and again where it was replaced or written to (not by ``.data``,
    which PyTorch does not count).

    Args:
        conv: The convolution, batch normalisation folded into it.
        activation: Empty, or the name of a function of ``torch.nn.functional``.
    """

    def __init__(self, conv: Any, activation: str = "") -> None:
        super().__init__()
        self.conv, self.activation = conv, activation
        # Its first channel in a concatenation, and how many that has.
        self.place: tuple[int, int] | None = None
        self._packed: tuple[Any, int, Any] | None = None  # of which memory and version

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_packed": None}

    def extra_repr(self) -> str:
        """What is done beside the convolution."""
        return f"activation={self.activation!r}"

    def forward(
        self,
        x: torch.Tensor,
        other: torch.Tensor | None = None,
        room: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns the activation of the convolution and, where given, another tensor's sum.

        Args:
            x: Images.
            other: What is added.
            room: The part that made room for a concatenation, if this one has a place there.
        """
        conv = self.conv
        usable = on_device(x) and x.ndim == 4 and not _differentiated(x, other, *self.parameters())
        if not usable or not self._fits(x, other):
            y = conv(x) if other is None else conv(x) + other
            return getattr(nn.functional, self.activation)(y) if self.activation else y
        return run_on((x, other), self._run, x, other, room)

    def _run(
        self, x: torch.Tensor, other: torch.Tensor | None, room: torch.Tensor | None
    ) -> torch.Tensor:
        conv, given = self.conv, array_of(x)
        made = None if self.place is None else self._room(x, given, room)
        found = ops.conv2d(
            given,
            self._weight(),
            None if conv.bias is None else array_of(conv.bias),
            stride=conv.stride,
            padding=conv.padding,
            dilation=conv.dilation,
            groups=conv.groups,
            epilogue=("" if other is None else "y0 += x0; ") + _EPILOGUES[self.activation] or None,
            epilogue_args=() if other is None else (array_of(other),),
            out=None if made is None else array_of(made),
        )
        return adopt(found) if made is None else made

    def _room(self, x: torch.Tensor, given: Array, room: torch.Tensor | None) -> torch.Tensor:
        """The part of a concatenation that the result is written to."""
        assert self.place is not None
        n, channels, *size = self._shape(x)
        start, count = self.place
        shape = (n, count, *size)
        last = is_channels_last(given.shape, given.strides)
        order = torch.channels_last if last else torch.contiguous_format
        whole = None if room is None else whole_of(room, shape)
        if whole is None or whole.dtype is not x.dtype:
            whole = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=order)
        return whole.narrow(1, start, channels)

    def _weight(self) -> Any:
        weight = self.conv.weight
        if weight.is_inference():  # PyTorch does not count what is written to it
            return array_of(weight)
        memory, version = private.storage_of(weight).clprim, weight._version
        packed = self._packed
        if packed is None or packed[0] is not memory or packed[1] != version:
            made = ops.pack_weight(array_of(weight), groups=self.conv.groups)
            self._packed = packed = memory, version, made
        return packed[2]

    def _shape(self, x: torch.Tensor) -> list[int]:
        """The result's."""
        conv, shape = self.conv, [x.shape[0], self.conv.out_channels]
        for d in range(2):
            room = x.shape[d + 2] + 2 * conv.padding[d]
            reach = conv.dilation[d] * (conv.kernel_size[d] - 1) + 1
            shape.append((room - reach) // conv.stride[d] + 1)
        return shape

    def _fits(self, x: torch.Tensor, other: torch.Tensor | None) -> bool:
        """Whether a tensor has the result's dtype and shape, so that its sum broadcasts nothing."""
        return other is None or (other.dtype == x.dtype and list(other.shape) == self._shape(x))


class FusedMaxPool2d(nn.Module):  # type: ignore[misc]
    """Maxima of windows without their positions, which a gradient alone needs.

    Args:
        pool: PyTorch's.
    """

    def __init__(self, pool: Any) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: torch.Tensor) -> Any:
        """Returns what PyTorch's pooling does."""
        p = self.pool
        if not on_device(x) or x.ndim != 4 or p.return_indices or _differentiated(x):
            return p(x)
        stride = p.kernel_size if p.stride is None else p.stride
        how = p.kernel_size, stride, p.padding, p.dilation, p.ceil_mode
        return adopt(run_on((x,), ops.max_pool2d, array_of(x), *how))


class FusedConcat(nn.Module):  # type: ignore[misc]
    """A concatenation of channels, most of which lie where they belong already."""

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        """Returns ``torch.cat(parts, 1)``."""
        n, _, *size = parts[0].shape if parts[0].ndim == 4 else (0, 0)
        whole = whole_of(parts[0], (n, sum(p.shape[1] for p in parts), *size)) if size else None
        if whole is None or _differentiated(*parts):
            return torch.cat(parts, 1)
        start = 0
        for part in parts:
            there = whole.narrow(1, start, part.shape[1])
            if not (
                on_device(part)
                and private.storage_of(part).clprim is private.storage_of(whole).clprim
                and part.storage_offset() == there.storage_offset()
                and (part.shape, part.stride()) == (there.shape, there.stride())
            ):
                return torch.cat(parts, 1)
            start += part.shape[1]
        return whole
