"""``clprim generate model.gguf "Once upon"``: a language model continues a text."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from clprim.command.words import read_positive
from clprim.runtime.progress import waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    add = parser.add_argument
    add("model", type=Path, help="a .gguf file, of a split one the first")
    add("prompt", help="the text, or with --chat what a user says; - reads it from the input")
    add("--tokens", type=read_positive, default=64, help="tokens to add at most (64)")
    add("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest token")
    add("--top-k", type=int, default=0, help="tokens that may be drawn (all)")
    add("--top-p", type=float, default=1.0, help="of them the fewest of this probability (1)")
    add("--min-p", type=float, default=0.0, help="none below this part of the likeliest (0)")
    add("--repetition-penalty", type=float, default=1.0, help="1, the default, is none")
    add("--seed", type=int, default=0, help="of the draws (0)")
    add("--stop", action="append", default=[], metavar="TEXT", help="ends the text")
    add("--context", type=read_positive, help="tokens there is room for (4096, or the model's)")
    add("--draft", help="what guesses tokens: lookup, or the file of a small model")
    add("--cache", default="float16", help="dtype of keys and values: float16, int8 and others")
    add("--chat", action="store_true", help="put the prompt into the model's template of chats")


def generate(args: argparse.Namespace) -> int:
    """Streams the text to the output, and figures to where errors go."""
    from clprim import llm

    started = time.perf_counter()
    with waiting("loading"):
        model = llm.load(args.model, context=args.context, cache=args.cache)
        lookup = args.draft in (None, "lookup")
        draft = (
            args.draft if lookup else llm.load(args.draft, context=args.context, cache=args.cache)
        )
    loaded = time.perf_counter() - started
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    found = model.generate(
        model.chat(prompt) if args.chat else prompt,
        args.tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
        stop=args.stop,
        draft=draft,
    )
    if not args.chat:
        print(prompt, end="", flush=True)
    for text in found:
        print(text, end="", flush=True)
    print()
    print(
        f"loaded in {loaded:.2f} s; {_rate('prompt', found.prompt_tokens, found.prefill_seconds)}; "
        + _rate("decoding", max(0, len(found.tokens) - 1), found.seconds),
        file=sys.stderr,
    )
    return 0


def _rate(what: str, tokens: int, seconds: float) -> str:
    rate = f", {tokens / seconds:.1f} tokens a second" if tokens and seconds else ""
    return f"{what} {tokens} tokens in {seconds:.2f} s{rate}"
