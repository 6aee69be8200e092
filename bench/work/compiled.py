"""What clprim makes of a network, a training step, a function: the contender called ``clprim``.

The one place that says how: all commands that measure whole computations ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clprim as cp


def compiled_network(model: Any) -> Callable[[Any], Any]:
    """Return a network as users are told to run it on the device.

    Args:
        model: In eval mode, on the device; it stays as it is.
    """
    import clprim.torch

    return clprim.torch.fuse(model)


def compiled_step(step: Any) -> Callable[[], Any]:
    """Return a training step whose forward and backward pass are compiled.

    Args:
        step: A `bench.work.step.TrainingStep` on the device.
    """
    found: Callable[[], Any] = step.compiled("clprim")
    return found


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function over arrays as one computation.

    Args:
        function: As users write it.
    """
    return cp.jit(function)
