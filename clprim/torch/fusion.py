"""Convolution, batch normalisation, sum and activation of an eval-mode network as one kernel."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from clprim import ops
from clprim.errors import DefinitionError
from clprim.torch import private
from clprim.torch.memory import adopt, array_of, on_device

__all__ = ["FusedConv2d", "fuse"]

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
_EPILOGUES = {
    "": "",
    "relu": "y0 = y0 < 0 ? 0 : y0;",
    "relu6": "y0 = y0 < 0 ? 0 : y0 > 6 ? 6 : y0;",
    "silu": "y0 = y0 / (1 + exp(-y0));",
    "sigmoid": "y0 = 1 / (1 + exp(-y0));",
    "hardswish": "y0 = y0 < -3 ? 0 : y0 > 3 ? y0 : y0 * (y0 + 3) / 6;",
    "hardsigmoid": "y0 = y0 < -3 ? 0 : y0 > 3 ? 1 : (y0 + 3) / 6;",
}
# What leaves its input as it is outside of training: modules, and functions by name.
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d)
_IDLE_FUNCTIONS = ("stochastic_depth",)
_SUMS = {operator.add, torch.add, "add"}
_SUMS_IN_PLACE = {operator.iadd, "add_"}  # of the convolution's own result, or not at all


class FusedConv2d(nn.Module):  # type: ignore[misc]
    """A convolution whose kernel adds another tensor and applies an activation before it stores.

    Its weight is packed once, and again where it was replaced or written to (not by ``.data``,
    which PyTorch does not count).

    Args:
        conv: The convolution, batch normalisation folded into it.
        activation: Empty, or the name of a function of ``torch.nn.functional``.
    """

    def __init__(self, conv: Any, activation: str = "") -> None:
        super().__init__()
        self.conv, self.activation = conv, activation
        self._packed: tuple[Any, int, Any] | None = None  # of which memory and version

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_packed": None}

    def extra_repr(self) -> str:
        """What is done beside the convolution."""
        return f"activation={self.activation!r}"

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the activation of the convolution and, where given, another tensor's sum."""
        conv = self.conv
        differentiated = torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in (x, other, conv.weight, conv.bias)
        )
        if not on_device(x) or differentiated or x.ndim != 4 or not self._fits(x, other):
            y = conv(x) if other is None else conv(x) + other
            return getattr(nn.functional, self.activation)(y) if self.activation else y
        found = ops.conv2d(
            array_of(x),
            self._weight(),
            None if conv.bias is None else array_of(conv.bias),
            stride=conv.stride,
            padding=conv.padding,
            dilation=conv.dilation,
            groups=conv.groups,
            epilogue=("" if other is None else "y0 += x0; ") + _EPILOGUES[self.activation] or None,
            epilogue_args=() if other is None else (array_of(other),),
        )
        return adopt(found)

    def _weight(self) -> Any:
        weight = self.conv.weight
        if weight.is_inference():  # PyTorch does not count what is written to it
            return array_of(weight)
        memory, version = private.storage_of(weight).clprim, weight._version
        packed = self._packed
        if packed is None or packed[0] is not memory or packed[1] != version:
            made = ops.pack_weight(array_of(weight), groups=self.conv.groups)
            self._packed = packed = memory, version, made
        return packed[2]

    def _fits(self, x: torch.Tensor, other: torch.Tensor | None) -> bool:
        """Whether a tensor has the result's dtype and shape, so that its sum broadcasts nothing."""
        if other is None:
            return True
        conv, shape = self.conv, [x.shape[0], self.conv.out_channels]
        for d in range(2):
            room = x.shape[d + 2] + 2 * conv.padding[d]
            reach = conv.dilation[d] * (conv.kernel_size[d] - 1) + 1
            shape.append((room - reach) // conv.stride[d] + 1)
        return other.dtype == x.dtype and list(other.shape) == shape


def fuse(model: Any) -> Any:
    """Returns a copy of an eval-mode network that runs its convolutions with what follows them.

    Batch normalisation is folded into the weights, which are packed once; a sum with another tensor
    and ReLU, ReLU6, SiLU, the sigmoid and their hard forms run in the convolution's kernel; dropout
    is left out. Results differ by rounding alone.

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
    name = f"{node.target}_fused".replace(".", "_")
    traced.add_submodule(name, FusedConv2d(conv, activation))
    modules[name] = traced.get_submodule(name)
    with traced.graph.inserting_before(last):
        image = node.args[0] if node.args else node.kwargs["input"]
        made = traced.graph.call_module(name, (image, *([] if other is None else [other])))
    last.replace_all_uses_with(made)  # the nodes that it replaces are dead now


def _is_sum(node: Any, first: Any) -> bool:
    if node.op not in ("call_function", "call_method") or len(node.args) != 2 or node.kwargs:
        return False
    in_place = node.target in _SUMS_IN_PLACE and node.args[0] is first
    return node.target in _SUMS or in_place
