"""Storages of the device as PyTorch's own: made by their size, resized, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from clprim.errors import DeviceError
from clprim.torch import dispatcher, memory, private

_aten = torch.ops.aten


def _made(original: Any) -> Any:
    def new(cls: Any, *args: Any, device: Any = None, **options: Any) -> Any:
        if device is None or torch.device(device).type != private.NAME:
            return original(cls, *args, **options, **({} if device is None else {"device": device}))
        given = args[0] if args else options.pop("size", 0)
        if options or len(args) > 1:
            raise TypeError("UntypedStorage: expected one size or sequence, and a device")
        if isinstance(given, int):
            tensor = torch.empty(given, dtype=torch.uint8, device=device)
        else:
            tensor = torch.tensor(list(given), dtype=torch.uint8, device=device)
        return tensor.untyped_storage()

    return staticmethod(new)


def _on_device(storage: Any) -> bool:
    return bool(storage.device.type == private.NAME)


def _resized(original: Any) -> Any:
    def resize_(storage: Any, size: int) -> Any:
        if not _on_device(storage):
            return original(storage, size)
        if size < 0:
            raise RuntimeError(f"resize_: expected a size of at least 0, got {size}")
        if size != storage.nbytes():
            memory.resize(storage, size)
        return storage

    return resize_


def _written(original: Any) -> Any:
    def write(storage: Any, *args: Any) -> Any:
        return original(storage.cpu() if _on_device(storage) else storage, *args)

    return write


def _read(original: Any) -> Any:
    """Storages of the old format, which pickle uses as well, are filled after they are made."""

    def fill(storage: Any, *args: Any) -> Any:
        if not _on_device(storage):
            return original(storage, *args)
        host = torch.UntypedStorage(storage.nbytes())
        original(host, *args)
        return storage.copy_(host)

    return fill


def _swapped(original: Any) -> Any:
    def byteswap(storage: Any, *args: Any) -> Any:
        if not _on_device(storage):
            return original(storage, *args)
        host = storage.cpu()
        original(host, *args)
        storage.copy_(host)
        return None

    return byteswap


def _empty(original: Any) -> Any:
    def new(storage: Any) -> Any:
        if _on_device(storage):
            return torch.UntypedStorage(0, device=storage.device)
        return original(storage)

    return new


def _sent(storage: Any) -> Any:
    """What another process is given of a storage."""
    if _on_device(storage):
        raise DeviceError(
            f"tensors on {storage.device} cannot be shared with or sent to another process; "
            "send x.cpu() and move it there"
        )
    return reductions.reduce_storage(storage)


def set_storage(
    x: torch.Tensor,
    source: Any,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int] | None = None,
) -> torch.Tensor:
    """Lets a tensor see a storage, which grows where the tensor reaches beyond it."""
    if not stride:
        stride = torch.empty(size, device="meta").stride()
    if _on_device(source) and 0 not in size and min(stride, default=0) >= 0 <= offset:
        needed = (offset + memory.reach(size, stride)) * x.element_size()
        if needed > source.nbytes():
            memory.resize(source, needed)
    _aten.set_.source_Storage_storage_offset.redispatch(
        private.META, x, source, offset, list(size), list(stride)
    )
    return x


def _set_whole(x: torch.Tensor, source: Any) -> torch.Tensor:
    return set_storage(x, source, 0, (source.nbytes() // x.element_size(),), (1,))


def _set_empty(x: torch.Tensor) -> torch.Tensor:
    return _set_whole(x, torch.empty(0, dtype=x.dtype, device=x.device).untyped_storage())


def register() -> None:
    """Lets PyTorch make, resize, save and load storages of the device."""
    kind: Any = torch.UntypedStorage
    kind.__new__ = _made(kind.__new__)
    for name, make in (
        ("resize_", _resized),
        ("_write_file", _written),
        ("_set_from_file", _read),
        ("_byteswap", _swapped),
        ("new", _empty),
    ):
        private.replace_method(name, make, kind)
    ForkingPickler.register(kind, _sent)
    dispatcher.register_kernel("set_.source_Storage_storage_offset", set_storage)
    dispatcher.register_kernel("set_.source_Storage", _set_whole)
    dispatcher.register_kernel("set_", _set_empty)
    dispatcher.register_kernel("is_set_to", private.alias(_aten.is_set_to.default, private.CPU))
