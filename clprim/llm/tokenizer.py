"""Tokenizers from a file's metadata: text to tokens, and tokens to text as they come.

Two kinds: ``llama``, as SentencePiece's byte-pair models (Kudo and Richardson, 2018), whose pieces
have scores; and ``gpt2``, byte-pairs of bytes with merges in order (Sennrich and others, 2016;
Radford and others, 2019).
"""

from __future__ import annotations

import codecs
import heapq
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.llm.pretokens import splitter

_PREFIX = "tokenizer.ggml."
# Types of pieces, as SentencePiece numbers them.
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)
_SPACE = "\u2581"
# Pieces that end an answer, by the names that models give them.
_ENDS = ("<end_of_turn>", "<|eot_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>")


class Tokenizer(ABC):
    """Pieces of text and their numbers.

    Args:
        metadata: Of a file: ``tokenizer.ggml.…``.

    Attributes:
        pieces: Texts of all tokens.
        bos: The token that begins a text, or None.
        ends: Tokens that end one.

    Raises:
        DefinitionError: Metadata that are missing or do not fit each other.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        self.pieces = [*map(str, self._listed("tokens"))]
        self.types = [*map(int, self._listed("token_type", [_NORMAL] * len(self.pieces)))]
        if len(self.types) != len(self.pieces):
            raise _uneven("types", self.types, self.pieces)
        # Of equal pieces the first one's number is the last that is put.
        self.ids = dict(zip(self.pieces[::-1], range(len(self.pieces))[::-1], strict=True))
        self.bos, self.unknown = self._number("bos"), self._number("unknown")
        ends = {self._number("eos"), self._number("eot")} | {self.ids.get(name) for name in _ENDS}
        self.ends = frozenset(n for n in ends if n is not None)
        self._specials, self._users = self._texts(_CONTROL), self._texts(_USER)

    def _found(self, name: str, default: Any = None) -> Any:
        return self.metadata.get(_PREFIX + name, default)

    def _listed(self, name: str, default: Any = None) -> Sequence[Any]:
        found = self._found(name, default)
        if found is None or isinstance(found, str) or not hasattr(found, "__len__"):
            raise DefinitionError(f"tokenizer: the file has no list {_PREFIX}{name}")
        return found.tolist() if isinstance(found, np.ndarray) else found

    def _number(self, name: str) -> int | None:
        found = self._found(f"{name}_token_id")
        return None if found is None or not 0 <= int(found) < len(self.pieces) else int(found)

    def _texts(self, kind: int) -> dict[str, int]:
        """The tokens of a type that stand for themselves in a text."""
        numbers = (n for n, each in enumerate(self.types) if each == kind)
        return {self.pieces[n].replace(_SPACE, " "): n for n in numbers}

    def encode(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]:
        """Returns the tokens of a text.

        Args:
            text: A string.
            special: Whether pieces such as ``<bos>`` in the text are those tokens.
            bos: Whether to begin with the token that does so; by default as the file says.

        Raises:
            DTypeError: No string.
        """
        if not isinstance(text, str):
            raise DTypeError(f"tokenize: expected a string, got {quoted(text)}")
        found: list[int] = []
        if self.bos is not None and (self.begins if bos is None else bos):
            found.append(self.bos)
        first = True
        for part, known in _parted(text, self._specials if special else ()):
            if known:
                found.append(self._specials[part])
            elif part:
                found += self._encoded(part, first)
            first = known
        return found

    def special_text(self, name: str) -> str:
        """Returns the text of ``bos``, ``eos`` and so on, or none."""
        number = self._number(name)
        return "" if number is None else self.pieces[number]

    @property
    def begins(self) -> bool:
        """Whether a text begins with ``bos`` where nothing else is said."""
        return bool(self._found("add_bos_token", self._begins))

    _begins = False

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of tokens; bytes that are no text become U+FFFD.

        Raises:
            ShapeError: A number that is no token's.
        """
        stream = Stream(self)
        return "".join(map(stream.add, ids)) + stream.end()

    @abstractmethod
    def _encoded(self, text: str, first: bool) -> list[int]:
        """Returns the tokens of a text without special ones, at the beginning or after one."""

    @abstractmethod
    def bytes_of(self, token: int) -> bytes:
        """Returns what a token stands for; special ones for nothing."""

    @property
    def leading(self) -> bool:
        """Whether a text's first space was put there by `encode`."""
        return False

    def checked(self, token: Any) -> int:
        """Returns the number of a token."""
        if isinstance(token, bool) or not hasattr(token, "__index__"):
            raise DTypeError(f"tokens: expected numbers of tokens, got {quoted(token)}")
        if not 0 <= int(token) < len(self.pieces):
            raise ShapeError(
                f"tokens: {int(token)} is no token: expected 0 to {len(self.pieces) - 1}"
            )
        return int(token)


class Stream:
    """Text of tokens that come one by one: a character comes when all its bytes are there."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._leading = tokenizer.leading

    def add(self, token: int) -> str:
        """Returns the text that a token completes."""
        found = self._tokenizer.bytes_of(self._tokenizer.checked(token))
        if found and self._leading:
            found, self._leading = found.removeprefix(b" "), False
        return self._decoder.decode(found)

    def end(self) -> str:
        """Returns what is left, where no token follows."""
        return self._decoder.decode(b"", True)


class Pieces:
    """Text of tokens up to one of some texts that end it; no piece can be the begin of one.

    Attributes:
        ended: Whether one of them came.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        self._stream, self._stop, self._left = Stream(tokenizer), stop, ""
        self._longest = max(map(len, stop), default=1) - 1
        self.ended = False

    def add(self, token: int) -> str:
        """Returns the text that a token completes."""
        self._left += self._stream.add(token)
        ends = [at for at in map(self._left.find, self._stop) if at >= 0]
        if ends:
            self.ended = True
            return self._left[: min(ends)]
        most = min(self._longest, len(self._left))
        held = next((n for n in range(most, 0, -1) if self._begins(self._left[-n:])), 0)
        at = len(self._left) - held
        found, self._left = self._left[:at], self._left[at:]
        return found

    def end(self) -> str:
        """Returns what is left, where no token follows."""
        return "" if self.ended else self._left + self._stream.end()

    def _begins(self, text: str) -> bool:
        return any(each.startswith(text) for each in self._stop)


def _uneven(what: str, found: Sequence[Any], pieces: Sequence[str]) -> DefinitionError:
    return DefinitionError(
        f"tokenizer: {len(found)} {what} of {len(pieces)} tokens: expected one each"
    )


def _parted(text: str, wanted: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yields which of some texts are in another one, the longest first, and what is between."""
    there = sorted((each for each in wanted if each and each in text), key=len, reverse=True)
    at = 0
    for match in re.finditer("|".join(map(re.escape, there)), text) if there else ():
        yield text[at : match.start()], False
        yield match[0], True
        at = match.end()
    yield text[at:], False


class ScoredPieces(Tokenizer):
    """Pieces of which the one with the best score is joined first; unknown characters are bytes."""

    _begins = True

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        super().__init__(metadata)
        self.scores = [*map(float, self._listed("scores"))]
        if len(self.scores) != len(self.pieces):
            raise _uneven("scores", self.scores, self.pieces)
        codes = (self._of_kind(f"<0x{n:02X}>", _BYTE) for n in range(256))
        self._bytes = [self.unknown if code is None else code for code in codes]

    def _of_kind(self, piece: str, *kinds: int) -> int | None:
        number = self.ids.get(piece)
        return number if number is not None and self.types[number] in kinds else None

    @property
    def leading(self) -> bool:
        """See `Tokenizer.leading`."""
        return bool(self._found("add_space_prefix", True))

    def _encoded(self, text: str, first: bool) -> list[int]:
        found: list[int] = []
        for part, known in _parted(" " * (first and self.leading) + text, self._users):
            if known:
                found.append(self._users[part])
                continue
            for piece in self._merged(part.replace(" ", _SPACE)):
                number = self._of_kind(piece, _NORMAL, _UNUSED)
                codes = self._bytes_for(piece) if number is None else (number,)
                found += [code for code in codes if code is not None]
        return found

    def _bytes_for(self, piece: str) -> list[int | None]:
        return [self._bytes[byte] for byte in piece.encode("utf-8", "replace")]

    def _merged(self, text: str) -> list[str]:
        """Joins neighbours to the piece of the best score, the first of equal ones."""

        def rank(piece: str) -> float | None:
            number = self._of_kind(piece, _NORMAL, _UNUSED)
            return None if number is None else -self.scores[number]

        return merged(list(text), lambda a, b: rank(a + b))

    def bytes_of(self, token: int) -> bytes:
        """See `Tokenizer.bytes_of`."""
        kind, piece = self.types[token], self.pieces[token]
        if kind == _BYTE:
            return bytes((int(piece[3:5], 16),))
        if kind in (_CONTROL, _UNKNOWN):
            return b""
        return piece.replace(_SPACE, " ").encode()


class BytePairs(Tokenizer):
    """Bytes of words, of which pairs are joined in the order of a list."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        super().__init__(metadata)
        self._words = splitter(self._found("pre", "gpt-2"))
        pairs = [str(each).partition(" ") for each in self._listed("merges")]
        self._ranks = {(a, b): n for n, (a, _, b) in enumerate(pairs)}
        self._tokens: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=65536)(self._of_word)

    def _encoded(self, text: str, first: bool) -> list[int]:
        del first
        found: list[int] = []
        for part, known in _parted(text, self._users):
            if known:
                found.append(self._users[part])
                continue
            for word in self._words.split(part):
                found += self._tokens(word)
        return found

    def _of_word(self, word: str) -> tuple[int, ...]:
        letters = "".join(LETTERS[byte] for byte in word.encode("utf-8", "replace"))
        if self._words.whole and letters in self.ids:
            return (self.ids[letters],)
        pieces = merged(list(letters), lambda a, b: self._ranks.get((a, b)))
        found = (self.ids.get(piece, self.unknown) for piece in pieces)
        return tuple(number for number in found if number is not None)

    def bytes_of(self, token: int) -> bytes:
        """See `Tokenizer.bytes_of`."""
        kind, piece = self.types[token], self.pieces[token]
        if kind in (_CONTROL, _UNKNOWN):
            return b""
        if kind == _USER or any(letter not in BYTES for letter in piece):
            return piece.encode()
        return bytes(BYTES[letter] for letter in piece)


def merged(pieces: list[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Joins neighbours of the least rank, the first of equal ones, as long as any have one."""
    after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))
    heap: list[tuple[float, int, str, str]] = []

    def look(left: int) -> None:
        right = after[left] if left >= 0 else len(pieces)
        if right < len(pieces):
            found = rank(pieces[left], pieces[right])
            if found is not None:
                heapq.heappush(heap, (found, left, pieces[left], pieces[right]))

    for n in range(len(pieces)):
        look(n)
    while heap:
        _, left, a, b = heapq.heappop(heap)
        right = after[left]
        # What was joined with another neighbour meanwhile is no longer such a pair.
        if right >= len(pieces) or (pieces[left], pieces[right]) != (a, b):
            continue
        pieces[left], pieces[right] = a + b, ""
        after[left] = after[right]
        if after[right] < len(pieces):
            before[after[right]] = left
        look(before[left])
        look(left)
    return [piece for piece in pieces if piece]


def _letters() -> list[str]:
    """What stands for each byte in a ``gpt2`` vocabulary: itself where it can be seen."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (n for n in range(256) if n not in seen)
    found = {n: chr(n) for n in seen} | {n: chr(256 + k) for k, n in enumerate(hidden)}
    return [found[n] for n in range(256)]


LETTERS = _letters()
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}

_KINDS: dict[str, type[Tokenizer]] = {"llama": ScoredPieces, "gpt2": BytePairs}


def tokenizer_of(metadata: Mapping[str, Any]) -> Tokenizer:
    """Returns the tokenizer that a file describes.

    Raises:
        DefinitionError: Another kind than those that are there, or metadata that do not fit.
    """
    name = metadata.get(f"{_PREFIX}model")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DefinitionError(
            f"tokenizer: {_PREFIX}model={quoted(name)}: expected one of {', '.join(_KINDS)}"
        )
    return kind(metadata)
