"""The network of a language model: weights of a file, and what one call computes of some tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray, zeros
from clprim.errors import DefinitionError, ShapeError
from clprim.llm.architectures import Sizes, sizes_of
from clprim.llm.rotary import tables
from clprim.ops.shared.checks import is_array
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.quantized_weight import QuantizedWeight

_places = Pointwise("y0 = x0 + index;", name="places", result_type=np.int32)
_FACTORS = ("rope_freqs", "rope_factors_short", "rope_factors_long")


class Experts:
    """Weights of all experts, side by side in one array, so that those of some can be gathered."""

    def __init__(self, weights: Sequence[Any]) -> None:
        self.first = weights[0]
        self.bank = ops.stack([w if is_array(w) else w.words for w in weights])

    def __getitem__(self, n: int) -> Any:
        return self._over(self.bank[n])

    def chosen(self, which: Any) -> list[Any]:
        """Returns the weights of as many experts as an array has numbers."""
        return [*map(self._over, ops.index_select(self.bank, 0, which))]

    def _over(self, words: Any) -> Any:
        w = self.first
        return words if is_array(w) else QuantizedWeight(words, w.coding, w.format, w.shape)


def _usable(tensor: Any) -> Any:
    """A tensor as products and norms take it: matrices of 16 bits stay that, others are float32."""
    if isinstance(tensor, list) or (is_array(tensor) and tensor.ndim == 3):
        return Experts([*map(_usable, tensor)])
    if not is_array(tensor) or tensor.dtype == np.float32:
        return tensor
    form = {"float16": "f16", "bfloat16": "bf16"}.get(str(tensor.dtype))
    if tensor.ndim == 2 and form is not None:
        return ops.quantize_weight(tensor, form)
    return tensor.astype(np.float32)


class Layer:
    """The weights of one layer, by their names in the file."""

    def __init__(self, sizes: Sizes, number: int, take: Callable[..., Any]) -> None:
        kind, s = sizes.architecture, sizes
        self.windowed = s.windowed(number)
        self.weights: dict[str, Any] = {}

        def want(name: str, *shape: int, bias: bool = False) -> None:
            full = f"blk.{number}.{name}"
            self.weights[name] = take(f"{full}.weight", *shape)
            if bias:
                self.weights[f"{name}.bias"] = take(f"{full}.bias", shape[0], optional=True)

        want("attn_norm", s.width)
        queries, keys, values = s.heads * s.size, s.key_heads * s.size, s.key_heads * s.features
        if kind.joined:
            want("attn_qkv", queries + keys + values, s.width, bias=True)
        else:
            want("attn_q", queries, s.width, bias=True)
            want("attn_k", keys, s.width, bias=True)
            want("attn_v", values, s.width, bias=True)
        want("attn_output", s.width, s.heads * s.features, bias=True)
        if kind.norms_of_heads:
            want("attn_q_norm", s.size)
            want("attn_k_norm", s.size)
        want("ffn_norm", s.width)
        if kind.norms_after:
            want("post_attention_norm", s.width)
            want("post_ffw_norm", s.width)
        if s.experts:
            want("ffn_gate_inp", s.experts, s.width)
            for name, back in (("gate", False), ("up", False), ("down", True)):
                want(f"ffn_{name}_exps", s.experts, *((s.width, -1) if back else (-1, s.width)))
            shared = take(f"blk.{number}.ffn_gate_inp_shexp.weight", s.width, optional=True)
            if shared is not None:
                self.weights["ffn_gate_inp_shexp"] = shared
                want("ffn_gate_shexp", -1, s.width)
                want("ffn_up_shexp", -1, s.width)
                want("ffn_down_shexp", s.width, -1)
            return
        if not kind.joined:
            want("ffn_gate", -1, s.width)
        want("ffn_up", -1, s.width)
        want("ffn_down", s.width, -1)

    def linear(self, name: str, x: Any) -> Any:
        """Multiplies with a weight and adds its bias, if there is one."""
        return ops.linear(x, self.weights[name], self.weights.get(f"{name}.bias"))


class Network:
    """A model's weights on the device.

    Args:
        file: What `read_gguf` returns.
        places: How many tokens have a place.

    Raises:
        DefinitionError: Tensors that are missing, or that no part of the network takes.
        ShapeError: A tensor of another shape.
    """

    def __init__(self, file: Any, places: int) -> None:
        self.sizes = s = sizes_of(file.metadata)
        left = dict(file.tensors)

        def one(name: str, *shape: int, optional: bool = False) -> Any:
            if name not in left:
                if optional:
                    return None
                raise DefinitionError(f"load: {s.name} needs a tensor {name}, which is not there")
            there = tuple(left.pop(name).shape)
            wrong = any(n not in (-1, m) for n, m in zip(shape, there, strict=False))
            if wrong or len(there) != len(shape):
                expected = ", ".join("any" if n < 0 else str(n) for n in shape)
                raise ShapeError(f"load: {name} has shape {there}, expected ({expected})")
            return _usable(file.load(name))

        factors = {name: one(f"{name}.weight", -1, optional=True) for name in _FACTORS}
        known = {name: np.asarray(f.get(), float) for name, f in factors.items() if f is not None}
        self.angles = {
            windowed: tuple(map(asarray, tables(s, file.metadata, places, windowed, known)))
            for windowed in {s.windowed(n) for n in range(s.layers)}
        }
        self.embedding = one("token_embd.weight", -1, s.width)
        self.layers = [Layer(s, n, one) for n in range(s.layers)]
        self.norm = one("output_norm.weight", s.width)
        head = one("output.weight", *self.embedding.shape, optional=True)
        self.head = self.embedding if head is None else head
        self.head_bias = one("output.bias", self.embedding.shape[0], optional=True)
        if left:
            raise DefinitionError(
                f"load: {s.name} has no use for {len(left)} tensors, {next(iter(left))} the first"
            )

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self.embedding.shape[0])

    def hidden(self, ids: Any, place: Any, keys: Any, values: Any) -> Any:
        """Returns what the last layer makes of tokens (L,), the first at ``place``, (L, width).

        Their keys and values are written to the cache's memory. In one of several texts each token
        is one's, at its own of the places (L,).
        """
        s = self.sizes
        count, apart = ids.shape[0], keys.shape[1] > 1
        cache = ops.KeyValueCache.over(keys, values)
        places = place if apart else _places(place, shape=(count,))
        length = place + (1 if apart else count)
        x = ops.embedding(ids, self.embedding)
        x = x * float(np.float32(s.width**0.5)) if s.architecture.scaled else x
        for number, layer in enumerate(self.layers):
            x = self._attended(number, layer, x, places, length, cache)
            x = self._fed(layer, x)
        return self._normed(x, self.norm)

    def logits(self, hidden: Any) -> Any:
        """Returns the scores of every next token, (L, V)."""
        found = ops.linear(hidden, self.head, self.head_bias)
        cap = self.sizes.last_cap
        return ops.tanh(found * (1 / cap)) * cap if cap else found

    def _normed(self, x: Any, weight: Any) -> Any:
        return ops.rms_norm(x, x.shape[-1:], weight, self.sizes.epsilon)

    def _attended(
        self, number: int, layer: Layer, x: Any, places: Any, length: Any, cache: Any
    ) -> Any:
        s, weights = self.sizes, layer.weights
        count = x.shape[0]
        y = self._normed(x, weights["attn_norm"])
        if s.architecture.joined:
            joined = layer.linear("attn_qkv", y)
            ends = np.cumsum([0, s.heads * s.size, s.key_heads * s.size, s.key_heads * s.features])
            q, k, v = (joined[:, a:b] for a, b in pairwise(ends))
        else:
            q, k, v = (layer.linear(f"attn_{name}", y) for name in "qkv")
        q, k, v = (
            a.reshape((count, heads, size))
            for a, heads, size in (
                (q, s.heads, s.size), (k, s.key_heads, s.size), (v, s.key_heads, s.features)
            )
        )  # fmt: skip
        if s.architecture.norms_of_heads:
            q, k = self._normed(q, weights["attn_q_norm"]), self._normed(k, weights["attn_k_norm"])
        q, k, v = (a.transpose(1, 0, 2)[None] for a in (q, k, v))
        q, k = (self._turned(a, places, layer.windowed) for a in (q, k))
        if cache.keys.shape[1] > 1:
            q, k, v = (a.transpose(2, 1, 0, 3) for a in (q, k, v))
            places = places[:, None]
        found = ops.scaled_dot_product_attention(
            q,
            *cache.write(number, k, v, places),
            is_causal=True,
            scale=s.scale,
            enable_gqa=True,
            length=length,
            window=s.window if layer.windowed else None,
            softcap=s.cap,
        )
        flat = found.transpose(0, 2, 1, 3).reshape((count, s.heads * s.features))
        return self._added(x, layer.linear("attn_output", flat), layer, "post_attention_norm")

    def _added(self, x: Any, y: Any, layer: Layer, norm: str) -> Any:
        """Adds to the residual, normalised where there is a weight for it."""
        weight = layer.weights.get(norm)
        return x + (y if weight is None else self._normed(y, weight))

    def _turned(self, x: Any, places: Any, windowed: bool) -> Any:
        cos, sin = self.angles[windowed]
        s = self.sizes
        turned = ops.rotary_embedding(
            x[..., : s.turned],
            cos,
            sin,
            positions=places,
            interleaved=s.architecture.interleaved,
        )
        return turned if s.turned == s.size else ops.cat([turned, x[..., s.turned :]], -1)

    def _fed(self, layer: Layer, x: Any) -> Any:
        y = self._normed(x, layer.weights["ffn_norm"])
        if self.sizes.experts:
            y = self._of_experts(layer, y)
        elif self.sizes.architecture.joined:
            both = layer.linear("ffn_up", y)
            half = both.shape[1] // 2
            y = layer.linear("ffn_down", self._gated(both[:, :half], both[:, half:]))
        else:
            gate, up = (layer.linear(f"ffn_{name}", y) for name in ("gate", "up"))
            y = layer.linear("ffn_down", self._gated(gate, up))
        return self._added(x, y, layer, "post_ffw_norm")

    def _gated(self, gate: Any, up: Any) -> Any:
        if self.sizes.architecture.gelu:
            return ops.gelu(gate, approximate="tanh") * up
        return ops.silu(gate) * up

    def _of_experts(self, layer: Layer, x: Any) -> Any:
        """Of one token the experts that it has chosen; of more all, weighted by 0 where not."""
        s, weights = self.sizes, layer.weights
        odds = ops.softmax(layer.linear("ffn_gate_inp", x), -1)
        best, which = ops.topk(odds, s.chosen, -1)
        if s.architecture.shares:
            best = best / ops.sum(best, -1, keepdims=True)
        found = None
        if "ffn_gate_inp_shexp" in weights:
            gate, up = (layer.linear(f"ffn_{name}_shexp", x) for name in ("gate", "up"))
            open_ = ops.sigmoid(ops.linear(x, weights["ffn_gate_inp_shexp"].reshape((1, -1))))
            found = layer.linear("ffn_down_shexp", self._gated(gate, up)) * open_
        parts = [weights[f"ffn_{name}_exps"] for name in ("gate", "up", "down")]
        if x.shape[0] == 1:
            parts = [part.chosen(which[0]) for part in parts]
            shares = best
        else:
            shares = ops.scatter(zeros(odds.shape, odds.dtype), 1, which, best)
        for n in range(shares.shape[1]):
            gate, up, down = (part[n] for part in parts)
            y = ops.linear(self._gated(ops.linear(x, gate), ops.linear(x, up)), down)
            y = y * shares[:, n : n + 1]
            found = y if found is None else found + y
        return found
