"""``clprim tune``: times tiles for a script, a network or one problem, and keeps what wins."""

from __future__ import annotations

import argparse
import ast
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import clprim as cp
from clprim import ops
from clprim.command.words import read_positive
from clprim.dtypes import as_dtype
from clprim.errors import ClprimError, DefinitionError, ShapeError
from clprim.plan.families import FAMILIES
from clprim.plan.table import TuningFile
from clprim.runtime.progress import Progress
from clprim.runtime.tables import adopt, known_of, table_file
from clprim.text_table import format_table
from clprim.tune.ask import is_timed, keep, record
from clprim.tune.depthwise import DEPTHWISE
from clprim.tune.measure import Case, Tuned, mean_gain, tune
from clprim.tune.networks import NETWORKS, Layer

_FORMATS = ("contiguous", "channels_last")
# Of a problem's words: what its arrays are, rather than what the operator is told.
_OF_ARRAYS = ("dtype", "memory_format")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    what = parser.add_argument_group("what to tune").add_mutually_exclusive_group(required=True)
    what.add_argument("script", nargs="?", type=Path, metavar="SCRIPT.py", help="a program's calls")
    what.add_argument(
        "--network", metavar="NAME", help=f"layers of {', '.join({**NETWORKS, **DEPTHWISE})}"
    )
    what.add_argument(
        "--problem",
        metavar="WORDS",
        help='an operator, the shapes of its arrays and what it is told: "conv2d 8,64,56,56 '
        '64,64,3,3 padding=1", "matmul 512,256 256,128 dtype=float16"',
    )
    what.add_argument("--export", type=Path, metavar="FILE", help="write the table, to share it")
    what.add_argument(
        "--import",
        type=Path,
        metavar="FILE",
        dest="adopt",
        help="add a table that was exported elsewhere; what was timed here stays",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="of the script")
    parser.add_argument(
        "--batch", type=read_positive, default=8, help="images of a network's layers (8)"
    )
    parser.add_argument("--again", action="store_true", help="time what was timed before, too")


def run(args: argparse.Namespace) -> int:
    """Runs the command and returns the exit status."""
    if args.export is not None:
        return _export(args.export)
    if args.adopt is not None:
        return _import(args.adopt)
    cases = _distinct(_calls(args))
    if not cases:
        print("nothing to tune: nothing was planned that has several tiles")
        return 0
    fresh = [c for c in cases if args.again or not is_timed(known_of(c.device), c.key)]
    found = _tune(fresh)
    if len(fresh) < len(cases):
        print(f"{len(cases) - len(fresh)} were timed before (--again times them too)")
    if fresh:
        _say(found)
    return 1 if any(t.wrong for t in found) else 0


def _calls(args: argparse.Namespace) -> list[tuple[str, Callable[[], Any]]]:
    """Returns what to run, with titles of it; a script's calls have their own."""
    if args.network is not None:
        return _network(args.network, args.batch)
    if args.problem is not None:
        return [(args.problem, partial(_made_and_called, call_of(args.problem)))]
    return [("", _script(args.script, args.arguments))]


def _distinct(calls: Sequence[tuple[str, Callable[[], Any]]]) -> list[Case]:
    """Returns the cases of calls, each of which is run once, of every class the first."""
    progress = Progress(len(calls), sys.stderr)
    found: dict[Any, Case] = {}
    try:
        for title, call in calls:
            if title:
                progress.step("planning", title)
            for case in record(call, title):
                found.setdefault((case.device, case.key), case)
    finally:
        progress.end()
    return [*found.values()]


def _tune(cases: Sequence[Case]) -> list[Tuned]:
    progress = Progress(len(cases), sys.stderr)
    found = []
    start = time.perf_counter()
    try:
        for done, case in enumerate(cases):
            left = (time.perf_counter() - start) / done * (len(cases) - done) if done else 0.0
            progress.step("timing tiles", f"{case.title}{f', {left:.0f} s left' if done else ''}")
            tuned = tune(case)
            if tuned is not None:
                found.append(tuned)
                keep(case.device, {case.key: tuned.entry})
    finally:
        progress.end()
    return found


def _say(found: Sequence[Tuned]) -> None:
    """Prints the gains, the largest first."""
    rows: list[list[object] | None] = [[*t.row] for t in sorted(found, key=lambda t: -t.gain)]
    headers = ["problem", "rule's tile", "ms", "best tile", "ms", "gain", "timed"]
    print(format_table(headers, rows, align="llrlrrr"))
    changed = sum(t.best != t.rule for t in found)
    print(
        f"\n{len(found)} timed, {changed} with another tile than the rule's: "
        f"{mean_gain(found):.3f} times as fast in the geometric mean"
    )
    for t in found:
        for name in t.wrong:
            print(f"clprim: wrong result of {name}: {t.case.title}", file=sys.stderr)


# --- what to run ---------------------------------------------------------------------------------


def _script(path: Path, arguments: Sequence[str]) -> Callable[[], Any]:
    """Returns what runs a script as Python does."""
    if not path.is_file():
        raise DefinitionError(f"{path}: no such script; --network and --problem need none")

    def run() -> None:
        before, folder = sys.argv, str(path.resolve().parent)
        sys.argv = [str(path), *arguments]
        sys.path.insert(0, folder)
        try:
            with suppress(SystemExit):  # a script may end so
                runpy.run_path(str(path), run_name="__main__")
        finally:
            sys.argv = before
            sys.path.remove(folder)

    return run


def _network(name: str, batch: int) -> list[tuple[str, Callable[[], Any]]]:
    """Returns the layers of a network in both memory formats."""
    known = [group[name] for group in (NETWORKS, DEPTHWISE) if name in group]
    if not known:
        names = ", ".join({**NETWORKS, **DEPTHWISE})
        raise DefinitionError(f"--network {name}: expected one of {names}")
    layers = [layer for network in known for layer in network.layers]
    return [
        (
            f"{layer.title}, {memory}",
            partial(_made_and_called, call_of(words_of(layer, batch, memory))),
        )
        for layer in layers
        for memory in _FORMATS
    ]


def words_of(layer: Layer, batch: int, memory: str) -> str:
    """Returns a layer as a problem's words."""
    weight = layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel
    told = " ".join(f"{n}={getattr(layer, n)}" for n in ("stride", "padding", "dilation", "groups"))
    shape = f"{batch},{layer.channels},{layer.size},{layer.size}"
    return f"conv2d {shape} {','.join(map(str, weight))} {told} memory_format={memory}"


def _made_and_called(make: Callable[[], Callable[[], Any]]) -> None:
    make()()


def call_of(text: str) -> Callable[[], Callable[[], Any]]:
    """Reads a problem, an operator, shapes and ``name=value``; what it returns makes its call."""
    name, *words = text.split() or [""]
    operator = getattr(ops, name, None) if name.isidentifier() and name[0] != "_" else None
    if not callable(operator):
        raise DefinitionError(
            f"--problem {text!r}: clprim.ops has no operator {name!r}; expected one such as conv2d "
            "or matmul, then the shapes of its arrays"
        )
    shapes: list[tuple[int, ...]] = []
    told: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if equals:
            told[option] = _value(text, option, value)
            continue
        try:
            shapes.append(tuple(int(size) for size in word.split(",")))
        except ValueError:
            raise ShapeError(
                f"--problem {text!r}: {word!r}: expected a shape as in 8,64,56,56, or name=value"
            ) from None
        if min(shapes[-1]) < 1:
            raise ShapeError(f"--problem {text!r}: {word!r}: sizes of at least 1 are expected")
    if not shapes:
        raise ShapeError(
            f"--problem {text!r}: expected the shapes of the arrays of {name} as well, as in "
            "'matmul 64,128 128,32'"
        )
    dtype, memory = (told.pop(key, None) for key in _OF_ARRAYS)
    as_dtype(dtype or "float32")

    def call(arrays: Sequence[Any]) -> Any:
        try:
            return operator(*arrays, **told)
        except TypeError as error:
            raise DefinitionError(f"--problem {text!r}: {error}") from None

    def make() -> Callable[[], Any]:
        arrays = [
            _array(shape, dtype or "float32", memory if len(shape) == 4 and not n else None)
            for n, shape in enumerate(shapes)
        ]
        if name.startswith("conv") and len(arrays) > 1:
            arrays[1] = ops.pack_weight(arrays[1], groups=told.get("groups", 1))
        return partial(call, arrays)

    return make


def _value(text: str, option: str, value: str) -> Any:
    if option in _OF_ARRAYS:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise DefinitionError(
            f"--problem {text!r}: {option}={value}: expected a number, a tuple, True, False or None"
        ) from None


def _array(shape: tuple[int, ...], dtype: Any, memory: str | None = None) -> Any:
    values = np.random.default_rng(0).standard_normal(shape, np.float32).astype(as_dtype(dtype))
    return cp.asarray(values, memory_format=memory or "contiguous")


# --- tables --------------------------------------------------------------------------------------


def _export(path: Path) -> int:
    device = cp.current_device()
    file = table_file(device)
    try:
        path.write_text(file.text(FAMILIES), encoding="utf-8")
    except OSError as error:
        raise ClprimError(f"--export {path}: {error.strerror}") from None
    print(f"written: {path}, {len(file.entries)} tiles of {device.name}")
    return 0


def _import(path: Path) -> int:
    try:
        file = TuningFile.parse(path.read_text(encoding="utf-8"), FAMILIES)
    except OSError as error:
        raise ClprimError(f"--import {path}: {error.strerror}") from None
    except ValueError as error:
        raise DefinitionError(f"--import {path}: {error}; expected a table of --export") from None
    device = cp.current_device()
    try:
        where, count = adopt(file, device)
    except OSError as error:
        raise ClprimError(f"the table cannot be kept: {error}") from None
    fits = file.is_of_class(device.platform, device.traits)
    whose = "" if fits else f"; {device.name} is not of its class, so nothing changes here"
    print(f"{count} of {len(file.entries)} tiles are new, in {where}{whose}")
    return 0
