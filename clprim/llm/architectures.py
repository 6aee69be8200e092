"""Architectures of language models as data, and the sizes that a file says of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clprim.errors import DefinitionError, quoted


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What distinguishes models of a name; biases are there where a file has some."""

    interleaved: bool = False  # Whether rotary embedding turns neighbours, or halves of a head
    gelu: bool = False  # Of the gate, or else silu
    scaled: bool = False  # Whether embeddings are multiplied with √width
    norms_after: bool = False  # Whether what is added to the residual is normalised as well
    norms_of_heads: bool = False  # Whether queries and keys are
    joined: bool = False  # Whether query, key and value are one product, gate and up another
    every: int = 0  # Every n-th layer sees all keys, where others have a window; 0: none does
    base_of_windows: float | None = None  # Rotary base of layers with a window, if another one
    experts: bool = False
    shares: bool = True  # Whether the weights of the chosen experts add up to 1
    # Number of layers of models whose scores are scaled by the mean width of a head, not its size
    scaled_by_width: int = 0


_GEMMA = {"gelu": True, "scaled": True, "norms_after": True}
#: By ``general.architecture``; SmolLM, Mistral and Mixtral call themselves llama.
ARCHITECTURES = {
    "llama": Architecture(interleaved=True, experts=True),
    "mistral": Architecture(interleaved=True),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(experts=True, shares=False),
    "qwen3": Architecture(norms_of_heads=True),
    "qwen3moe": Architecture(norms_of_heads=True, experts=True),
    "gemma2": Architecture(**_GEMMA, every=2, scaled_by_width=46),
    "gemma3": Architecture(
        **_GEMMA, every=6, norms_of_heads=True, base_of_windows=1e4, scaled_by_width=62
    ),
    "phi3": Architecture(joined=True),
}


class Metadata:
    """What a file says of its model, by names without the architecture's."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        name = metadata.get("general.architecture")
        found = ARCHITECTURES.get(name) if isinstance(name, str) else None
        if found is None or not isinstance(name, str):
            raise DefinitionError(
                f"load: general.architecture={quoted(name)}: expected one of "
                f"{', '.join(ARCHITECTURES)}"
            )
        self.name, self.architecture = name, found

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        found = self._metadata.get(f"{self.name}.{key}", default)
        return str(found)

    def number(self, key: str, default: float | None = None) -> float:
        """A number, or the same one of every layer."""
        full = f"{self.name}.{key}"
        found = self._metadata.get(full, default)
        if hasattr(found, "__len__") and not isinstance(found, str) and len({*found}) == 1:
            found = found[0]
        if found is None or isinstance(found, str | bool) or hasattr(found, "__len__"):
            raise DefinitionError(f"load: {full} is {quoted(found)}, expected a number")
        value = float(found)
        if not math.isfinite(value):
            raise DefinitionError(f"load: {full} is {value}, expected a finite number")
        return value

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number."""
        found = self.number(key, default)
        if found != int(found) or not least <= found < 1 << 31:
            raise DefinitionError(
                f"load: {self.name}.{key} is {found:g}, expected a whole number from {least}"
            )
        return int(found)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a model."""

    name: str
    architecture: Architecture
    layers: int
    width: int
    heads: int
    key_heads: int
    size: int  # Of a head of queries and keys
    features: int  # Of a head of values
    turned: int  # Elements of a head that rotary embedding turns
    context: int
    epsilon: float
    scale: float  # Of scores
    window: int  # 0 where every layer sees all keys
    cap: float  # Of scores; 0 is none
    last_cap: float  # Of logits
    experts: int
    chosen: int

    def windowed(self, layer: int) -> bool:
        """Whether a layer has a window."""
        every = self.architecture.every
        return bool(self.window) and not (every and layer % every == every - 1)


def sizes_of(metadata: Mapping[str, Any]) -> Sizes:
    """Returns the sizes of a file's model.

    Raises:
        DefinitionError: An unknown architecture, with those that are there; a number that is
            missing or makes no sense.
    """
    m = Metadata(metadata)
    kind = m.architecture
    layers, width = m.count("block_count"), m.count("embedding_length")
    heads = m.count("attention.head_count")
    key_heads = m.count("attention.head_count_kv", heads)
    if heads % key_heads:
        raise DefinitionError(f"load: {heads} heads of queries share {key_heads} of keys unevenly")
    size = m.count("attention.key_length", max(1, width // heads))
    turned = m.count("rope.dimension_count", size)
    if turned % 2 or turned > size:
        raise DefinitionError(f"load: {m.name}.rope.dimension_count is {turned} of heads of {size}")
    experts = m.count("expert_count", 0, 0)
    if experts and not kind.experts:
        raise DefinitionError(f"load: {m.name} has {experts} experts: expected none")
    return Sizes(
        name=m.name,
        architecture=kind,
        layers=layers,
        width=width,
        heads=heads,
        key_heads=key_heads,
        size=size,
        features=m.count("attention.value_length", size),
        turned=turned,
        context=m.count("context_length"),
        epsilon=m.number("attention.layer_norm_rms_epsilon"),
        scale=(width / heads if layers == kind.scaled_by_width else size) ** -0.5,
        window=m.count("attention.sliding_window", 0, 0),
        cap=m.number("attn_logit_softcapping", 0.0),
        last_cap=m.number("final_logit_softcapping", 0.0),
        experts=experts,
        chosen=m.count("expert_used_count", 0, 0),
    )
