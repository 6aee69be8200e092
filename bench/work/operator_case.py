"""A row of ``python -m bench ops``: an operator, its arguments, and PyTorch's call for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Sequence[Any]]

#: The family whose rows are held against the device's bandwidth.
MEMORY = "memory-bound"
# Four dimensions that are no image.
_NO_IMAGES = ("attention", "Adam")


@dataclass(frozen=True)
class Input:
    """One argument.

    Attributes:
        shape: Of it.
        below: 0 for normal float32 numbers, else integers from 0 up to it; 2 for booleans.
    """

    shape: tuple[int, ...]
    below: int = 0


@dataclass(frozen=True)
class OpCase:
    """One row, in one memory format or in both.

    Attributes:
        family: The table that it stands in.
        title: For readers.
        inputs: Of both calls.
        own: Takes arrays, returns the call that is measured.
        theirs: Likewise of PyTorch's tensors.
        ceiling: ``copy`` or ``read`` where bandwidth is the bound, else empty.
    """

    family: str
    title: str
    inputs: tuple[Input, ...]
    own: Callable[..., Call]
    theirs: Callable[..., Call]
    ceiling: str = ""

    @property
    def images(self) -> bool:
        """Whether memory formats differ."""
        return self.family not in _NO_IMAGES and any(
            len(given.shape) == 4 and not given.below for given in self.inputs
        )


def torch_module() -> Any:
    """Return PyTorch, loaded when it is asked for."""
    import torch

    return torch


def functional() -> Any:
    """Return ``torch.nn.functional``."""
    return torch_module().nn.functional


def plain(own: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[Any, Any]:
    """Calls of functions that return one array."""
    return (
        lambda *given: lambda: (own(*given),),
        lambda *given: lambda: (theirs(*given),),
    )


def gradient(forward: Callable[..., Any]) -> Callable[..., Call]:
    """PyTorch's backward of a function; the gradient in its result comes first."""

    def prepare(grad: Any, *given: Any) -> Call:
        leaves = [t.detach().requires_grad_() for t in given if t.is_floating_point()]
        left = iter(leaves)
        result = forward(*(next(left) if t.is_floating_point() else t for t in given))
        backward = torch_module().autograd.grad
        return lambda: backward(result, leaves, grad, retain_graph=True)

    return prepare
