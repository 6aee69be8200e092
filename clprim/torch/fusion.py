"""Convolution, batch normalisation, sum and activation of an eval-mode network as one kernel."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from clprim.errors import DefinitionError
from clprim.torch.fused_layers import FusedConcat, FusedConv2d, FusedMaxPool2d

_F = nn.functional
# By module, function and method: the epilogue's name.
_ACTIVATIONS: dict[Any, str] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.SiLU: "silu",
    nn.Sigmoid: "sigmoid",
    nn.Hardswish: "hardswish",
    nn.Hardsigmoid: "hardsigmoid",
    _F.relu: "relu",
    _F.relu6: "relu6",
    _F.silu: "silu",
    _F.hardswish: "hardswish",
    _F.hardsigmoid: "hardsigmoid",
    torch.relu: "relu",
    torch.sigmoid: "sigmoid",
    "relu": "relu",
    "relu_": "relu",
    "sigmoid": "sigmoid",
}
# What leaves its input as it is outside of training: modules, and functions by name.
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d)
_IDLE_FUNCTIONS = ("stochastic_depth",)
_SUMS = {operator.add, torch.add, "add"}
_SUMS_IN_PLACE = {operator.iadd, "add_"}  # of the convolution's own result, or not at all


def fuse(model: Any) -> Any:
    """Returns a copy of an eval-mode network that runs its convolutions with what follows them.

    Batch normalisation is folded into the weights, which are packed once; a sum with another tensor
    and ReLU, ReLU6, SiLU, the sigmoid and their hard forms run in the convolution's kernel, which
    also writes straight into a concatenation of channels; maxima leave out their positions, and
    dropout is left out. Results differ by rounding alone.

    Args:
        model: In eval mode; `torch.fx` must be able to trace it.

    Returns:
        A `torch.fx.GraphModule`, whose parameters are not trained.

    Raises:
        DefinitionError: A network in training mode.
    """
    if model.training:
        raise DefinitionError("clprim.torch.fuse: expected a network in eval mode: model.eval()")
    traced = fx.symbolic_trace(copy.deepcopy(model))
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if _is_idle(node, modules):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    for node in list(traced.graph.nodes):
        conv = modules.get(node.target) if node.op == "call_module" else None
        if conv is None or type(conv) is not nn.Conv2d:
            continue
        if conv.padding_mode == "zeros" and type(conv.padding) is tuple:
            _fuse_one(traced, modules, node, conv)
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and type(modules[node.target]) is nn.MaxPool2d:
            _replace(traced, modules, node, FusedMaxPool2d(modules[node.target]), node.args)
        elif node.op == "call_function" and node.target in (torch.cat, torch.concat):
            _concatenate(traced, modules, node)
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval().requires_grad_(False)


def _is_idle(node: Any, modules: dict[str, Any]) -> bool:
    """Whether a node returns its first argument as it is, in eval mode."""
    if not node.args or not isinstance(node.args[0], fx.Node):
        return False
    if node.op == "call_module":
        return type(modules[node.target]) in _IDLE
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and name in _IDLE_FUNCTIONS and node.args[-1] is False


def _only_user(node: Any) -> Any:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _activation(node: Any, modules: dict[str, Any]) -> str:
    """The name of the activation that a node is, or nothing."""
    if node is None:
        return ""
    key = type(modules.get(node.target)) if node.op == "call_module" else node.target
    return _ACTIVATIONS.get(key, "") if node.op.startswith("call") else ""


def _fuse_one(traced: Any, modules: dict[str, Any], node: Any, conv: Any) -> None:
    last, user, other = node, _only_user(node), None
    shared = sum(n.op == "call_module" and n.target == node.target for n in traced.graph.nodes) > 1
    if shared:
        return  # what follows the module differs from one place to the other
    if user is not None and user.op == "call_module":
        norm = modules[user.target]
        if type(norm) is nn.BatchNorm2d and norm.running_mean is not None:
            conv = fuse_conv_bn_eval(conv, norm)
            last, user = user, _only_user(user)
    if user is not None and _is_sum(user, last):
        found = [a for a in user.args if a is not last]
        # Of another shape the sum would broadcast, which only a run could tell.
        if len(found) == 1 and isinstance(found[0], fx.Node):
            other, last, user = found[0], user, _only_user(user)
    activation = _activation(user, modules)
    if activation:
        last = user
    image = node.args[0] if node.args else node.kwargs["input"]
    given = (image, *([] if other is None else [other]))
    _replace(traced, modules, last, FusedConv2d(conv, activation), given, node.target)


def _replace(
    traced: Any, modules: dict[str, Any], node: Any, module: Any, args: Any, name: str = ""
) -> None:
    """Puts a module in the place of a node; what only led there is dead then."""
    name = f"{name or node.target}_fused".replace(".", "_")
    traced.add_submodule(name, module)
    modules[name] = traced.get_submodule(name)
    with traced.graph.inserting_before(node):
        made = traced.graph.call_module(name, tuple(args))
    node.replace_all_uses_with(made)


def _concatenate(traced: Any, modules: dict[str, Any], node: Any) -> None:
    """Lets the convolutions whose results are channels of one tensor write them there."""
    parts = node.args[0] if node.args else ()
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    if dim != 1 or not isinstance(parts, (list, tuple)) or len(set(parts)) != len(parts):
        return

    def fused(part: Any) -> Any:
        module = modules.get(part.target) if part.op == "call_module" else None
        return module if type(module) is FusedConv2d and _only_user(part) is node else None

    # A tensor's channels must be known before the first convolution makes room for all.
    if any(fused(part) is None for part in parts):
        return
    channels = [fused(part).conv.out_channels for part in parts]
    first = min(parts, key=list(traced.graph.nodes).index)
    for n, part in enumerate(parts):
        fused(part).place = sum(channels[:n]), sum(channels)
        if part is not first:
            part.kwargs = {"room": first}
    _replace(traced, modules, node, FusedConcat(), parts, node.name)


def _is_sum(node: Any, first: Any) -> bool:
    if node.op not in ("call_function", "call_method") or len(node.args) != 2 or node.kwargs:
        return False
    in_place = node.target in _SUMS_IN_PLACE and node.args[0] is first
    return node.target in _SUMS or in_place
