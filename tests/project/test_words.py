"""Kernels are described in the field's words, and comments carry no timings."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    file
    for folder, ending in (
        ("clprim/plan", "*.py"),
        ("templates", "*.jinja"),
        ("ops", "*.py"),
        ("docs/kernels", "*.md"),
    )
    for file in sorted((ROOT / folder).rglob(ending))
]
# What was said once, and the field's word for it. Phrases, which nothing else is meant by.
WORDS = {
    r"ask(s|ed|ing)? for (memory|what comes next)|ask_for_\w+": "prefetch",
    r"past (the )?caches?|past_caches?": "streaming store",
    r"steps? of depth": "step of k",
    r"turn(s|ed|ing)? over": "transposed in registers",
    r"woven|weav(e|es|ing)": "interleaved",
}
TIMING = re.compile(
    r"\bMeasured\b|\d of the time\b|\b\d+\.\d+ times as (fast|long)\b|\d [GM]B/s\b|\d GFLOP/s\b"
    r"|\b\d+(\.\d+)? (ms|µs)\b"
)


@pytest.mark.parametrize("word", WORDS)
def test_the_fields_words_are_used(word):
    # A comment may go on in the next line.
    said = re.compile(rf"\b({word})\b".replace(" ", r"[\s#]+"), re.IGNORECASE)
    found = [
        f"{file.relative_to(ROOT)}: {match.group()!r}"
        for file in FILES
        for match in said.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found, f"say: {WORDS[word]}"


def test_no_comment_has_timings():
    found = [
        f"{file.relative_to(ROOT)}: {match.group()!r}"
        for file in FILES
        for match in TIMING.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found, "they belong into bench/results"
