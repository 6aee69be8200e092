"""Joining, padding, turning, and elements by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from clprim import ops
from clprim.arrays.array import Array
from clprim.torch import dispatcher
from clprim.torch.agreeing import family
from clprim.torch.copying import cast, duplicate
from clprim.torch.kernels.elementwise import promoted
from clprim.torch.layout import contiguous, format_of, like
from clprim.torch.table import kernel
from clprim.torch.tensors import counted, elsewhere


def _together(values: Sequence[Any]) -> torch.dtype:
    """Returns the dtype of arrays that are joined; none may be a number of the host's."""
    if not all(isinstance(v, Array) for v in values):
        raise elsewhere("cpu")
    return promoted(*values)


@kernel("cat", lies=format_of(0))
def _cat(arrays: Sequence[Array], dim: int = 0) -> Any:
    kind = _together(arrays)
    # PyTorch leaves out what has the shape (0,), whatever the others'.
    wanted = [a for a in arrays if a.shape != (0,)] or arrays[:1]
    return ops.cat([cast(a, kind) for a in wanted], dim)


@kernel("stack", lies=contiguous)
def _stack(arrays: Sequence[Array], dim: int = 0) -> Any:
    kind = _together(arrays)
    return ops.stack([cast(a, kind) for a in arrays], dim)


@kernel("flip", lies=like(0))
def _flip(x: Array, dims: Sequence[int]) -> Any:
    return duplicate(ops.flip(x, tuple(dims))) if x.ndim and dims else duplicate(x)


@kernel("roll", lies=contiguous)
def _roll(x: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not x.size:
        return duplicate(x)
    return ops.roll(x, tuple(shifts) if dims else shifts[0], tuple(dims) if dims else None)


@kernel("repeat", lies=contiguous)
def _repeat(x: Array, repeats: Sequence[int]) -> Any:
    return ops.repeat(x, *repeats)


@family("pad_gradient")
def _pad_gradient(backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(grad: Array, x: Array, padding: Sequence[int], *, mode: str) -> Any:
        return backward(grad, x.shape, tuple(padding), mode)

    return run


def _fake_padding_gradient(_: Any, grad: torch.Tensor, x: torch.Tensor, *rest: Any) -> Any:
    return format_of(1)((grad, x), x.new_empty(x.shape))


def register() -> None:
    """Registers how the gradients of paddings lie, where PyTorch's own say it only on the CPU."""
    for dimensions in (2, 3):
        dispatcher.register_fake(f"replication_pad{dimensions}d_backward", _fake_padding_gradient)


@kernel("gather", lies=contiguous)
def _gather(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Any:
    if (not x.ndim or not index.ndim) and index.size:
        found = ops.gather(x.reshape(-1), 0, counted(index.reshape(-1)))
        return found.reshape(index.shape)
    return ops.gather(x, dim, counted(index))
