"""`torch.compile`: which backends it has for the device."""

from __future__ import annotations

from typing import Any

import torch

from clprim.errors import DeviceError
from clprim.torch import private
from clprim.torch.memory import on_device


def _compiled(original: Any) -> Any:
    def compile_with_inductor(wrapper: Any, graph: Any, inputs: Any, **options: Any) -> Any:
        values = [n.meta.get("example_value") for n in graph.graph.nodes]
        if any(map(on_device, (*inputs, *values))):
            raise DeviceError(
                "torch.compile: its default backend, inductor, writes no kernels for "
                f"{private.NAME!r}; name another one: torch.compile(model, backend='aot_eager') or "
                "backend='eager', which run the kernels that run without it"
            )
        return original(wrapper, graph, inputs, **options)

    return compile_with_inductor


def register() -> None:
    """Lets `torch.compile` say what to do where it is given no backend that knows the device."""
    private.replace_method("__call__", _compiled, torch._TorchCompileInductorWrapper)
