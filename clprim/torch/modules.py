"""Modules that move to the device keep their parameters, as they do between PyTorch's own devices.

PyTorch cannot make a tensor of the CPU one of ours in place and gives each module a new parameter
instead: weights that several modules share would come apart, and an optimizer that was made before
would update what nobody uses.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from itertools import chain
from typing import Any

import torch

from clprim.torch import private
from clprim.torch.tensors import on_device


def _apply(original: Any) -> Any:
    def apply(module: torch.nn.Module, fn: Any, *args: Any, **options: Any) -> Any:
        # A module that was moved with another one's children is reached by its own `_apply`.
        before = dict(module._parameters)
        with _counted(module):
            result = original(module, fn, *args, **options)
        if isinstance(module, torch.jit.ScriptModule):
            return result  # its parameters are C++'s, new objects whenever they are asked for
        for name, old in before.items():
            new = module._parameters.get(name)
            if old is None or new is None or old is new or on_device(old) == on_device(new):
                continue
            kind = type(old)  # of lazy modules: one that has no shape yet
            try:
                torch.utils.swap_tensors(old, new)
            except RuntimeError as e:
                warnings.warn(
                    f"{type(module).__name__}.{name} became a new parameter on its way to "
                    f"{new.device}, as it is held elsewhere, by a graph for example ({e}): "
                    "make optimizers again and share weights again that were shared",
                    stacklevel=2,
                )
                continue
            old.__class__ = kind
            old.__dict__.update(new.__dict__)
            for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
                if getattr(old, hooks):
                    setattr(old, hooks, getattr(old, hooks))
            module._parameters[name] = old
        return result

    return apply


def _counted(module: torch.nn.Module) -> Any:
    """Lets tensors be made whose writes PyTorch counts, in the inference mode as well.

    What is made of parameters, packed weights for example, can be kept then.
    """
    tensors = chain(module.parameters(), module.buffers())
    if torch.is_inference_mode_enabled() and not any(t.is_inference() for t in tensors):
        return torch.inference_mode(False)
    return nullcontext()


def register() -> None:
    """Lets modules keep their parameters where they move to the device, and back."""
    private.replace_method("_apply", _apply, torch.nn.Module)
