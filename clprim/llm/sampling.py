"""Which token comes next: chosen on the device, by draws that a seed repeats."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError
from clprim.ops.shared.checks import real
from clprim.ops.shared.dims import whole
from clprim.primitives.pointwise import Pointwise

_WHAT = "generate"
# What is drawn is less than 1, and rounding its product with a sum does not reach the sum.
_MOST_DRAWN = np.float32(1 - 2.0**-20)


class Rule(NamedTuple):
    """What a compiled step depends on: which of the ways to choose are asked for."""

    draws: bool
    penalised: bool
    sorted_: bool
    most: int  # Tokens of the greatest scores that are left; 0 for all

    @property
    def plain(self) -> bool:
        """Whether the token of the greatest score is taken, whatever was there."""
        return not (self.draws or self.penalised)


class Sampling:
    """How a text's tokens are chosen.

    Args:
        temperature: What scores are divided by; 0 takes the token of the greatest score.
        top_k: How many tokens of the greatest scores are left; 0 for all.
        top_p: Of these, the fewest whose probabilities add up to it are left (Holtzman and others,
            2020).
        min_p: Tokens less probable than this part of the most probable one's are not.
        repetition_penalty: What scores of tokens that were there are divided by, or multiplied
            with where they are negative (Keskar and others, 2019).
        presence_penalty: What is taken off them.
        frequency_penalty: Likewise, once for each time.
        seed: Of the draws.
    """

    def __init__(
        self,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        penalties: tuple[float, float, float],
        seed: int,
    ) -> None:
        heat = _number("temperature", temperature, 0, math.inf)
        _number("top_p", top_p, 0, 1)
        _number("min_p", min_p, 0, 1)
        most = whole(_WHAT, "top_k", top_k, 0)
        names = "repetition_penalty", "presence_penalty", "frequency_penalty"
        for name, given in zip(names, penalties, strict=True):
            _number(name, given, -math.inf, math.inf)
        if penalties[0] <= 0:
            raise DefinitionError(f"{_WHAT}: repetition_penalty={penalties[0]}: expected above 0")
        penalised = penalties != (1, 0, 0)
        draws = heat > 0
        self.rule = Rule(draws, penalised, draws and top_p < 1, most if draws else 0)
        self._seed = whole(_WHAT, "seed", seed, 0)
        self._numbers = np.array([heat or 1, top_p, min_p, *penalties], np.float32)

    def arrays(self, count: int, seen: Any, vocabulary: int) -> tuple[Any, Any, Any]:
        """Returns what a step reads: numbers, draws of so many tokens at least, and counts."""
        # Other counts are other arrays for a compiled step, which a few sizes spare it.
        room = 1 << max(8, (count - 1).bit_length())
        draws = np.random.default_rng(self._seed).random(room, np.float32)
        counts = np.bincount(seen, minlength=vocabulary).astype(np.float32)
        return (
            asarray(self._numbers),
            asarray(np.minimum(draws, _MOST_DRAWN)) if self.rule.draws else None,
            asarray(counts) if self.rule.penalised else None,
        )


def _number(label: str, value: Any, least: float, most: float) -> float:
    found = float(real(_WHAT, label, value))
    if not least <= found <= most or not math.isfinite(found):
        raise DefinitionError(
            f"{_WHAT}: {label}={value}: expected a number of {least:g} to {most:g}"
        )
    return found


#: The token of the greatest score.
GREEDY = Sampling(0.0, 0, 1.0, 0.0, (1.0, 0.0, 0.0), 0)

_penalise = Pointwise(
    """
    float s = x0, less = s > 0 ? s / at_x2(3) : s * at_x2(3);
    y0 = x1 > 0 ? less - at_x2(4) - at_x2(5) * x1 : s;
    """,
    name="penalise",
)
# Scores by their temperature, as parts of the greatest one's probability.
_odds = Pointwise("float p = exp((x0 - x1) / at_x2(0)); y0 = p < at_x2(2) ? 0 : p;", name="odds")
# Behind the tokens whose probabilities add up to top_p, of odds, sums up to them, and their sum.
_nucleus = Pointwise("y0 = x1 - x0 < at_x3(1) * x2 || index == 0 ? x0 : 0;", name="nucleus")
_behind = Pointwise("y0 = x0 <= x1 * at_x2(x3);", name="behind", result_type=np.int32)
_least = Pointwise("y0 = min(x0, w0);", name="last_place", result_type=np.int64)
_count = Pointwise("y0 = x0 + (index == x1);", name="count", result_type=np.float32)
_token = Pointwise("y0 = x0;", name="token", result_type=np.int32)


def choose(logits: Any, rule: Rule, numbers: Any, draws: Any, counts: Any, nth: Any) -> Any:
    """Returns the next token, int32 (1,), of scores (1, V).

    Args:
        logits: The scores.
        rule: Which ways are asked for.
        numbers: As `Sampling.arrays` returns them.
        draws: Likewise.
        counts: Likewise, (V,): how often each token was there, to which the new one is added.
        nth: Which draw to take, integers (1,).
    """
    scores = logits[0]
    if rule.penalised:
        scores = _penalise(scores, counts, numbers)
    if rule.draws:
        token = _drawn(scores, rule, numbers, draws, nth)
    else:
        token = ops.argmax(scores, 0, keepdim=True)
    token = _token(token)
    if rule.penalised:
        _count(counts, token, out=counts)
    return token


def _drawn(scores: Any, rule: Rule, numbers: Any, draws: Any, nth: Any) -> Any:
    """Draws a token: the first one up to which probabilities add up to more than a draw."""
    names = None
    if rule.most or rule.sorted_:
        most = scores.shape[0]
        scores, names = ops.topk(scores, min(rule.most or most, most), 0)
        odds = _odds(scores, scores[:1], numbers)
    else:
        odds = _odds(scores, ops.amax(scores, 0, keepdim=True), numbers)
    sums = ops.cumsum(odds, 0)
    if rule.sorted_:
        odds = _nucleus(odds, sums, sums[-1:], numbers)
        sums = ops.cumsum(odds, 0)
    place = ops.sum(_behind(sums, sums[-1:], draws, nth), 0, keepdim=True)
    place = _least(place, sums.shape[0] - 1)
    return place if names is None else ops.index_select(names, 0, place)
