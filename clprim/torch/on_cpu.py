"""What has no kernel of clprim's runs on the CPU, with a warning once an operator."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_map

from clprim.errors import DefinitionError, DeviceError
from clprim.torch import private
from clprim.torch.copying import copy_into
from clprim.torch.tensors import array_of, download, on_device, upload

_MODES = ("warn", "error", "silent")
_chosen = ["warn"]
#: How often each overload ran on the CPU.
counts: dict[str, int] = {}


def fallback(mode: str) -> None:
    """Chooses what happens where an operator has no kernel.

    Args:
        mode: ``"warn"``, the default: it runs on the CPU, with a warning the first time;
            ``"silent"``; or ``"error"``, which refuses.

    Raises:
        DefinitionError: Another mode.
    """
    if mode not in _MODES:
        raise DefinitionError(f"fallback: expected one of {', '.join(_MODES)}, got {mode!r}")
    _chosen[0] = mode


def write(target: torch.Tensor, host: torch.Tensor) -> None:
    """Writes a tensor of the host into one on the device, of any strides."""
    if target.shape != host.shape:
        fresh = upload(host)
        private.adopt(target, fresh)
    elif target.numel():
        copy_into(array_of(target), array_of(upload(host.to(target.dtype))))


def run_on_cpu(overload: Any, *args: Any, **options: Any) -> Any:
    """Runs an overload on copies of its tensors on the host, and brings back what it wrote.

    Raises:
        DeviceError: The fallback is forbidden.
    """
    name = str(overload).removeprefix("aten.")
    if _chosen[0] == "error":
        raise DeviceError(
            f"{name} has no kernel on {private.NAME!r}, and fallback('error') forbids the CPU's"
        )
    if name not in counts and _chosen[0] == "warn":
        warnings.warn(
            f"{name} has no kernel on {private.NAME!r} and runs on the CPU; "
            "clprim.torch.fallback() chooses 'silent' or 'error'",
            stacklevel=3,
        )
    counts[name] = counts.get(name, 0) + 1
    given: dict[int, torch.Tensor] = {}

    def down(value: Any) -> Any:
        if on_device(value):
            host = download(value)
            given[id(host)] = value
            return host
        if isinstance(value, torch.device) and value.type == private.NAME:
            return torch.device("cpu")
        return value

    host_args, host_options = tree_map(down, (args, options))
    for argument in overload._schema.arguments:
        if argument.is_out and isinstance(host_options.get(argument.name), torch.Tensor):
            # Memory of PyTorch's own, which its kernels may resize.
            host = host_options[argument.name]
            fresh = torch.empty_like(host)
            given[id(fresh)] = given.pop(id(host))
            host_options[argument.name] = fresh
    result = overload(*host_args, **host_options)
    _bring_back(overload, (args, options), (host_args, host_options))

    def up(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        # What was written in place comes back as the tensor that was given.
        return given[id(value)] if id(value) in given else upload(value)

    return tree_map(up, result)


def _bring_back(overload: Any, given: tuple[Any, Any], hosts: tuple[Any, Any]) -> None:
    """Writes to the device what the schema says that an overload has written."""
    for n, argument in enumerate(overload._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        pair = []
        for positional, named in (given, hosts):
            inside = n < len(positional) and not argument.kwarg_only
            pair.append(positional[n] if inside else named.get(argument.name))
        if isinstance(pair[0], (list, tuple)):
            targets, sources = pair
        else:
            targets, sources = [pair[0]], [pair[1]]
        for target, source in zip(targets, sources, strict=True):
            if on_device(target):
                write(target, source)
