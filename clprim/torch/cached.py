"""Compiled graphs in PyTorch's cache on disk: another process need not have them derived again.

What it keeps are graphs of ATen overloads; they are run under the trace again, by kernels that are
on disk as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._guards import detect_fake_mode
from torch._inductor.output_code import OutputCode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx._graph_pickler import GraphPickler, Options
from torch.utils._sympy.symbol import SymT, symbol_is_type

from clprim.torch.parts import NOTES
from clprim.torch.program import Program

# Counts changes of what is kept, formulas of gradients among it.
_FORM = 6


class Kept(OutputCode):  # type: ignore[misc]
    """A program that the cache writes, and reads again."""

    def __init__(
        self, what: str, module: fx.GraphModule, weights: Sequence[int], options: dict[str, Any]
    ) -> None:
        super().__init__()
        self._boxed_call = True  # PyTorch looks here for what empties its list
        self._told = what, weights, options
        self._module: fx.GraphModule | None = module
        self._bytes = b""
        self._program: Program | None = Program(what, module, weights, **options)

    def __call__(self, inputs: list[Any]) -> Any:
        """Runs it on a list of arguments, which it empties."""
        assert self._program is not None
        return self._program(inputs)

    def prepare_for_serialization(self) -> None:
        """Becomes bytes; PyTorch calls it of a copy."""
        options = Options(ops_filter=None, node_metadata_key_filter=NOTES.__contains__)
        # Constants of the graph are real tensors, which a mode of fake ones would not copy.
        with unset_fake_temporarily():
            self._bytes = GraphPickler.dumps(self._module, options)
        self._module = self._program = None

    def post_compile(self, example_inputs: Sequence[Any], *_: Any) -> None:
        """Becomes a program, after it was read from disk."""
        what, weights, options = self._told
        if self._program is None:
            mode = detect_fake_mode(example_inputs)
            with unset_fake_temporarily():
                self._module = GraphPickler.loads(self._bytes, mode)
            for inner in self._module.modules():  # what operators of functions call
                if isinstance(inner, fx.GraphModule) and inner is not self._module:
                    inner.recompile()
            self._program = Program(what, self._module, weights, **options)

    def set_triton_bundle(self, _: Any) -> None:
        """Has no kernels in it."""


def caching(
    backend: Callable[..., Any],
    tag: str,
    settings: Mapping[str, Any],
    **compilers: Callable[..., Any],
) -> Callable[..., Any]:
    """Returns a backend of `torch.compile` whose results PyTorch keeps on disk where it can."""
    forward = SerializableAOTDispatchCompiler(OutputCode, compilers["fw_compiler"])
    made = backend(**{**compilers, "fw_compiler": forward})

    def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        ranges, floats = _symbols()
        whole = f"{torch.compiler.config.cache_key_tag} clprim {_FORM} {tag} {ranges}"
        kept = functorch_config.enable_autograd_cache and not floats
        tensors = [x for x in inputs if isinstance(x, torch.Tensor) and x.layout is torch.strided]
        storages = {x.untyped_storage()._cdata for x in tensors}
        with (
            torch.compiler.config.patch(cache_key_tag=whole),
            # What a backward pass is made of is kept where it is there before its first call.
            # Tokens of effects are made in the graph: the cache does not hand them in.
            functorch_config.patch(
                enable_autograd_cache=kept,
                bundled_autograd_cache=True,
                force_non_lazy_backward_lowering=True,
                unlift_effect_tokens=True,
                # Views of arguments that share memory would be made of the wrong one.
                view_replay_for_aliased_outputs=len(storages) == len(tensors),
                **settings,
            ),
        ):
            return made(module, inputs)

    return compile_graph


def _symbols() -> tuple[list[str], bool]:
    """Returns ranges of sizes that vary, and whether a Python float varies, in what is compiled.

    PyTorch's key has neither. Guards that are kept are of these ranges, and none is of floats,
    of which a graph may hold the value that they had.
    """
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fake_mode is None or context.fake_mode.shape_env is None:
        return [], False
    known = context.fake_mode.shape_env.var_to_range
    return [*map(str, known.values())], any(symbol_is_type(s, SymT.FLOAT) for s in known)
