"""Storages of the device as PyTorch's own: made by their size, resized, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from clprim.errors import DeviceError
from clprim.torch import dispatcher, private
from clprim.torch.tensors import reach, resize

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


def _of_device(function: Any) -> Any:
    """Makes a method that is a function of the original one and of storages of the device."""

    def make(original: Any) -> Any:
        def method(storage: Any, *args: Any) -> Any:
            if not _on_device(storage):
                return original(storage, *args)
            return function(original, storage, *args)

        return method

    return make


def _resize(_: Any, storage: Any, size: int) -> Any:
    if size < 0:
        raise RuntimeError(f"resize_: expected a size of at least 0, got {size}")
    if size != storage.nbytes():
        resize(storage, size)
    return storage


def _fill(original: Any, storage: Any, *args: Any) -> Any:
    """Storages of the old format, which pickle uses as well, are filled after they are made."""
    host = torch.UntypedStorage(storage.nbytes())
    original(host, *args)
    return storage.copy_(host)


def _swap(original: Any, storage: Any, *args: Any) -> None:
    host = storage.cpu()
    original(host, *args)
    storage.copy_(host)


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
        needed = (offset + reach(size, stride)) * x.element_size()
        if needed > source.nbytes():
            resize(source, needed)
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
    for name, function in (
        ("resize_", _resize),
        ("_write_file", lambda original, storage, *args: original(storage.cpu(), *args)),
        ("_set_from_file", _fill),
        ("_byteswap", _swap),
        ("new", lambda _, storage: torch.UntypedStorage(0, device=storage.device)),
    ):
        private.replace_method(name, _of_device(function), kind)
    ForkingPickler.register(kind, _sent)
    dispatcher.register_kernel("set_.source_Storage_storage_offset", set_storage)
    dispatcher.register_kernel("set_.source_Storage", _set_whole)
    dispatcher.register_kernel("set_", _set_empty)
    dispatcher.register_kernel("is_set_to", private.alias(_aten.is_set_to.default, private.CPU))
