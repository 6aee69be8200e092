"""Words that byte-pair tokenizers split a text into first, by the name of their expression.

The expressions ask for categories of Unicode, which Python's ``re`` does not know: they are matched
against a text of the same length, in which every other character than ASCII is one of ASCII that
is of its kind (a letter, a digit, white space, something else). `unicodedata` says which, so
characters that are newer than it are neither letters nor digits.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from clprim.errors import DefinitionError, quoted

_ENDINGS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_ENDINGS}| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
_LATER = (
    rf"(?i:{_ENDINGS})|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]{{DIGITS}}"
    r"| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_EXPRESSIONS = {
    "gpt-2": _GPT2,
    # Digits are apart before anything else, so what is before one is at an end.
    "smollm": rf"[0-9]|{_ENDINGS}| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?![^\s0-9])|\s+",
    "llama-bpe": _LATER.replace("{DIGITS}", "{1,3}"),
    "qwen2": _LATER.replace("{DIGITS}", ""),
}
_SAME = {
    "llama3": "llama-bpe", "llama-v3": "llama-bpe", "dbrx": "llama-bpe", "smaug-bpe": "llama-bpe",
    "deepseek-r1-qwen": "qwen2", "phi-2": "gpt-2", "mpt": "gpt-2",
}  # fmt: skip
# Those whose words are tokens where the vocabulary has them, whatever the merges say.
_WHOLE = ("llama-bpe", "llama3", "llama-v3")
# Other white space than ASCII's.
_SPACES = {*map(chr, range(0x2000, 0x200B)), *"\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"}
_OTHERS = re.compile(r"[^\x00-\x7f]")


def _alike(match: re.Match[str]) -> str:
    letter = match[0]
    if letter in _SPACES:
        return "\t"  # neither a space nor the end of a line
    return {"L": "a", "N": "0"}.get(unicodedata.category(letter)[0], "!")


class Splitter(NamedTuple):
    """An expression, and whether words may be tokens as they are."""

    expression: re.Pattern[str]
    whole: bool

    def split(self, text: str) -> list[str]:
        """Returns the words, which are all of the text."""
        alike = _OTHERS.sub(_alike, text)
        return [text[m.start() : m.end()] for m in self.expression.finditer(alike)]


def splitter(name: str) -> Splitter:
    """Returns what splits texts as ``tokenizer.ggml.pre`` says.

    Raises:
        DefinitionError: Another name than those that are there.
    """
    known = _SAME.get(name, name)
    if known not in _EXPRESSIONS:
        listed = ", ".join([*_EXPRESSIONS, *_SAME])
        raise DefinitionError(f"tokenizer.ggml.pre={quoted(name)}: expected one of {listed}")
    return Splitter(re.compile(_EXPRESSIONS[known], re.ASCII), name in _WHOLE)
