"""Saving, loading and deep copies: storages of the device have no bytes that PyTorch could read.

A tensor is saved as its copy on the host, and comes back to the device; ``map_location="opencl"``
brings tensors there that were saved from elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from clprim.torch import private
from clprim.torch.memory import adopt, on_device, upload, upload_bytes

__all__ = ["register"]


def rebuild(host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """Returns a saved tensor of the device."""
    found = host if on_device(host) else upload(host)  # map_location= may have brought it there
    return found.requires_grad_(requires_grad)


def _reduce(original: Any) -> Any:
    def reduce(tensor: torch.Tensor, protocol: Any) -> Any:
        if on_device(tensor) and type(tensor) is torch.Tensor:
            return rebuild, (tensor.detach().cpu(), tensor.requires_grad)
        return original(tensor, protocol)

    return reduce


def _deepcopy(original: Any) -> Any:
    def deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
        if not on_device(tensor) or type(tensor) is not torch.Tensor or not tensor.is_leaf:
            return original(tensor, memo)
        if id(tensor) not in memo:
            copied = tensor.detach().clone()
            memo[id(tensor)] = copied.requires_grad_(tensor.requires_grad)
        return memo[id(tensor)]

    return deepcopy


def _restore(storage: Any, location: str) -> Any:
    """Moves a storage that was read from a file to the device, if that is where it is wanted."""
    if location.partition(":")[0] != private.NAME:
        return None
    host = np.frombuffer(bytes(storage), np.uint8)
    return private.storage_of(adopt(upload_bytes(host)))


def register() -> None:
    """Lets PyTorch save, load and copy tensors of the device."""
    private.replace_method("__reduce_ex__", _reduce)
    private.replace_method("__deepcopy__", _deepcopy)
    torch.serialization.add_safe_globals([rebuild])
    # Before PyTorch's own entry for the device, which asks storages for their bytes.
    torch.serialization.register_package(5, lambda _: None, _restore)
