"""Tables of angles for rotary embedding, scaled as a file says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from clprim.errors import DefinitionError, quoted
from clprim.llm.architectures import Metadata, Sizes

_SCALINGS = ("none", "linear", "longrope")


def tables(
    sizes: Sizes,
    metadata: Mapping[str, Any],
    places: int,
    windowed: bool,
    factors: Mapping[str, np.ndarray[Any, Any]],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns cosines and sines of the angles of places, (places, turned / 2) each.

    Su et al., RoFormer (2021); linear scaling: Chen et al. (2023); factors of frequencies: Llama 3
    (2024), LongRoPE (Ding et al., 2024).

    Args:
        sizes: Of the model.
        metadata: Of the file.
        places: How many.
        windowed: Whether it is for layers with a window.
        factors: What frequencies are divided by, ``rope_freqs``, or for short and long texts
            ``rope_factors_short`` and ``rope_factors_long``.

    Raises:
        DefinitionError: A scaling that is not there, or factors of another length.
    """
    m = Metadata(metadata)
    own = sizes.architecture.base_of_windows if windowed else None
    base = m.number("rope.freq_base", 1e4) if own is None else own
    frequencies = base ** (-np.arange(0, sizes.turned, 2, dtype=np.float64) / sizes.turned)
    kind, loudness, divisor = m.text("rope.scaling.type", "none"), 1.0, factors.get("rope_freqs")
    if kind not in _SCALINGS:
        raise DefinitionError(
            f"load: rope.scaling.type={quoted(kind)}: expected one of {', '.join(_SCALINGS)}"
        )
    if kind == "linear" and own is None:
        frequencies /= m.number("rope.scaling.factor")
    trained = m.count("rope.scaling.original_context_length", sizes.context)
    if "rope_factors_long" in factors:
        long = places > trained
        divisor = factors.get("rope_factors_long" if long else "rope_factors_short")
        more = sizes.context / trained
        usual = math.sqrt(1 + math.log(more) / math.log(trained)) if more > 1 else 1.0
        loudness = m.number("rope.scaling.attn_factor", usual)
    if divisor is not None:
        if divisor.shape != frequencies.shape:
            raise DefinitionError(
                f"load: factors of rotary frequencies have shape {divisor.shape}, "
                f"expected {frequencies.shape}"
            )
        frequencies /= divisor
    angles = np.outer(np.arange(places), frequencies)
    found = (np.cos(angles) * loudness, np.sin(angles) * loudness)
    return found[0].astype(np.float32), found[1].astype(np.float32)
