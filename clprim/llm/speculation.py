"""Guesses of the next tokens, which a model checks all at once (Leviathan and others, 2023)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clprim.arrays.array import Array

if TYPE_CHECKING:
    from clprim.llm.model import Model

#: Tokens that are checked at a time, filled up to one of these: the last one and guesses.
ROWS = (1, 2, 4, 8)
# Tokens at the end of a text that are looked for in it, the most first.
_LENGTHS = (3, 2)


class Lookup:
    """What followed where the text had the same tokens before (Saxena, 2023)."""

    def __init__(self) -> None:
        # By some tokens where the last text of them ended.
        self._ends: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def guess(self, text: list[int], most: int) -> list[int]:
        """Returns guesses of what comes next.

        Args:
            text: All tokens so far; a later call has those of this one.
            most: How many.
        """
        for end in range(self._seen + 1, len(text)):
            for length in _LENGTHS:
                if end >= length:
                    self._ends[tuple(text[end - length : end])] = end
        self._seen = max(self._seen, len(text) - 1)
        for length in _LENGTHS:
            place = self._ends.get(tuple(text[-length:]))
            if place is not None:
                return text[place : place + most]
        return []


class Drafts:
    """What a small model of the same tokens takes for the likeliest.

    Args:
        draft: The small model.
        keys: Memory for one text.
        values: Likewise.
    """

    def __init__(self, draft: Model, keys: Array, values: Array) -> None:
        self._draft, self._memory = draft, (keys, values)
        self._there = 0  # Tokens of the text whose keys are there

    def guess(self, text: list[int], most: int) -> list[int]:
        """See `Lookup.guess`."""
        draft, found = self._draft, list[int]()
        at, new = self._there, text[self._there :]
        while len(found) < most:
            token = draft.likeliest(new, at, *self._memory)[-1]
            at, new = at + len(new), [token]
            found.append(token)
        if found:  # behind the text are keys of guesses, which may be wrong
            self._there = len(text)
        return found


def checked(
    model: Model, text: list[int], guesses: list[int], keys: Array, values: Array
) -> list[int]:
    """Returns the guesses that are a model's own likeliest tokens, and the one behind them."""
    found = model.likeliest([text[-1], *guesses], len(text) - 1, keys, values)
    right = next((n for n, guess in enumerate(guesses) if guess != found[n]), len(guesses))
    return found[: right + 1]
