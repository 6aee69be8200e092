"""Our calls of this checkout and of another one, in turns, each in a child process of its own.

``python -m bench compare --against PATH PAGE …``. Both children have the cases of this checkout;
the parent asks one, then the other for a sample, so that a noisy moment hits both.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_CHILD = (
    "import sys; sys.path.insert(0, {root!r}); from bench.compare import child; child({path!r})"
)


class _Finder:
    """Finds clprim in a checkout, wherever its folders for the package's parts are."""

    def __init__(self, checkout: Path) -> None:
        self._folders = {"clprim": "clprim", "clprim.ops": "ops", "clprim.templates": "templates"}
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        folder = self._checkout / self._folders.get(name, "?")
        if name not in self._folders or not folder.is_dir():
            return None
        start = folder / "__init__.py"
        if start.is_file():
            where = [str(folder)]
            return importlib.util.spec_from_file_location(
                name, start, submodule_search_locations=where
            )
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec


def child(path: str) -> None:
    """Answer the parent's questions, a line of JSON each, with the clprim of a checkout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.meta_path.insert(0, _Finder(Path(path)))
    import clprim as cp

    assert Path(cp.__file__).is_relative_to(path), f"{cp.__file__} is not of {path}"
    asked: dict[str, Any] = {}
    gc.disable()
    for line in sys.stdin:
        what, *told = json.loads(line)
        try:
            found: Any = _ANSWERS[what](asked, *told)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {str(error).strip()[:300]}"}
        print(json.dumps(found), file=answers, flush=True)


def _list(asked: dict[str, Any], name: str, only: str, quick: bool) -> list[list[str]]:
    from bench.cases import PAGES
    from bench.options import defaults_of

    args = defaults_of(name, quick=quick, only=only)
    if "no_starts" in PAGES[name].options:
        args.no_starts = True
    cases = [case for case in PAGES[name].cases(args) if only in case.label]
    asked |= {"page": PAGES[name], "cases": cases, "quick": quick}
    return [[case.group, case.title] for case in cases]


def _prepare(asked: dict[str, Any], number: int) -> str:
    """Make the call of a row, run once; the one before is forgotten."""
    import clprim as cp
    from bench.runner import contenders_of

    asked.pop("contender", None)
    asked.pop("data", None)
    gc.collect()
    device = cp.current_device()
    device.pool.free_held()
    case, page = asked["cases"][number], asked["page"]
    name, make = next(iter(case.makers.items()))
    asked["data"] = case.data()
    call = make(asked["data"])
    found = contenders_of(case, {name: call}, page, device, quick=asked["quick"])
    asked["contender"] = found[name]
    return "ready"


def _run(asked: dict[str, Any]) -> float:
    return float(asked["contender"].run().host)


def _version(asked: dict[str, Any]) -> str:
    import clprim as cp

    return cp.__version__


_ANSWERS: dict[str, Callable[..., Any]] = {
    "list": _list, "prepare": _prepare, "run": _run, "version": _version,
}  # fmt: skip


class _Child:
    """A process with the clprim of a checkout."""

    def __init__(self, checkout: Path) -> None:
        code = _CHILD.format(root=str(_ROOT), path=str(checkout))
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=_ROOT, env={**os.environ, "CLPRIM_DEVICE": _device()},
        )  # fmt: skip

    def ask(self, *what: Any) -> Any:
        """Return the answer to a question.

        Raises:
            RuntimeError: The process ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a child process ended with status {self.process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        with self.process:  # closes both ends, and waits
            pass


def _device() -> str:
    import clprim as cp

    return str(cp.current_device().index)


def command(args: Any, say: Callable[[str], None]) -> int:
    """Print how many times as fast as another checkout's our calls are; 1 where one fails."""
    from bench.options import WrongError, repeats_of
    from bench.table import pipes, ratio_table

    against, repeats = args.against, repeats_of(args)
    if not (against / "clprim").is_dir():
        raise WrongError(f"--against {against}: expected a checkout with the folder clprim")
    both = [_Child(_ROOT), _Child(against.resolve())]
    failures, summary = [], []
    try:
        for page in args.pages:
            mine, theirs = (c.ask("list", page, args.only, args.quick) for c in both)
            if mine != theirs or "error" in mine:
                failures.append(f"{page}: other rows: {mine if 'error' in mine else theirs}")
                continue
            ratios = []
            for number, (group, title) in enumerate(mine):
                label = f"{page}: {group}: {title}"
                say(label)
                ready = [c.ask("prepare", number) for c in both]
                refused = [r["error"] for r in ready if isinstance(r, dict)]
                if refused:
                    failures.append(f"{label}: {'; '.join(refused)}")
                else:
                    ratios.append((f"{group}: {title}", _raced(both, repeats)))
            if ratios:
                table = ratio_table(page, ratios)
                print(f"## {page}: times as fast as {against}\n\n{pipes(*table[1:])}\n", flush=True)
                worst, least = min(ratios, key=lambda pair: pair[1])
                mean = geometric_mean(ratio for _, ratio in ratios)
                summary.append([page, f"{len(ratios)}", f"{mean:.3f}", f"{least:.3f}", worst])
    finally:
        for c in both:
            c.end()
    if summary:
        print(pipes(["page", "rows", "geometric mean", "worst", "where"], summary))
    for failure in failures:
        print(failure, file=sys.stderr)
    return int(bool(failures))


def _raced(both: Sequence[_Child], repeats: int) -> float:
    """The median of all rounds' ratios: who begins changes from round to round."""
    from bench.timing import SETTLE

    for c in both:
        c.ask("run")
    ratios = []
    for turn in range(repeats):
        seconds = [0.0, 0.0]
        for n in (0, 1) if turn % 2 else (1, 0):
            time.sleep(SETTLE)
            seconds[n] = both[n].ask("run")
        ratios.append(seconds[1] / seconds[0])
    return median(ratios)
