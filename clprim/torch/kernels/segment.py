"""Reductions of segments, whose lengths or bounds are tensors: of scatters, of one segment more.

What lies in none goes to that one, which is cut off.
"""

from __future__ import annotations

from typing import Any

import torch

from clprim.torch.table import kernel

# What a segment starts with, and how an element is added.
_STEPS: dict[str, tuple[float, Any]] = {
    "sum": (0.0, "sum"),
    "mean": (0.0, "sum"),
    "prod": (1.0, "prod"),
    "max": (-torch.inf, "amax"),
    "min": (torch.inf, "amin"),
}


class _Segments:
    """Which segment the elements of an axis are in, and the number of elements in each."""

    def __init__(self, a: Any) -> None:
        x, self.axis = a.data, a.axis
        if a.reduce not in _STEPS:
            raise RuntimeError(
                f"segment_reduce: reduce={a.reduce!r}: expected one of {', '.join(_STEPS)}"
            )
        if not x.is_floating_point() or not -x.ndim <= self.axis < x.ndim:
            raise RuntimeError(
                f"segment_reduce: expected floating numbers and one of their axes, got {x.dtype} "
                f"of shape {tuple(x.shape)} and axis={self.axis}"
            )
        self.axis %= x.ndim
        bounds, lead = a.lengths if a.offsets is None else a.offsets, x.shape[: self.axis]
        if bounds is None:
            raise RuntimeError("segment_reduce: expected lengths or offsets")
        if bounds.dtype.is_floating_point or not bounds.ndim or bounds.shape[:-1] != lead:
            raise RuntimeError(
                f"segment_reduce: expected lengths or offsets of integers for axis={self.axis} of "
                f"data {tuple(x.shape)}, got {bounds.dtype} of shape {tuple(bounds.shape)}"
            )
        if a.offsets is None:
            bounds = torch.nn.functional.pad(bounds.long().cumsum(-1), (1, 0))
        self.bounds, self.count = bounds.long(), bounds.shape[-1] - 1
        places = torch.arange(x.shape[self.axis], device=x.device).expand(*lead, -1).contiguous()
        found = torch.searchsorted(self.bounds, places, right=True) - 1
        self.index = self._spread(found % (self.count + 1), x)

    def _spread(self, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Numbers of an axis along those behind it."""
        rest = x.shape[self.axis + 1 :]
        return values.reshape(*values.shape, *[1] * len(rest)).expand(*values.shape, *rest)

    def sizes(self, x: torch.Tensor) -> torch.Tensor:
        """How many elements each has."""
        return self._spread(self.bounds.diff(), x)

    def reduced(self, x: torch.Tensor, start: float, how: Any) -> torch.Tensor:
        """What comes of the elements of each, in the dtype that sums are added up in."""
        shape = (*x.shape[: self.axis], self.count + 1, *x.shape[self.axis + 1 :])
        found = x.new_full(shape, start).scatter_reduce(self.axis, self.index, x, how)
        return found.narrow(self.axis, 0, self.count)

    def read(self, values: torch.Tensor) -> torch.Tensor:
        """What the segment of each element has; of those in none 0."""
        one = values.new_zeros(()).expand(
            *values.shape[: self.axis], 1, *values.shape[self.axis + 1 :]
        )
        return torch.cat([values, one], self.axis).gather(self.axis, self.index)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.itemsize < 4 else x


@kernel("segment_reduce", named=True, tensors=True)
def _segment_reduce(a: Any) -> Any:
    if a.indices is not None:
        raise RuntimeError("segment_reduce: indices are not supported; give lengths or offsets")
    x, segments = _wide(a.data), _Segments(a)
    if a.offsets is None and not a.unsafe and a.lengths.numel():
        size = a.data.shape[segments.axis]
        if int(a.lengths.min()) < 0:
            raise RuntimeError("segment_reduce: lengths contains negative value!")
        if not bool((segments.bounds[..., -1] == size).all()):
            raise RuntimeError(
                f"segment_reduce: expected lengths that add up to {size}, the size of dimension "
                f"{segments.axis}"
            )
    start, how = _STEPS[a.reduce]
    found = segments.reduced(x, start if a.initial is None else float(a.initial), how)
    if a.reduce == "mean":
        sizes = segments.sizes(x)
        found = found / (sizes if a.initial is None else sizes.clamp(min=1))
    return found.to(a.data.dtype)


@kernel("_segment_reduce_backward", named=True, tensors=True)
def _segment_reduce_backward(a: Any) -> Any:
    segments = _Segments(a)
    grad, output, x = map(_wide, (a.grad, a.output, a.data))
    slope = segments.read(grad)
    if a.reduce == "mean":
        slope = slope / segments.read(segments.sizes(x)).clamp(min=1)
    elif a.reduce == "prod":
        # Where a product cannot be divided by an element, it is made without.
        holes = (x == 0) | x.isnan()
        start = 1.0 if a.initial is None else float(a.initial)
        rest = segments.reduced(x.masked_fill(holes, 1), start, "prod")
        alone = segments.read(segments.reduced(holes.to(x.dtype), 0, "sum")) == 1
        whole = segments.read(output)
        slope = slope * torch.where(
            holes, torch.where(alone, segments.read(rest), whole), whole / x
        )
    elif a.reduce in ("max", "min"):
        # An equal element may occur more than once: all share the gradient.
        same = (segments.read(output) == x) | x.isnan()
        members = segments.read(segments.reduced(same.to(x.dtype), 0, "sum"))
        slope = torch.where(same, slope / members, 0)
    return slope.to(a.data.dtype)
