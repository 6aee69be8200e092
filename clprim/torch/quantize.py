"""Layers with weights of few bits in the places of `nn.Linear` and `nn.Embedding`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from clprim import ops
from clprim.call.forms import decoded, encoded
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.primitives.quantized_weight import QuantizedWeight
from clprim.torch import dispatcher
from clprim.torch.tensors import adopt, array_of

_LAYERS = (nn.Linear, nn.Embedding)


class _Quantized(nn.Module):  # type: ignore[misc]
    """A layer whose weight is a buffer of words; it takes no gradient."""

    def __init__(self, weight: QuantizedWeight, kind: torch.dtype) -> None:
        super().__init__()
        told = [weight.format, weight.shape, encoded(weight.coding)]
        self.register_buffer("words", adopt(weight.words))
        self.register_buffer("order", None if weight.order is None else adopt(weight.order))
        self.told, self.kind = json.dumps(told), kind

    @property
    def weight(self) -> QuantizedWeight:
        """The weight."""
        return _weight(self.words, self.order, self.told)

    def extra_repr(self) -> str:
        """What PyTorch prints of it."""
        return f"{self.weight.format}, {self.weight.shape}"


class QuantizedLinear(_Quantized):
    """``x @ wᵀ + bias`` with a quantised weight."""

    def __init__(
        self, weight: QuantizedWeight, bias: torch.Tensor | None, kind: torch.dtype
    ) -> None:
        super().__init__(weight, kind)
        self.out_features, self.in_features = weight.shape
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs the layer."""
        return torch.ops.clprim.quantized_linear(x, self.words, self.order, self.bias, self.told)


class QuantizedEmbedding(_Quantized):
    """Rows of a quantised table."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Runs the layer."""
        found = torch.ops.clprim.quantized_embedding(ids, self.words, self.order, self.told)
        return found.to(self.kind)


def quantize_(module: Any, format: str = "q4_0", skip: Sequence[str] = ("lm_head",)) -> Any:
    """Gives the linear layers and embeddings of a network weights of few bits, in place.

    They are frozen: gradients go through them to what they read, so that adapters beside them
    train. Other layers, and biases, stay what they are.

    Args:
        module: A network, on the device or not yet; the new weights are on the current device.
        format: One of `clprim.ops.quantize_weight`.
        skip: Names of layers that stay: whole ones (``"model.head"``) or their last part.

    Returns:
        The network.

    Raises:
        DefinitionError: No network, nothing to replace, or a format that cannot be made.
        ShapeError: A layer whose inputs are not whole blocks; nothing is replaced then.

    Example:
        >>> import torch, clprim.torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()).to("opencl")
        >>> clprim.torch.quantize_(net, format="q8_0")
        Sequential(
          (0): QuantizedLinear(q8_0, (32, 64))
          (1): ReLU()
        )
        >>> net(torch.ones(2, 64, device="opencl")).shape
        torch.Size([2, 32])
    """
    what = "clprim.torch.quantize_"
    if not isinstance(module, nn.Module):
        raise DefinitionError(f"{what}: expected a network, got {quoted(module)}")
    names = (skip,) if isinstance(skip, str) else tuple(skip)
    layers = {name: layer for name, layer in _layers(module) if not _skipped(name, names)}
    if not layers:
        raise DefinitionError(f"{what}: no nn.Linear or nn.Embedding to replace")
    if "" in layers:
        raise DefinitionError(f"{what}: a layer alone cannot be replaced; put it into a network")
    made: dict[int, QuantizedWeight] = {}  # layers may share a weight
    for name, layer in layers.items():
        weight = layer.weight
        if id(weight) in made:
            continue
        try:
            numbers = weight.detach().to("cpu", torch.float32).numpy()
            made[id(weight)] = ops.quantize_weight(numbers, format=format)
        except ShapeError as error:
            raise ShapeError(f"{what}: layer {name}: {error}; skip={[name]} leaves it") from error
    new: dict[str, _Quantized] = {}
    for name, layer in layers.items():
        weight, kind = made[id(layer.weight)], layer.weight.dtype
        if isinstance(layer, nn.Linear):
            new[name] = QuantizedLinear(weight, layer.bias, kind)
        else:
            new[name] = QuantizedEmbedding(weight, kind)
    replace(module, new)
    return module


def replace(module: nn.Module, layers: Mapping[str, nn.Module]) -> None:
    """Puts layers into the places of those that have their names."""
    for name, layer in layers.items():
        parent, _, last = name.rpartition(".")
        layer.train(module.get_submodule(name).training)
        setattr(module.get_submodule(parent), last, layer)


def _layers(module: Any) -> Iterator[tuple[str, Any]]:
    """The layers that no class was made of, and embeddings that write to no table."""
    for name, layer in module.named_modules(remove_duplicate=False):
        if type(layer) in _LAYERS and getattr(layer, "max_norm", None) is None:
            yield name, layer


def _skipped(name: str, skip: Sequence[str]) -> bool:
    return any(name == each or name.endswith(f".{each}") for each in skip)


@lru_cache(maxsize=1024)
def _told(told: str) -> tuple[str, tuple[int, int], Any]:
    name, (rows, depth), coding = json.loads(told)
    return name, (rows, depth), decoded(coding)


def _weight(words: torch.Tensor, order: torch.Tensor | None, told: str) -> QuantizedWeight:
    name, shape, coding = _told(told)
    columns = None if order is None else array_of(order)
    return QuantizedWeight(array_of(words), coding, name, shape, columns)


def _linear(
    x: torch.Tensor,
    words: torch.Tensor,
    order: torch.Tensor | None,
    bias: torch.Tensor | None,
    told: str,
) -> torch.Tensor:
    added = None if bias is None else array_of(bias)
    return adopt(ops.linear(array_of(x), _weight(words, order, told), added))


def _linear_meta(x: Any, words: Any, order: Any, bias: Any, told: str) -> Any:
    return x.new_empty((*x.shape[:-1], _told(told)[1][0]))


def _linear_input(
    grad: torch.Tensor, words: torch.Tensor, order: torch.Tensor | None, told: str
) -> torch.Tensor:
    array = array_of(grad)
    return adopt(ops.matmul(array, _weight(words, order, told).dequantize(array.dtype)))


def _linear_input_meta(grad: Any, words: Any, order: Any, told: str) -> Any:
    return grad.new_empty((*grad.shape[:-1], _told(told)[1][1]))


def _embedding(
    ids: torch.Tensor, words: torch.Tensor, order: torch.Tensor | None, told: str
) -> torch.Tensor:
    return adopt(ops.embedding(array_of(ids), _weight(words, order, told)))


def _embedding_meta(ids: Any, words: Any, order: Any, told: str) -> Any:
    return ids.new_empty((*ids.shape, _told(told)[1][1]), dtype=torch.float32)


def register() -> None:
    """Registers the operators of such layers."""
    dispatcher.define(
        "quantized_linear(Tensor x, Tensor words, Tensor? order, Tensor? bias, str told) -> Tensor",
        _linear,
        _linear_meta,
    )
    of_input = dispatcher.define(
        "quantized_linear_input(Tensor grad, Tensor words, Tensor? order, str told) -> Tensor",
        _linear_input,
        _linear_input_meta,
    )
    dispatcher.define(
        "quantized_embedding(Tensor ids, Tensor words, Tensor? order, str told) -> Tensor",
        _embedding,
        _embedding_meta,
    )

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        _, words, order, bias, ctx.told = inputs
        ctx.biased = bias is not None and bias.requires_grad
        ctx.save_for_backward(words, order)

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        words, order = ctx.saved_tensors
        bias = grad.sum([*range(grad.ndim - 1)]) if ctx.biased and grad.ndim > 1 else None
        if ctx.biased and grad.ndim == 1:
            bias = grad
        dx = of_input(grad, words, order, ctx.told) if ctx.needs_input_grad[0] else None
        return dx, None, None, bias, None

    torch.library.register_autograd("clprim::quantized_linear", backward, setup_context=remember)
