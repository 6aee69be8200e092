"""`torch.compile`: the backend ``clprim``, and what its default backend says of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from clprim.errors import DefinitionError, DeviceError, quoted
from clprim.options import word_of
from clprim.torch import private
from clprim.torch.generators import DeviceGenerator
from clprim.torch.tensors import on_device

_MODES = {"default": False, "reduce-overhead": False, "max-autotune": True,
          "max-autotune-no-cudagraphs": True}  # fmt: skip


def compile_graph(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of PyTorch's: ``torch.compile(model, backend="clprim")``.

    Graphs of ATen overloads, forward, backward and without gradients, run through the device's
    kernels under a trace, once for every signature; its graph is fused, planned and replayed.
    Tensors of the CPU are moved to the device and back, parameters once until they are written to.
    """
    from clprim.torch.cached import Kept, caching  # PyTorch's compiler takes long to import

    chosen = _chosen(mode, options)
    budget = chosen.pop("memory_budget")

    def made(what: str, module: fx.GraphModule, _: Any) -> Kept:
        return Kept(what, module, *_told(what, **chosen))

    backend = caching(
        private.aot_backend,
        f"{chosen}",
        {} if budget is None else {"activation_memory_budget": budget},
        fw_compiler=partial(made, "forward"),
        bw_compiler=partial(made, "backward"),
        inference_compiler=partial(made, "inference"),
    )
    found: Callable[..., Any] = backend(module, inputs)
    return found


def _told(
    what: str, *, freeze: bool, tune: bool, launches: str
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Returns which arguments of a graph stay where they are, and how a program treats them."""
    context = private.tracing_metadata()
    static = () if context is None or what == "backward" else context.static_input_indices
    returned = None
    if what == "forward" and context is not None:
        returned = context.num_forward_returns
    kept = what == "inference"
    frozen = freeze and kept
    told: dict[str, Any] = {"kept": kept, "frozen": frozen, "returned": returned}
    told["settings"] = {"tune": True} if tune else {}
    if launches != "auto":
        told["settings"]["launches"] = launches
    if context is not None and what != "backward":
        told["views"] = private.views_of(context)
    return tuple(static), told


def _chosen(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns every option's value."""
    if mode is not None and mode not in _MODES:
        raise DefinitionError(
            f"torch.compile: mode={quoted(mode)}: expected one of {', '.join(_MODES)}"
        )
    found: dict[str, Any] = {"freeze": False, "tune": _MODES.get(mode or "default", False)}
    found |= {"memory_budget": None, "launches": "auto"}
    for name, value in (options or {}).items():
        if name == "memory_budget":
            right = isinstance(value, (int, float)) and not isinstance(value, bool)
            right = right and 0 <= value <= 1
        elif name == "launches":
            right = word_of("torch.compile", "launches", value) == value
        else:
            right = name in found and isinstance(value, bool)
        if not right:
            raise DefinitionError(
                f"torch.compile: options={{{name!r}: {quoted(value)}}}: the backend clprim takes "
                "freeze and tune, True or False, launches, one of 'auto', 'one' and 'each', and "
                "memory_budget, a number from 0 to 1"
            )
        found[name] = value
    return found


def _compiled(original: Any) -> Any:
    def compile_with_inductor(wrapper: Any, graph: Any, inputs: Any, **options: Any) -> Any:
        values = [n.meta.get("example_value") for n in graph.graph.nodes]
        if any(map(on_device, (*inputs, *values))):
            raise DeviceError(
                "torch.compile: its default backend, inductor, writes no kernels for "
                f"{private.NAME!r}; name another one: torch.compile(model, backend='clprim')"
            )
        return original(wrapper, graph, inputs, **options)

    return compile_with_inductor


def _registering(original: Any) -> Any:
    """PyTorch's compiler, which takes long to import, hears of the backend when it is asked for."""

    def begin(wrapper: Any, backend: Any, *args: Any, **options: Any) -> None:
        if backend == "clprim":
            private.compile_with("clprim", compile_graph)
        private.break_graphs_at(DeviceGenerator)
        original(wrapper, backend, *args, **options)

    return begin


def register() -> None:
    """Registers the backend, and lets the default one say which to name for the device."""
    private.replace_method("__init__", _registering, torch._TorchCompileWrapper)
    private.replace_method("__call__", _compiled, torch._TorchCompileInductorWrapper)
