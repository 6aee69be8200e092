"""The recipes of `docs/cookbook.md`, which holds strings, calls and NumPy's word; their speed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import clprim as cp
from bench.case import Call, Host, Options
from bench.limits import Ceilings
from bench.options import DRAFTS, repeats_of, told
from bench.table import setting
from bench.timing import measured_call, race

COOKBOOK = Path(__file__).resolve().parents[1] / "docs" / "cookbook.md"
_RECIPE = re.compile(
    r"^## (?P<title>.*)\n\n```python\nop = (?P<define>(?:.|\n)*?)\n(?P<call>op\(.*?\))  # "
    r"(?P<numpy>.*)\n```\n\n\*\*(?P<speed>.*?)\*\* of a copy",
    re.M,
)


class Recipe(NamedTuple):
    """An operator of the page: what makes it, how it is called, the same in NumPy, its speed."""

    title: str
    define: str
    call: str
    numpy: str
    speed: str


def recipes() -> list[Recipe]:
    """Return those of the page, whose strings are what is run."""
    text = COOKBOOK.read_text(encoding="utf-8")
    return [Recipe(**match.groupdict()) for match in _RECIPE.finditer(text)]


def inputs(side: int) -> dict[str, Host]:
    """Return the arrays that recipes are called with: x, z, a row b, and indices i."""
    random = np.random.default_rng(0)
    return {
        "x": random.uniform(-2, 2, (side, side)).astype(np.float32),
        "z": random.uniform(0.5, 2, (side, side)).astype(np.float32),
        "b": random.uniform(-1, 1, side).astype(np.float32),
        "i": random.integers(0, side, (side, side), np.int32),
    }


def prepared(recipe: Recipe, arrays: dict[str, Any]) -> Call:
    """Return the call of a recipe, with results in a tuple."""
    names = {"cp": cp, "np": np, **arrays}
    names["op"] = eval(recipe.define, names)
    code = compile(recipe.call, recipe.title, "eval")

    def call() -> tuple[Any, ...]:
        found = eval(code, names)
        return found if isinstance(found, tuple) else (found,)

    return call


def command(args: Options, say: Callable[[str], None]) -> int:
    """Measure all recipes beside a copy of as many bytes, and write the page with their speeds."""
    device, side = cp.current_device(), 64 if args.quick else 4096
    repeats = repeats_of(args)
    arrays = {name: cp.asarray(host) for name, host in inputs(side).items()}
    ceilings, speeds = Ceilings(device), {}
    for recipe in recipes():
        say(recipe.title)
        call = prepared(recipe, arrays)
        names = set(compile(recipe.call, "", "eval").co_names) & set(arrays)
        nbytes = sum(arrays[name].nbytes for name in names) + sum(y.nbytes for y in call())
        contenders = [measured_call("clprim", nbytes, call, device)]
        contenders += ceilings.finalists("copy", nbytes)
        results = race(contenders, repeats, before=ceilings.before(nbytes))
        # The fastest run of each: whatever else the machine does only slows one down.
        fastest = {name: min(r.seconds("device")) / r.work for name, r in results.items()}
        mine = fastest.pop("clprim")
        speeds[recipe.title] = f"{100 * min(fastest.values()) / mine:.0f} %"
        print(f"{speeds[recipe.title]:>6}  {recipe.title}")
    text = COOKBOOK.read_text(encoding="utf-8")
    for title, speed in speeds.items():
        pattern = rf"(^## {re.escape(title)}\n\n```(?:.|\n)*?```\n\n\*\*).*?(\*\* of a copy)"
        text = re.sub(pattern, rf"\g<1>{speed}\g<2>", text, count=1, flags=re.M)
    where = setting(device, told(args))
    measured = f"Measured: {where['device']}; {where['run']}."
    text = re.sub(r"^Measured: .*$", lambda _: measured, text, flags=re.M)
    path = COOKBOOK if args.ship else (args.output or DRAFTS) / "cookbook.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"written: {path}")
    return 0
