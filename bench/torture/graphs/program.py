"""A drawn function as a value: what it is given, its lines, what it returns; it prints as a script.

Everything is text, so that lines can be taken out and what is left still runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import clprim as cp
from clprim import ops

_IMPORTS = "from collections.abc import Sequence\nfrom typing import Any\n\n"
_NAME = re.compile(r"\b[acv]\d+\b")


def numbers(kind: str, shape: Sequence[int], dtype: str, most: int, seed: Sequence[int]) -> Any:
    """Returns contents of a kind; indices lie below ``most``, whole numbers up to it."""
    random = np.random.default_rng(seed)
    if kind in ("index", "whole"):
        least = 0 if kind == "index" else -most
        return random.integers(least, most + (kind == "whole"), shape).astype(dtype)
    if kind == "smooth":
        return random.uniform(-1, 1, shape).astype(dtype)
    found = random.standard_normal(shape).astype(dtype)
    some = random.random(shape) < 0.15
    special = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-40, -1e-42, 1.0, -1.0], dtype)
    found[some] = random.choice(special, int(some.sum()))
    return found


@dataclass(frozen=True)
class Given:
    """An array that a function is given, or that it captures."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    view: str = ""
    kind: str = "whole"
    most: int = 3
    of: str = ""
    frozen: bool = False

    def text(self, seed: str) -> str:
        """What makes its whole on the host."""
        number = int(self.name[1:]) + 1000 * (self.name[0] == "c")
        seed = "0" if self.frozen else seed
        told = f'"{self.kind}", {self.shape}, "{self.dtype}", {self.most}'
        return f"numbers({told}, [{seed}, {number}])"

    def whole(self, seed: int) -> Any:
        return cp.asarray(eval(self.text(str(seed)), {"numbers": numbers}))

    def taken(self, whole: Any) -> Any:
        return eval(f"whole{self.view}", {"whole": whole})


@dataclass(frozen=True)
class Program:
    """A function of statements."""

    given: tuple[Given, ...]
    lines: tuple[str, ...]
    returned: tuple[str, ...]
    error: float = 5e-6

    @property
    def arguments(self) -> list[Given]:
        return [g for g in self.given if g.name[0] == "a"]

    def function(self, captured: dict[str, Any]) -> Callable[..., Any]:
        names: dict[str, Any] = {"np": np, "cp": cp, "ops": ops, **captured}
        exec(compile(self.body(), "drawn.py", "exec"), names)
        function: Callable[..., Any] = names["f"]
        return function

    def body(self) -> str:
        head = f"def f({', '.join(g.name for g in self.arguments)}):"
        lines = [*self.lines, f"return [{', '.join(self.returned)}]"]
        return "\n".join([head, *(f"    {line}" for line in lines), ""])

    def contents(self, seed: int) -> dict[str, Any]:
        return {g.name: g.whole(seed) for g in self.given if not g.of}

    def views(self, wholes: dict[str, Any]) -> dict[str, Any]:
        """Returns what is given, by name, of wholes."""
        return {g.name: g.taken(wholes[g.of or g.name]) for g in self.given}

    def used(self) -> Program:
        """Returns the program without what nothing uses."""
        lines: list[str] = []
        wanted = set(self.returned)
        for line in reversed(self.lines):
            made = made_by(line)
            if not made or wanted & set(made):
                lines.append(line)
                wanted |= names_in(line)
        known = [
            g for g in self.given if g.name in wanted or any(o.of == g.name for o in self.given)
        ]
        return replace(self, given=tuple(known), lines=tuple(lines[::-1]))

    def script(self) -> str:
        """Returns the program as Python that says whether the compiled call differs."""
        wholes = [f"    {g.name} = cp.asarray({g.text('seed')})" for g in self.given if not g.of]
        views = [f"        {g.name}={g.of or g.name}{g.view}," for g in self.given]
        frozen = tuple(g.name for g in self.given if g.frozen)
        captured = [g.name for g in self.given if g.name[0] == "c"]
        names = ", ".join(g.name for g in self.arguments)
        body = self.body()
        if captured:
            inner = body.replace("\n", "\n    ").rstrip()
            body = f"def f_over({', '.join(captured)}):\n    {inner}\n    return f\n"
        over = [f"{which}[{name!r}]" for which in ("first",) for name in captured]
        made = f"f_over({', '.join(over)})" if captured else "f"
        other = made.replace("first", "second")
        return "\n".join(
            [
                _IMPORTS + "import numpy as np\n\nimport clprim as cp\nfrom clprim import ops\n",
                f"cp.options(convolution_error={self.error})\n\n",
                inspect.getsource(numbers) + "\n",
                body + "\n",
                "def given(seed):",
                *wholes,
                "    return dict(",
                *views,
                "    )\n\n",
                "first, second = given(1), given(1)",
                f"plain, compiled = {made}, cp.jit({other}, constants={frozen})",
                f"names = {[g.name for g in self.arguments]}",
                "a, b = (",
                "    [*f(*map(given.get, names)), *given.values()]",
                "    for f, given in ((plain, first), (compiled, second))",
                ")",
                f"print(compiled.graph(*map(second.get, names)))  # {names}",
                "for x, y in zip(a, b, strict=True):",
                "    np.testing.assert_array_equal(x.get(), y.get(), strict=True)",
                "",
            ]
        )


def names_in(text: str) -> set[str]:
    return set(_NAME.findall(text))


def made_by(line: str) -> list[str]:
    """Names that a line makes; none where it writes to what is there."""
    left = re.match(r"((?:v\d+(?:, )?)+) = ", line)
    return _NAME.findall(left[1]) if left else []
