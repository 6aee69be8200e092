"""Texts that are continued together over one cache: a token of each at a time.

A text joins while others go on and leaves when it ends (Yu and others, Orca, 2022). It has a row of
the cache for itself, of which its length says how much is there. A prompt is computed in pieces,
between which the others get their tokens.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.creation import asarray
from clprim.errors import DefinitionError, DTypeError, quoted
from clprim.graph.jit import jit
from clprim.llm.model import Generation, Model, one_of, tiles
from clprim.llm.sampling import Rule, choose
from clprim.llm.tokenizer import Pieces
from clprim.ops.shared.dims import whole
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import on

#: How many texts a step may be compiled for: those that are there fill it up.
SIZES = (1, 4, 8, 16)
#: Tokens of a prompt that others wait for.
PIECE = 128

# Where a head's tokens go in the line of all texts' rows; what is behind a row's end nowhere.
_rows = Pointwise(
    "long place = x1 + coord(1);"
    " y0 = place < w0 ? (x0 * size(0) + coord(0)) * w0 + place : LONG_MAX;",
    name="rows",
    result_type=np.int64,
)
_places = Pointwise("y0 = x0 + index;", name="places", result_type=np.int32)


class Text:
    """A text of a batch, or one that waits for its place there.

    Attributes:
        prompt_tokens: How many tokens the prompt has.
        tokens: Those that were added.
        ending: Why it ended: "stop" or "length"; None as long as it goes on.
    """

    def __init__(self, asked: Generation) -> None:
        if asked.draft is not None:
            raise DefinitionError("Batch: draft= is for a text alone")
        self.prompt, self.count = asked.prompt, asked.count
        self.sampling = asked.sampling
        self.prompt_tokens, self.tokens = len(self.prompt), list[int]()
        self.ending: str | None = None
        self.told: Any = None  # What choosing a token reads
        self._pieces = Pieces(asked.model.tokenizer, asked.stop)
        self._ends = asked.model.tokenizer.ends

    def add(self, token: int) -> str:
        """Takes a token in, and returns the text that it completes."""
        if token in self._ends:
            self.ending = "stop"
            return self._pieces.end()
        self.tokens.append(token)
        found = self._pieces.add(token)
        if self._pieces.ended:
            self.ending = "stop"
        elif len(self.tokens) == self.count:
            self.ending = "length"
            found += self._pieces.end()
        return found


class Batch:
    """Texts that a model continues together; each is what it would be alone.

    Args:
        model: The model.
        texts: How many may go on at a time, up to 16; others wait.

    Raises:
        DefinitionError: More than 16.
        DTypeError: No model.
        DeviceError: The device has no memory for so many.

    Example:
        >>> import clprim.llm
        >>> batch = clprim.llm.Batch(clprim.llm.load("model.gguf"))  # doctest: +SKIP
        >>> for prompt in ("Once", "Twice"):  # doctest: +SKIP
        ...     batch.add(batch.model.generate(prompt, tokens=9))
        >>> while batch.busy:  # doctest: +SKIP
        ...     for text, piece in batch.step():
        ...         print(text.prompt_tokens, piece)
    """

    def __init__(self, model: Model, texts: int = SIZES[-1]) -> None:
        if not isinstance(model, Model):
            raise DTypeError(f"Batch: expected a loaded model, got {quoted(model)}")
        most = whole("Batch", "texts", texts, 1)
        if most > SIZES[-1]:
            raise DefinitionError(f"Batch: texts={most}: expected at most {SIZES[-1]}")
        self.model = model
        self._waiting: deque[Text] = deque()
        self._rows: list[Text | None] = [None] * next(n for n in SIZES if n >= most)
        self._most = most
        self._first: tuple[Text, Any] | None = None  # Whose prompt is being computed, and its tiles
        with on(model.device):
            self._cache, self._one = model.new_cache(len(self._rows)), model.new_cache(1)
        network = model.network

        def step(ids: Any, places: Any, keys: Any, values: Any) -> Any:
            count = ids.shape[0]
            scores = network.logits(network.hidden(ids, places, keys[:, :count], values[:, :count]))
            return scores, ops.argmax(scores, 1)

        def pick(scores: Any, row: Any, nth: Any, rule: Rule, told: Any) -> Any:
            numbers, draws, counts = told
            return choose(ops.index_select(scores, 0, row), rule, numbers, draws, counts, nth)

        self._step, self._pick, self._join = jit(step), jit(pick), jit(_join)

    def prepare(self) -> None:
        """Compiles what texts will need, which the first ones would wait for."""
        with on(self.model.device):
            for count in (n for n in SIZES if n <= len(self._rows)):
                none = asarray(np.zeros(count, np.int32))
                self._step(none, none, self._cache.keys, self._cache.values)[1].get()
        for length in (1, min(PIECE, self.model.context - 2)):
            self.add(self.model.generate([0] * length, 2))
        while self.busy:
            self.step()

    @property
    def busy(self) -> bool:
        """Whether a text goes on or waits."""
        return bool(self._waiting or self._first or any(self._rows))

    def add(self, asked: Generation | Text) -> Text:
        """Lets a text wait for its place.

        Args:
            asked: What `Model.generate` returned, of which nothing was read.
        """
        text = asked if isinstance(asked, Text) else Text(asked)
        if text.count:
            self._waiting.append(text)
        else:
            text.ending = "length"
        return text

    def drop(self, text: Text) -> None:
        """Ends a text, whose place is another's then."""
        if text in self._waiting:
            self._waiting.remove(text)
        elif self._first is not None and self._first[0] is text:
            self._first = None
        elif text in self._rows:
            self._rows[self._rows.index(text)] = None

    def clear(self) -> None:
        """Ends all texts."""
        self._waiting.clear()
        self._rows, self._first = [None] * len(self._rows), None

    def step(self) -> list[tuple[Text, str]]:
        """Computes a piece of a prompt, if one waits, and a token of every text that goes on.

        Returns:
            Each text that got a token, and what it reads now: its ``ending`` says whether it ended.
        """
        with on(self.model.device):
            going = [row for row, text in enumerate(self._rows) if text is not None]
            found = self._continued(going) if going else []
            return found + self._begun()

    def _continued(self, going: list[int]) -> list[tuple[Text, str]]:
        count = next(n for n in SIZES if n > going[-1])
        ids, places = np.zeros((2, count), np.int32)
        for row in going:
            text = self._rows[row]
            assert text is not None
            ids[row], places[row] = text.tokens[-1], text.prompt_tokens + len(text.tokens) - 1
        memory = self._cache.keys, self._cache.values
        scores, best = self._step(asarray(ids), asarray(places), *memory)
        chosen: dict[int, Any] = {}
        for row in going:
            text = self._rows[row]
            assert text is not None
            if text.sampling.rule.plain:
                continue
            nth = one_of(len(text.tokens))
            chosen[row] = self._pick(scores, one_of(row), nth, text.sampling.rule, text.told)
        likeliest = best.get() if len(chosen) < len(going) else ()
        found = []
        for row in going:
            text = self._rows[row]
            assert text is not None
            token = int(chosen[row].get()[0] if row in chosen else likeliest[row])
            found.append((text, text.add(token)))
            if text.ending is not None:
                self._rows[row] = None
        return found

    def _begun(self) -> list[tuple[Text, str]]:
        """Computes a piece of the prompt that is next; behind its last one the text goes on."""
        if self._first is None:
            if not self._waiting or self._rows[: self._most].count(None) == 0:
                return []
            text = self._waiting.popleft()
            text.told = text.sampling.arrays(text.count, text.prompt, self.model.network.vocabulary)
            self._first = text, tiles(text.prompt, PIECE)
        text, left = self._first
        piece = next(left)
        memory = self._one.keys, self._one.values
        rule = text.sampling.rule
        token = self.model.prefill(piece, text.prompt_tokens, *memory, rule, text.told)
        if piece[0] + piece[1] < text.prompt_tokens:
            return []
        self._first = None
        found = text, text.add(int(token.get()[0]))
        if text.ending is None:
            row = self._rows.index(None)
            for place in range(0, text.prompt_tokens, PIECE):
                both = self._cache.keys, self._cache.values, *memory
                self._join(*both, one_of(row), one_of(place))
            self._rows[row] = text
        return [found]


def _join(keys: Any, values: Any, new_keys: Any, new_values: Any, row: Any, place: Any) -> Any:
    """Copies a piece of one text's keys and values to a row of others'."""
    heads, room = keys.shape[2:4]
    places = _places(place, shape=(PIECE,))
    rows = _rows(row, place, room, shape=(heads, PIECE)).reshape((-1,))
    for there, new in ((keys, new_keys), (values, new_values)):
        flat = there.reshape((there.shape[0], -1, there.shape[-1]))
        piece = ops.index_select(new, 3, places).reshape((new.shape[0], -1, new.shape[-1]))
        ops.index_copy(flat, 1, rows, piece, out=flat)
    return place
