"""Saving, loading and deep copies: storages of the device have no bytes that PyTorch could read.

A tensor is saved as its copy on the host, whose storage says where it was; ``map_location=``
decides as ever where it comes to.
"""

from __future__ import annotations

from typing import Any

import torch

from clprim.torch import private
from clprim.torch.memory import on_device


def _reduce(original: Any) -> Any:
    def reduce(tensor: torch.Tensor, protocol: Any) -> Any:
        if on_device(tensor) and type(tensor) is torch.Tensor:
            host = tensor.detach().cpu()
            private.storage_of(host).clprim_location = str(tensor.device)
            return original(host.requires_grad_(tensor.requires_grad), protocol)
        return original(tensor, protocol)

    return reduce


def _location(storage: Any) -> str | None:
    """Where a storage that is saved was; None of others than the device's."""
    found: str | None = getattr(storage, "clprim_location", None)
    return found


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
    host = torch.empty(0, dtype=torch.uint8).set_(storage)
    return private.storage_of(host.to(location))


def _set_from_file(original: Any) -> Any:
    """Storages of the old format, which pickle uses as well, are filled after they are made."""

    def fill(storage: Any, *args: Any) -> Any:
        if storage.device.type != private.NAME:
            return original(storage, *args)
        target = torch.empty(0, dtype=torch.uint8, device=storage.device)
        size = storage.clprim.root.size
        host = torch.UntypedStorage(size)
        original(host, *args)
        target.set_(storage, 0, (size,), (1,))
        target.copy_(torch.empty(0, dtype=torch.uint8).set_(host))
        return storage

    return fill


def _data_ptr(original: Any) -> Any:
    def data_ptr(storage: Any) -> Any:
        return 0 if storage.device.type == private.NAME else original(storage)

    return data_ptr


def register() -> None:
    """Lets PyTorch save, load and copy tensors of the device."""
    private.replace_method("__reduce_ex__", _reduce)
    private.replace_method("__deepcopy__", _deepcopy)
    private.replace_method("data_ptr", _data_ptr, torch.UntypedStorage)  # torch.load asks for it
    private.replace_method("_set_from_file", _set_from_file, torch.UntypedStorage)
    # Before PyTorch's own entry for the device, which asks storages for their bytes.
    torch.serialization.register_package(5, _location, _restore)
