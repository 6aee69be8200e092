"""Autocast: which operators take bfloat16 or float16, and which float32, as on PyTorch's GPUs.

Kernels of the key that autocast adds cast the tensors and run the operator without it. Sums are in
float32 whatever the storage is, so the lists are about range and rounding of what is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from clprim.ops.registry import OPERATORS
from clprim.torch import dispatcher, private, table


# Products are most of the arithmetic, and storage is what they wait for; float32 is for what
# overflows or loses digits in short formats.
def _casting(overload: Any, choose: Callable[[list[torch.Tensor]], torch.dtype]) -> Any:
    def run(*args: Any, **options: Any) -> Any:
        found: list[torch.Tensor] = []

        def look(value: Any) -> Any:
            if _is_castable(value):
                found.append(value)
            return value

        tree_map(look, (args, options))
        kind = choose(found) if found else None

        def cast(value: Any) -> Any:
            return value.to(kind) if _is_castable(value) else value

        if kind is not None:
            args, options = tree_map(cast, (args, options))
        with torch._C._DisableAutocast():
            return overload(*args, **options)

    return run


def _is_castable(value: Any) -> bool:
    """Whether autocast may change a value: floating tensors of the device, but for float64."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == private.NAME
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _lower(_: list[torch.Tensor]) -> torch.dtype:
    return torch.get_autocast_dtype(private.NAME)


def _float32(_: list[torch.Tensor]) -> torch.dtype:
    return torch.float32


def _widest(found: list[torch.Tensor]) -> torch.dtype:
    kind = found[0].dtype
    for tensor in found[1:]:
        kind = torch.promote_types(kind, tensor.dtype)
    return kind


def _lowered(value: torch.Tensor) -> torch.Tensor:
    return value.to(_lower([])) if _is_castable(value) else value


_CHOICES = {"lower": _lower, "float32": _float32, "widest": _widest}


def register() -> None:
    """Registers what records of operators say; all others run as they are called."""
    import clprim.ops  # noqa: F401 - which registers them

    for operator, facts in OPERATORS.items():
        if facts.autocast:
            kind, *names = facts.autocast.split()
            for name in names or [operator]:
                overload = table.overload(name)
                if overload is not None:
                    dispatcher.register_autocast(name, _casting(overload, _CHOICES[kind]))
    private.allow_flex_attention(_lowered)
    dispatcher.autocast_falls_through()
