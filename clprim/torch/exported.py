"""Programs of `torch.export` on the device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from clprim.errors import DefinitionError, quoted
from clprim.torch import private
from clprim.torch.tensors import on_device


class Exported:
    """An exported program that runs on the device."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        from torch.export.passes import move_to_device_pass

        self.module = move_to_device_pass(program, private.NAME).module().requires_grad_(False)
        self._run = torch.compile(self.module, backend="clprim", options={"freeze": True})

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Runs the program."""
        given = [v for v in tree_leaves((args, options)) if isinstance(v, torch.Tensor)]
        here = bool(given) and not any(map(on_device, given))
        there = tree_map(lambda v: _to(v, private.NAME), (args, options))
        with torch.no_grad():
            found = self._run(*there[0], **there[1])
        return tree_map(lambda v: _to(v, "cpu"), found) if here else found


def _to(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def load_exported(path: Any) -> Exported:
    """Returns a program that `torch.export.save` wrote, which runs on the device.

    Its parameters are constants: what depends on them alone is computed once. Sizes that were
    exported as dynamic are traced anew where they are.

    Args:
        path: Of the file, or the program itself, which is left as it is.

    Raises:
        DefinitionError: No such file.

    Example:
        >>> import torch, clprim.torch
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
        >>> clprim.torch.load_exported(program)(torch.tensor([-1.0, 0, 2]))
        tensor([0., 0., 2.])
    """
    if isinstance(path, torch.export.ExportedProgram):
        return Exported(path)
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        raise DefinitionError(f"clprim.torch.load_exported: expected a file, got {quoted(path)}")
    return Exported(torch.export.load(path))
