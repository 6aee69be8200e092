"""Kernels that make weights of the products of queries and keys, where no kernel does it all.

Weights are made again for gradients, from the largest score and the sum below it, which are found
again too: rounding takes the sum from its logarithm where scores are far from 0, as behind a mask
of finite numbers.
"""

from __future__ import annotations

from functools import lru_cache

from clprim.ops.shared.exponentials import exponentials
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction


def _score(mask: str, causal: bool) -> str:
    """C for ``s``: a product scaled by w0, masked by x1; of a block that begins at query ``w1``."""
    lines = ["typeof_x0 s = x0 * w0;"]
    if mask == "bool":
        lines.append("s = x1 != 0 ? s : -INFINITY;")
    elif mask:
        lines.append("s += x1;")
    if causal:
        lines.append("s = coord(-1) > coord(-2) + w1 ? -INFINITY : s;")
    return "\n".join(lines)


@lru_cache(maxsize=16)
def query_sums(mask: str, causal: bool) -> Reduction:
    """In one read of a query: log Σ exp(s), the largest s, and 1 / Σ exp(s − it), 0 of nothing."""
    return Reduction(
        _score(mask, causal) + "y0 = s;",
        **exponentials("y0"),
        finalize="""
            y0 = reduce_y0 == INFINITY ? NAN : reduce_y0 + log(reduce_y1);
            y1 = reduce_y0;
            y2 = reduce_y0 == -INFINITY && !isnan(reduce_y1) ? 0 : 1 / reduce_y1;
        """,
        name="attention_sums",
    )


def _weight(mask: str, causal: bool) -> str:
    """C for ``p``: exp(s − the largest) / Σ; a query that sees no key has no weights."""
    most, part = ("x2", "x3") if mask else ("x1", "x2")
    return f"{_score(mask, causal)} typeof_x0 p = {part} == 0 ? 0 : exp(s - {most}) * {part};"


@lru_cache(maxsize=32)
def weights(mask: str, causal: bool, dropout: bool) -> Pointwise:
    """Weights, with dropout, of products, a mask, and what `query_sums` gives but the logarithm."""
    number = 1 + causal
    drop = f"rand() < w{number} ? 0 : p * w{number + 1}" if dropout else "p"
    return Pointwise(f"{_weight(mask, causal)} y0 = {drop};", name="attention_weights")


@lru_cache(maxsize=32)
def weights_gradient(mask: str, causal: bool, dropout: bool, wanted: bool) -> Pointwise:
    """The weights as above, the gradient in the products, and if wanted that in the mask.

    Arrays: as of `weights`, gradient in the weights, Σ grad · out of a query.
    """
    slope, delta = ("x4", "x5") if mask else ("x3", "x4")
    number = 1 + causal
    keep = f"rand() < w{number} ? 0 : w{number + 1}" if dropout else "1"
    text = f"""{_weight(mask, causal)}
        typeof_y0 keep = {keep};
        y0 = p * keep;
        typeof_y0 slope = p * ({slope} * keep - {delta});
        y1 = slope * w0;
    """
    return Pointwise(f"{text} y2 = slope;" if wanted else text, name="attention_gradient")
