"""Checkpoints whose linear layers another package has packed, loaded into plain networks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clprim import ops
from clprim.errors import ClprimError, DefinitionError, ShapeError, quoted
from clprim.torch.quantize import QuantizedLinear, replace
from clprim.torch.tensors import as_numpy

_WHAT = "clprim.torch.load_packed_"
# What a packed layer has in a file, and no other one.
_MARKS = ("qweight", "weight_packed", "weight.quant_map", "_weight_qdata")
_MOST_LISTED = 8


def load_packed_(module: Any, tensors: Any, format: str | None = None) -> Any:
    """Loads a checkpoint whose linear layers are packed by another package, in place.

    Layers of `nn.Linear` that are packed there become quantised ones, on the current device; all
    other tensors are loaded where they belong. Nothing changes where something does not fit.

    Args:
        module: A network of plain layers, such as ``AutoModelForCausalLM.from_config(config)``
            where the configuration says nothing of quantisation; on the device or not yet.
        tensors: A state dict; or the path of a safetensors file, or of a folder of such files.
        format: As of `clprim.ops.packed_weight`; None is what the folder's ``config.json`` says.

    Returns:
        The network.

    Raises:
        DefinitionError: No network, no such file, no packed layer, or parameters that are not
            there.
        ShapeError: Tensors of other shapes than the network's.

    Example:
        >>> import torch, clprim.torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False))
        >>> layer = {
        ...     "0.qweight": torch.full((64, 4), 0x76543210, dtype=torch.int32),
        ...     "0.qzeros": torch.zeros(2, 4, dtype=torch.int32),
        ...     "0.scales": torch.ones(2, 32),
        ... }
        >>> clprim.torch.load_packed_(net, layer, format="awq")
        Sequential(
          (0): QuantizedLinear(awq, (32, 64))
        )
    """
    if not isinstance(module, nn.Module):
        raise DefinitionError(f"{_WHAT}: expected a network, got {quoted(module)}")
    state, said = (tensors, None) if isinstance(tensors, Mapping) else _read(tensors)
    chosen = format or said
    if chosen is None:
        raise DefinitionError(f"{_WHAT}: give format=; no config.json says it")
    parts: dict[str, dict[str, torch.Tensor]] = {}
    linear = {n: m for n, m in module.named_modules() if type(m) is nn.Linear and n}
    for name in linear:
        if any(f"{name}.{mark}" in state for mark in _MARKS):
            parts[name] = {}
    rest = {}
    for key, tensor in state.items():
        owner = next((o for o in _owners(key) if o in parts), None)
        if owner is None or key == f"{owner}.bias":
            rest[key] = tensor
        else:
            parts[owner][key[len(owner) + 1 :]] = tensor
    if not parts:
        raise DefinitionError(f"{_WHAT}: no nn.Linear of the network is packed there")
    _check(module, rest, {f"{name}.weight" for name in parts})
    made = {}
    for name, found in parts.items():
        layer = linear[name]
        try:
            numbers = {n: as_numpy(t.detach().cpu()) for n, t in found.items()}
            weight = ops.packed_weight(numbers, format=chosen)
        except ClprimError as error:
            raise type(error)(f"{_WHAT}: layer {name}: {error}") from error
        if weight.shape != (layer.out_features, layer.in_features):
            raise ShapeError(
                f"{_WHAT}: layer {name} has a weight {tuple(layer.weight.shape)}, the checkpoint "
                f"one of {weight.shape}"
            )
        made[name] = QuantizedLinear(weight, layer.bias, layer.weight.dtype)
    replace(module, made)
    module.load_state_dict(rest, strict=False)
    return module


def _owners(key: str) -> list[str]:
    """What may be the name of the layer that a tensor is of, the longest one first."""
    parts = key.split(".")
    return [".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]


def _check(module: nn.Module, rest: Mapping[str, torch.Tensor], packed: set[str]) -> None:
    """Refuses a checkpoint that leaves parameters as they are, or has them in other shapes."""
    known = {n: t for n, t in module.state_dict(keep_vars=True).items() if n not in packed}
    given = {id(t) for n, t in known.items() if n in rest}  # some have several names
    missing = [n for n, t in known.items() if n not in rest and id(t) not in given]
    if missing:
        listed = ", ".join(missing[:_MOST_LISTED]) + ", …" * (len(missing) > _MOST_LISTED)
        raise DefinitionError(f"{_WHAT}: the checkpoint has no {listed}")
    for name, tensor in rest.items():
        if name in known and tensor.shape != known[name].shape:
            raise ShapeError(
                f"{_WHAT}: {name} has shape {tuple(known[name].shape)}, the checkpoint "
                f"{tuple(tensor.shape)}"
            )


def _read(path: Any) -> tuple[dict[str, torch.Tensor], str | None]:
    """Returns the tensors of files, and the format that the configuration beside them says."""
    where = Path(path) if isinstance(path, (str, os.PathLike)) else None
    files = sorted(where.glob("*.safetensors")) if where is not None and where.is_dir() else []
    files = [where] if where is not None and where.is_file() else files
    if not files:
        raise DefinitionError(
            f"{_WHAT}: expected a state dict, a safetensors file or a folder of some, got "
            f"{quoted(path)}"
        )
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise DefinitionError(f"{_WHAT}: files take the package safetensors") from error
    state: dict[str, torch.Tensor] = {}
    try:
        for file in files:
            state.update(load_file(file))
    except (SafetensorError, OSError) as error:
        raise DefinitionError(f"{_WHAT}: {file.name}: {error}") from error
    return state, _said(files[0].parent / "config.json")


def _said(config: Path) -> str | None:
    if not config.is_file():
        return None
    try:
        told = json.loads(config.read_text(encoding="utf-8"))["quantization_config"]
        method, detail = told["quant_method"], told.get("checkpoint_format")
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return "gptq_v2" if (method, detail) == ("gptq", "gptq_v2") else str(method)
