"""What `torch.set_float32_matmul_precision` says of products on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from clprim.options import current_options, options


def precise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a kernel of products compute them as exactly as PyTorch's word asks for."""

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        told = torch.get_float32_matmul_precision()
        if told == current_options().matmul_precision:
            return function(*args, **given)
        with options(matmul_precision=told):
            return function(*args, **given)

    return run
