"""A language model: text in, text out, a token at a time on the device."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, empty
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.graph.jit import Function, jit
from clprim.llm.architectures import sizes_of
from clprim.llm.chat import chat_text
from clprim.llm.gguf import read_gguf
from clprim.llm.network import Network
from clprim.llm.sampling import GREEDY, Rule, Sampling, choose
from clprim.llm.speculation import ROWS, Drafts, Lookup, checked
from clprim.llm.tokenizer import Pieces, tokenizer_of
from clprim.ops.attention.static import KeyValueCache, stored_as
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.dims import whole
from clprim.runtime.device import current_device, on
from clprim.text_table import format_table

#: Tokens of a prompt that are computed at a time; what is left over is filled up to one of these.
TILES = (16, 128, 512)
Piece = tuple[int, int, Any]
# Tokens that there is room for where nothing is said: a cache grows with them.
_ROOM = 4096


class Model:
    """A language model on a device; `clprim.llm.load` makes one.

    Attributes:
        metadata: Of its file.
        tokenizer: Its pieces of text.
        context: How many tokens a text may have, those of a prompt among them.
    """

    def __init__(self, file: Any, context: int | None, launches: str, cache: Any) -> None:
        self.metadata, self.device = file.metadata, current_device()
        self.tokenizer = tokenizer_of(file.metadata)
        sizes = sizes_of(file.metadata)
        room = min(sizes.context, _ROOM)
        most = room if context is None else whole("load", "context", context, 1)
        if most > sizes.context:
            raise ShapeError(f"load: context={most}: the model's limit is {sizes.context} tokens")
        self.context, self._stored = most, stored_as("load: cache", cache)
        # What fills a tile up has places behind the last one.
        self.network = network = Network(file, most + TILES[-1])
        if network.vocabulary < len(self.tokenizer.pieces):
            raise DefinitionError(
                f"load: {len(self.tokenizer.pieces)} tokens have a text, but only "
                f"{network.vocabulary} an embedding"
            )
        self._formats = [(tensor.format, tensor.nbytes) for tensor in file.tensors.values()]
        self._spare: dict[str, Any] = {}

        def token(
            ids: Any, place: Any, last: Any, nth: Any, keys: Any, values: Any, rule: Any, told: Any
        ) -> Any:
            hidden = network.hidden(ids, place, keys, values)
            hidden = hidden if last is None else ops.index_select(hidden, 0, last)
            numbers, draws, counts = told
            found = choose(network.logits(hidden), rule, numbers, draws, counts, nth)
            return found, place + ids.shape[0], nth + 1

        def scores(ids: Any, place: Any, keys: Any, values: Any) -> Any:
            return network.logits(network.hidden(ids, place, keys, values))

        def likeliest(ids: Any, place: Any, keys: Any, values: Any) -> Any:
            return ops.argmax(scores(ids, place, keys, values), 1)

        self._prompt, self._scores, self._likeliest = (
            jit(each, launches=launches) for each in (token, scores, likeliest)
        )
        # Of one token after another kernels become one launch at once, where that pays.
        self._token = Function(token, (), False, launches, often=True)

    def __repr__(self) -> str:
        return f"<clprim.llm.Model {self.network.sizes.name} on {self.device.name}>"

    def tokenize(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]:
        """Returns the tokens of a text.

        Args:
            text: A string.
            special: Whether pieces such as ``<bos>`` in the text are those tokens.
            bos: Whether to begin with the token that does so; by default as the file says.
        """
        return self.tokenizer.encode(text, special=special, bos=bos)

    def detokenize(self, ids: Any) -> str:
        """Returns the text of tokens; special ones have none."""
        return self.tokenizer.decode(ids.get() if is_array(ids) else ids)

    def chat(self, messages: str | Sequence[Mapping[str, Any]]) -> list[int]:
        """Returns the tokens of a chat, up to where an answer begins, by the file's template.

        Args:
            messages: Dicts of ``role`` and ``content``, or what a user says as a string.

        Raises:
            DefinitionError: The file has no template, or it refuses these messages.
        """
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        found = self.tokenizer.encode(chat_text(said, self.tokenizer), special=True, bos=False)
        bos = self.tokenizer.bos
        if self.tokenizer.begins and bos is not None and found[:1] != [bos]:
            return [bos, *found]
        return found

    def logits(self, ids: Any, *, cache: Any = "float32") -> Array:
        """Returns the scores of what comes after each of some tokens.

        Args:
            ids: Tokens, (L,) or (1, L): numbers or an array.
            cache: Of what dtype keys and values are, as of `load`.

        Returns:
            (L, V), or (1, L, V), of float32.

        Raises:
            ShapeError: No tokens, more than there is room for, or a number that is none's.
        """
        given = np.asarray(ids.get() if is_array(ids) else ids)
        flat = given[0] if given.ndim == 2 and len(given) == 1 else given
        if flat.ndim != 1:
            raise ShapeError(f"logits: ids have shape {given.shape}, expected (L,) or (1, L)")
        numbers = self._checked("logits", flat.tolist(), 0)
        with on(self.device), self.cache(stored_as("logits: cache", cache)) as memory:
            out = empty((len(numbers), self.network.vocabulary), "float32")
            for at, count, tile in tiles(numbers):
                found = self._scores(asarray(tile), one_of(at), memory.keys, memory.values)
                out[at : at + count] = found[:count]
        return out.reshape((*given.shape, -1))

    def generate(
        self,
        prompt: str | Sequence[int],
        tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        draft: str | Model | None = None,
    ) -> Generation:
        """Continues a text; yields pieces of it as they come.

        Args:
            prompt: A text, or tokens such as those of `chat`.
            tokens: How many to add at most; the model may end its text before.
            temperature: What scores are divided by before a token is drawn; 0 takes the token of
                the greatest score.
            top_k: How many tokens of the greatest scores may be drawn; 0 for all.
            top_p: Of these only the fewest whose probabilities add up to it (Holtzman and others,
                2020).
            min_p: None less probable than this part of the most probable one's.
            repetition_penalty: What scores of tokens that were there, in the prompt too, are
                divided by, or multiplied with where they are negative (Keskar and others, 2019).
            presence_penalty: What is taken off them.
            frequency_penalty: Likewise, for each time.
            seed: Of the draws: the same one gives the same text on the same device.
            stop: Texts that end it, which are not given out.
            draft: What guesses tokens that are then computed at once: ``"lookup"``, what followed
                the last tokens where they were before, or a small model of the same tokens. The
                text is the same, of the greatest scores alone.

        Returns:
            An iterator of strings that knows its tokens and times; see `Generation`.

        Raises:
            ShapeError: No tokens, or more than there is room for, which names the limit.
            DefinitionError: A setting out of its range.
        """
        if isinstance(prompt, str):
            prompt = self.tokenize(prompt)
        count = whole("generate", "tokens", tokens, 0)
        numbers = self._checked("generate", prompt, count)
        penalties = repetition_penalty, presence_penalty, frequency_penalty
        sampling = Sampling(temperature, top_k, top_p, min_p, penalties, seed)
        texts = tuple(stop) if isinstance(stop, Iterable) and not isinstance(stop, str) else (stop,)
        if not all(isinstance(text, str) and text for text in texts):
            raise DTypeError(f"generate: stop={quoted(stop)}: expected strings")
        if draft is not None:
            self._check_draft(draft, sampling, len(numbers) + count)
        return Generation(self, numbers, count, sampling, texts, draft)

    def _check_draft(self, draft: Any, sampling: Sampling, most: int) -> None:
        if draft != "lookup" and not isinstance(draft, Model):
            raise DTypeError(f"generate: draft={quoted(draft)}: expected 'lookup' or a model")
        if not sampling.rule.plain:
            raise DefinitionError("generate: draft= needs temperature=0 and no penalties")
        if isinstance(draft, Model):
            if draft.tokenizer.pieces != self.tokenizer.pieces:
                raise DefinitionError(f"generate: draft={draft} has other tokens")
            if most > draft.context:
                raise ShapeError(
                    f"generate: {most} tokens are more than the draft's context of {draft.context}"
                )

    def explain(self) -> str:
        """Returns what the model is, where its memory goes and what a token launches."""
        s = self.network.sizes
        by_format: dict[str, list[int]] = {}
        for name, nbytes in self._formats:
            by_format.setdefault(name, []).append(nbytes)
        rows = [(n, len(each), f"{sum(each) / 1e6:.1f}") for n, each in sorted(by_format.items())]
        with on(self.device), self.cache() as cache:
            text = self._token.explain(*self._arguments([0], cache))
            room = (cache.keys.nbytes + cache.values.nbytes) / 1e6
        return (
            f"{s.name}: {s.layers} layers of {s.width}, {s.heads} heads of {s.size} that share "
            f"{s.key_heads}, {self.network.vocabulary} tokens\n"
            f"a text of {self.context} tokens keeps {room:.1f} MB\n"
            f"{format_table(('format', 'tensors', 'MB'), rows)}\n\na token:\n{text}"
        )

    def prefill(
        self, piece: Piece, end: int, keys: Array, values: Array, rule: Rule, told: Any
    ) -> Array:
        """Computes a piece of a prompt, and returns the token behind it, (1,).

        Args:
            piece: One of `tiles`.
            end: How many tokens the prompt has.
            keys: A cache's memory.
            values: Likewise.
            rule: How the token is chosen.
            told: What that reads, as `Sampling.arrays` returns it.
        """
        at, count, tile = piece
        if at + count < end:  # only the last token counts: what others choose is not looked at
            told = *told[:2], None if told[2] is None else told[2].copy()
        given = asarray(tile), one_of(at), one_of(count - 1), one_of(0), keys, values
        ids, *_ = self._prompt(*given, rule, told)
        return ids

    def likeliest(self, ids: Sequence[int], place: int, keys: Array, values: Array) -> list[int]:
        """Returns the token of the greatest score behind each of some tokens.

        Args:
            ids: Tokens; of more than `ROWS` has, only what comes behind all of them is returned.
            place: Of the first one.
            keys: A cache's memory.
            values: Likewise.
        """
        with on(self.device):
            if len(ids) > ROWS[-1]:
                told = GREEDY.arrays(1, [], self.network.vocabulary)
                for at, count, tile in tiles(ids):
                    piece = place + at, count, tile
                    last = self.prefill(piece, 0, keys, values, GREEDY.rule, told)
                return [int(last.get()[0])]
            rows = np.zeros(next(n for n in ROWS if n >= len(ids)), np.int32)
            rows[: len(ids)] = ids
            found = self._likeliest(asarray(rows), one_of(place), keys, values)
            return [int(n) for n in found.get()[: len(ids)]]

    def new_cache(self, texts: int = 1, dtype: str | None = None) -> KeyValueCache:
        """Returns memory for the keys and values of some texts, and of what fills a tile up."""
        s = self.network.sizes
        sizes = s.layers, texts, s.key_heads, self.context + TILES[-1], s.size
        return KeyValueCache(*sizes, dtype or self._stored)

    def _arguments(self, ids: Sequence[int], cache: Any) -> tuple[Any, ...]:
        """What a step of the greatest scores is called with."""
        told = GREEDY.arrays(1, [], self.network.vocabulary)
        given = asarray(np.array(ids, np.int32)), one_of(0), None, one_of(0)
        return *given, cache.keys, cache.values, GREEDY.rule, told

    def _checked(self, what: str, ids: Any, more: int) -> list[int]:
        """Returns tokens, of which there is room for as many more."""
        if not hasattr(ids, "__iter__"):
            raise DTypeError(f"{what}: expected tokens or a string, got {quoted(ids)}")
        numbers = [self.tokenizer.checked(n) for n in ids]
        if not numbers:
            raise ShapeError(f"{what}: expected a token at least")
        if len(numbers) + more > self.context:
            added = f" and {more} more" if more else ""
            raise ShapeError(
                f"{what}: {len(numbers)} tokens{added} are more than the context of "
                f"{self.context}, which load(context=) sets, up to "
                f"{self.network.sizes.context} of this model"
            )
        return numbers

    @contextmanager
    def cache(self, dtype: str | None = None) -> Iterator[Any]:
        """Memory for one text, which is another's later; scores alone are as exact as can be."""
        dtype = dtype or self._stored
        found = self._spare.pop(dtype, None) or self.new_cache(1, dtype)
        try:
            yield found
        finally:
            self._spare[dtype] = found


class Generation(Iterator[str]):
    """A text that is being continued: pieces of it, and what they took.

    Attributes:
        prompt_tokens: How many tokens the prompt had.
        tokens: Those that were added so far.
        prefill_seconds: How long the prompt took.
        seconds: How long the tokens after the first one took.
    """

    def __init__(
        self,
        model: Model,
        prompt: list[int],
        count: int,
        sampling: Sampling,
        stop: Sequence[str],
        draft: str | Model | None = None,
    ) -> None:
        self.prompt_tokens, self.tokens = len(prompt), list[int]()
        self.prefill_seconds = self.seconds = 0.0
        self.model, self.prompt, self.count = model, prompt, count
        self.sampling, self.stop, self.draft = sampling, stop, draft
        self._pieces = self._texts()

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """Ends it."""
        self._pieces.close()

    def _texts(self) -> Generator[str, None, None]:
        """Yields text that cannot be the begin of one that ends it."""
        pieces = Pieces(self.model.tokenizer, self.stop)
        for token in self._numbers():
            text = pieces.add(token)
            if text:
                yield text
            if pieces.ended:
                return
        text = pieces.end()
        if text:
            yield text

    def _numbers(self) -> Iterator[int]:
        """Yields tokens up to one that ends a text."""
        if not self.count:
            return
        with self.model.cache() as cache:
            numbers = self._chosen(cache.keys, cache.values)
            started = time.perf_counter()
            for token in numbers:
                spent = time.perf_counter() - started
                if self.tokens:
                    self.seconds += spent
                else:
                    self.prefill_seconds = spent
                if token in self.model.tokenizer.ends:
                    return
                self.tokens.append(token)
                yield token
                if len(self.tokens) == self.count:
                    return
                started = time.perf_counter()

    def _chosen(self, keys: Array, values: Array) -> Iterator[int]:
        """Yields tokens without an end."""
        model, rule = self.model, self.sampling.rule
        with on(model.device):
            told = self.sampling.arrays(self.count, self.prompt, model.network.vocabulary)
            for piece in tiles(self.prompt):
                ids = model.prefill(piece, self.prompt_tokens, keys, values, rule, told)
            place, nth = one_of(self.prompt_tokens), one_of(1)
            token = int(ids.get()[0])
        yield token
        if self.draft is not None:
            yield from self._guessed(token, keys, values)
        while True:
            with on(model.device):
                ids, place, nth = model._token(ids, place, None, nth, keys, values, rule, told)
                token = int(ids.get()[0])
            yield token

    def _guessed(self, token: int, keys: Array, values: Array) -> Iterator[int]:
        """Likewise after the first one, several of which are computed at once."""
        text = [*self.prompt, token]
        draft = self.draft if isinstance(self.draft, Model) else None
        with draft.cache() if draft else nullcontext() as cache:
            guesser = Drafts(draft, cache.keys, cache.values) if draft and cache else Lookup()
            rows = 2
            while True:
                guesses = guesser.guess(text, min(rows, self.count - len(self.tokens)) - 1)
                found = checked(self.model, text, guesses, keys, values)
                # After wrong guesses fewer are made: they take time as well.
                if guesses:
                    rows = min(2 * rows, ROWS[-1]) if len(found) > len(guesses) else 2
                text += found
                yield from found


def one_of(number: int) -> Array:
    """Returns a number as a step takes it."""
    return asarray(np.array([number], np.int32))


def tiles(numbers: Sequence[int], most: int = TILES[-1]) -> Iterator[Piece]:
    """Yields where each tile of tokens begins, how many are in it, and all of its numbers.

    Args:
        numbers: Tokens.
        most: Of a tile, one of `TILES`.
    """
    at = 0
    while at < len(numbers):
        left = len(numbers) - at
        size = next((n for n in TILES if n >= min(left, most)), most)
        found = np.zeros(size, np.int32)
        found[: min(left, size)] = numbers[at : at + size]
        yield at, min(left, size), found
        at += size


def load(
    path: Any,
    device: Any = None,
    *,
    context: int | None = None,
    launches: str = "auto",
    cache: Any = "float16",
) -> Model:
    """Reads a language model from a GGUF file, or from all files of a split one.

    Args:
        path: Of the file, of a split one the first.
        device: Where it runs, in the words of `cp.set_device`; by default the current one.
        context: How many tokens a text may have; by default what the model was made for, but no
            more than 4096: the memory of keys and values grows with it.
        launches: How the kernels of a token are launched, as of `cp.jit`.
        cache: Dtype of keys and values, as of `ops.KeyValueCache`: int8 takes half of the memory.

    Raises:
        DefinitionError: No such file; an architecture, tokenizer or format that is not there, with
            those that are; tensors or metadata that do not fit the model.
        ShapeError: A larger context than the model's, or a tensor of another shape.
        DeviceError: The device has no memory for it.

    Example:
        >>> import clprim.llm
        >>> model = clprim.llm.load("gemma-3-270m-q4_k_m.gguf")  # doctest: +SKIP
        >>> "".join(model.generate("The capital of France is", tokens=8))  # doctest: +SKIP
        ' the capital of the country of France.'
    """
    file = read_gguf(path)
    with nullcontext() if device is None else on(device):
        return Model(file, context, launches, cache)
