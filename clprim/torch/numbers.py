"""Further devices: ``opencl:1`` and so on.

``opencl:0`` is clprim's current device, the others are the rest of `clprim.devices` in its order.
PyTorch's interface for devices written in Python knows the first alone: tensors of the others are
made by way of `private.empty_tensor_on`. Until the first such tensor no kernel asks where its
tensors are; then all are registered anew, and run on the device that these are on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from clprim.arrays.array import Array
from clprim.errors import DeviceError
from clprim.runtime.device import Device, current_device, device_of, devices, on
from clprim.torch import dispatcher, private
from clprim.torch.tensors import download, on_device, placement

_BARE = torch.device(private.NAME)
_lock = threading.RLock()
_order: list[Device] = []
_of_context: dict[int, int] = {}


def _all() -> list[Device]:
    """The devices by number, as they are or will be."""
    return _order or _listed(current_device())


@lru_cache
def _listed(first: Device) -> list[Device]:
    return [first, *(other for other in devices() if other != first)]


def check(number: int | None) -> int:
    """Returns a device's number; none stands for the first."""
    found = _all()
    if number is None:
        return 0
    if not 0 <= number < len(found):
        listing = "".join(f"\n  {private.NAME}:{n}: {d}" for n, d in enumerate(found))
        raise DeviceError(f"{private.NAME}:{number}: there is no such device, but{listing}")
    return number


def device(number: int | None) -> Device:
    """Returns clprim's device of a number."""
    number = check(number)
    return _all()[number]


def opened() -> list[Device]:
    """The devices that tensors have been on."""
    return _order or [current_device()]


def number_of_array(array: Array) -> int:
    """Returns the number of the device that an array is on."""
    context: Any = array.context
    number = _of_context.get(context.int_ptr)
    if number is None:
        found = device_of(context)
        number = _order.index(found) if found in _order else 0
        _of_context[context.int_ptr] = number
    return number


def begin(number: int | None = None) -> None:
    """Lets tensors be on every device from now on."""
    check(number)
    with _lock:
        if not _order:
            _order.extend(_all())
            placement.number_of = number_of_array
            dispatcher.wrap_kernels(_placed)


def _number(values: Any, found: int | None) -> int | None:
    """Returns the number of the device that tensors are on, those in lists too."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.device.type == private.NAME:
            if found is not None and value.device.index != found:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two "
                    f"devices, {private.NAME}:{found} and {value.device}!"
                )
            found = value.device.index
        elif type(value) in (list, tuple):
            found = _number(value, found)
    return found


def run_on(tensors: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Runs a function on the device of tensors."""
    if not _order:
        return function(*args, **options)
    with on(_order[_number(tensors, None) or 0]):
        return function(*args, **options)


def _placed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a kernel that runs on the device of its tensors, or on the one that is asked for."""
    if name == "_to_copy":
        return _converted(function)
    if name in ("_copy_from", "_copy_from_and_resize"):
        return _copied(function)

    def run(*args: Any, **options: Any) -> Any:
        wanted = options.get("device")
        if wanted is not None and wanted.type == private.NAME:
            number: int | None = check(wanted.index)
            options["device"] = _BARE
        else:
            number = _number(options.values(), _number(args, None))
        with on(_order[number or 0]):
            return function(*args, **options)

    return run


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(source: torch.Tensor, target: torch.Tensor, *rest: Any) -> Any:
        both = on_device(source) and on_device(target)
        if both and source.device != target.device:
            source = download(source)
        number = _number((source, target), None)
        with on(_order[number or 0]):
            return function(source, target, *rest)

    return run


def _converted(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor, *, device: Any = None, **options: Any) -> Any:
        number = _number((x,), None)
        if device is not None and torch.device(device).type == private.NAME:
            wanted = check(torch.device(device).index)
            if number is not None and number != wanted:
                x = download(x)
            number, device = wanted, _BARE
        with on(_order[number or 0]):
            return function(x, device=device, **options)

    return run
