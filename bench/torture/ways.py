"""Strings through which elements go different ways: loops, branches, reads that not all ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.case import Case
from bench.torture.draw import Draw, Host
from clprim import ops

_FAR = 0x0FF00000  # a position that ends the process of whoever reads there
_LARGEST, _SIZE = 3, 8  # of the elements, and of what is read by position
_ONE = "    "
_SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}


class _Words:
    """Draws statements of ``s`` and ``x``, each as OpenCL C and as lines of Python."""

    def __init__(self, draw: Draw, reads: bool, loops: bool) -> None:
        self.draw, self.reads, self.loops = draw, reads, loops
        # Numbers that are the same wherever elements go one way are what vectorisers mix up.
        self.known = ["s", "n", "4", *(["x"] if draw.chance(0.3) else [])]
        self.count = 0

    def term(self) -> str:
        """A number that is the same in both languages."""
        a, b = self.draw.one(self.known), self.draw.one(self.known)
        if self.reads and self.draw.chance(0.3):
            return f"at_x1({a} & 7)"
        return str(self.draw.one((a, a, f"({a} + {b})", f"({a} * 3 - {b})", f"({a} & 3)")))

    def read(self) -> tuple[str, str]:
        """A read that must not be done unless a condition holds: the condition, the value."""
        place = f"({self.draw.one(self.known)} & 7)"
        bound = f"{place} < limit"
        if self.draw.chance(0.3):
            bound = f"at_x2({place}) < {_FAR}"
        parts = [bound, f"{self.term()} > {self.term()}"]
        if self.draw.chance(0.5):
            parts.reverse()
        return " && ".join(parts), f"at_x1(at_x2({place}))"

    def condition(self) -> str:
        """One that elements answer differently, mostly."""
        if self.draw.chance(0.6):
            # An element's own, which does not change in loops, is what compilers take out of them.
            found = f"x {self.draw.one(('<', '>'))} {self.draw.one((-1, 0, 1))}"
        else:
            found = f"{self.term()} {self.draw.one(('<', '>', '<=', '=='))} {self.term()}"
        if self.draw.chance(0.3):
            found = f"({found} {self.draw.one(('&&', '||'))} x > {self.draw.one((-1, 0, 1))})"
        if self.reads and self.draw.chance(0.3):
            found = "({} && {} > 0)".format(*self.read())
        return found

    def block(self, depth: int, loops: int) -> tuple[str, list[str]]:
        parts = [self.statement(depth, loops) for _ in range(int(self.draw.one((1, 1, 2))))]
        return " ".join(c for c, _ in parts), [line for _, lines in parts for line in lines]

    def string(self) -> tuple[str, list[str]]:
        """A loop, or one and another statement; short ones are what compilers rework the most."""
        if not self.loops:
            return self.block(3, 0)
        if self.draw.chance(0.6):
            return self.draw.one((self._for, self._for, self._search))(1, 0)
        parts = [self._for(2, 1), self.statement(2, 2)]
        (a, first), (b, second) = parts if self.draw.chance(0.5) else parts[::-1]
        return f"{a} {b}", first + second

    def statement(self, depth: int, loops: int) -> tuple[str, list[str]]:
        kinds = ["add", "choose", *(["read"] * 2 if self.reads else [])]
        if depth:
            kinds += ["branch"] * 2
        if depth and loops and self.loops:
            kinds += ["for"] * 4 + ["do", "search", "search"]
        return getattr(self, f"_{self.draw.one(kinds)}")(depth - 1, loops - 1)

    def _add(self, depth: int, loops: int) -> tuple[str, list[str]]:
        text = f"s = (s * {self.draw.one((1, 3))} {self.draw.one('+-')} {self.term()}) & 1023"
        return f"{text};", [text]

    def _choose(self, depth: int, loops: int) -> tuple[str, list[str]]:
        a, b, c = self.term(), self.term(), self.condition()
        return (
            f"s = (s + ({c} ? {a} : {b})) & 1023;",
            [f"s = (s + ({a} if {python(c)} else {b})) & 1023"],
        )

    def _read(self, depth: int, loops: int) -> tuple[str, list[str]]:
        condition, value = self.read()
        lines = [f"if {python(condition)}:", f"{_ONE}s = (s + {python(value)}) & 1023"]
        if self.draw.chance(0.5):
            return f"s = (s + ({condition} ? {value} : 0)) & 1023;", lines
        return f"if ({condition}) s = (s + {value}) & 1023;", lines

    def _branch(self, depth: int, loops: int) -> tuple[str, list[str]]:
        condition = self.condition()
        (a, first), (b, second) = self.block(depth, loops + 1), self.block(depth, loops + 1)
        lines = [f"if {python(condition)}:", *_in(first), "else:", *_in(second)]
        return f"if ({condition}) {{ {a} }} else {{ {b} }}", lines

    def _split(self) -> tuple[str, list[str]]:
        condition = self.condition()
        (a, first), (b, second) = self._add(0, 0), self._add(0, 0)
        lines = [f"if {python(condition)}:", *_in(first), "else:", *_in(second)]
        return f"if ({condition}) {a} else {b}", lines

    def _bound(self) -> str:
        return str(self.draw.one(("n", "n", "n", "limit", "limit", "(x & 3)", "5")))

    def _for(self, depth: int, loops: int) -> tuple[str, list[str]]:
        self.count += 1
        k, bound = f"k{self.count}", self._bound()
        self.known += [k, k]
        before, lines = "", []
        for word in ("continue", "break"):
            if self.draw.chance(0.2):
                condition = self.condition()
                before += f"if ({condition}) {word}; "
                lines += [f"if {python(condition)}:", f"{_ONE}{word}"]
        # Small ones are what compilers make two loops of.
        c, body = self._split() if self.draw.chance(0.6) else self.block(depth, loops)
        self.known = self.known[:-2]
        text = f"for (int {k} = 0; {k} < {bound}; ++{k}) {{ {before}{c} }}"
        return text, [f"for {k} in range({bound}):", *_in(lines + body)]

    def _do(self, depth: int, loops: int) -> tuple[str, list[str]]:
        self.count += 1
        k, bound, condition = f"k{self.count}", self._bound(), self.condition()
        self.known += [k, k]
        c, body = self.block(depth, loops)
        self.known = self.known[:-2]
        end = [f"{k} += 1", f"if not ({k} < {bound} and {python(condition)}):", f"{_ONE}break"]
        text = f"int {k} = 0; do {{ {c} }} while (++{k} < {bound} && {condition});"
        return text, [f"{k} = 0", "while True:", *_in(body + end)]

    def _search(self, depth: int, loops: int) -> tuple[str, list[str]]:
        self.count += 1
        low, high, m = (f"{name}{self.count}" for name in ("l", "h", "m"))
        self.known += [m, m]
        condition = self.condition()
        self.known = self.known[:-2]
        text = (
            f"int {low} = 0, {high} = n; while ({low} < {high}) {{ int {m} = ({low} + {high}) >> 1;"
            f" if ({condition}) {high} = {m}; else {low} = {m} + 1; }} s = (s + {low}) & 1023;"
        )
        body = [f"if {python(condition)}:", f"{_ONE}{high} = {m}", "else:"]
        body += [f"{_ONE}{low} = {m} + 1"]
        lines = [f"{low}, {high} = 0, n", f"while {low} < {high}:"]
        lines += _in([f"{m} = ({low} + {high}) >> 1", *body])
        return text, [*lines, f"s = (s + {low}) & 1023"]


def _in(lines: list[str]) -> list[str]:
    return [_ONE + line for line in lines]


def python(text: str) -> str:
    return text.replace("&&", "and").replace("||", "or")


def ways(draw: Draw) -> Case:
    """A string of any operator through which elements part, against Python's word for each."""
    form = draw.one(("pointwise", "pointwise", "pointwise", *_FORMS))
    reads = form == "pointwise"
    n = int(draw.one((1, 3, 5, 7, _SIZE, _SIZE)))
    limit = int(draw.one((0, 1, n - 1, n, n)))
    line = draw.random.integers(-_LARGEST, _LARGEST + 1, _SIZE).astype(np.int32)
    at = np.full(_SIZE, _FAR, np.int32)
    at[:limit] = draw.random.integers(0, _SIZE, limit)
    values: dict[int, int] = {}
    while len(set(values.values())) < 2:  # until some elements part
        words = _Words(draw, reads, draw.chance(0.7))
        written, body = words.string()
        lines = ["def f(x, n, limit, at_x1, at_x2):", *_in(["s = 0", *body, "return s"])]
        space: dict[str, Any] = {}
        exec("\n".join(lines), space)
        for v in range(-_LARGEST, _LARGEST + 1):
            values[v] = space["f"](v, n, limit, _reader(line), _reader(at))
    x = draw.data((3, int(draw.one((1, 5, 16, 33, 64)))), np.int32)
    if draw.chance(0.1):  # no element is where others would read
        x[:] = x[0, 0]
    wanted = np.vectorize(values.get, otypes=[np.int64])(x)
    size = draw.one(
        (
            str(n),
            "(int)w1",
            "(int)w1",
            "(int)w1",
            *(["size_x1(0)"] * 3 if reads and n == _SIZE else []),
        )
    )
    numbers = [limit, n] if "w1" in size else [limit]
    taken = "y0" if form == "epilogue" else "x0"
    # Arrays that a string does not read are named, as it takes those that it names.
    text = "(void)at_x1(0); (void)at_x2(0); " if reads else ""
    text += f"const int x = (int){taken}, limit = (int)w0, n = {size}; (void)limit; (void)n; "
    text += f"int s = 0; {written} y0 = s;"
    described = f"{text} of {x.tolist()}, {numbers}"
    if reads:
        operator = cp.Pointwise(text, result_type=np.int32)
        given = [cp.asarray(a) for a in (x, line, at)]
        described += f", x1 = {line.tolist()}, x2 = {at.tolist()}"
        run: Callable[[], Any] = lambda: operator(*given, *numbers)  # noqa: E731
        return Case(described, lambda: (run().get(),), (wanted.astype(np.int32),))
    run, expected = _FORMS[form](text, x, numbers, wanted)
    return Case(f"{form}: {described}", lambda: (run().get(),), (expected,))


def _reader(values: Host) -> Callable[[int], int]:
    def read(place: int) -> int:
        assert 0 <= place < len(values)
        return int(values[place])

    return read


# Takes the string, elements, numbers and each element's answer; returns what runs, and its result.
_Form = Callable[[str, Host, list[int], Host], tuple[Callable[[], Any], Host]]


def _reduction(text: str, x: Host, numbers: list[int], wanted: Host) -> Any:
    step = "if (y0 > 5) reduce_y0 += y0; else reduce_y0 -= 2 * y0;"
    operator = cp.Reduction(
        text, init="reduce_y0 = 0;", step=step, combine="reduce_y0 += other_y0;"
    )
    given, axis = cp.asarray(x), len(numbers) - 1
    taken = np.where(wanted > 5, wanted, -2 * wanted)
    return lambda: operator(given, *numbers, axis=axis), taken.sum(axis)


def _scan(text: str, x: Host, numbers: list[int], wanted: Host) -> Any:
    operator = cp.Scan(text, init="scan_y0 = 0;", step="scan_y0 += y0;")
    given, axis = cp.asarray(x), len(numbers) - 1
    return lambda: operator(given, *numbers, axis=axis), wanted.cumsum(axis)


def _grouped(text: str, x: Host, numbers: list[int], wanted: Host) -> Any:
    operator = cp.Grouped(text, **_SUM, each=text.replace("y0 = s;", "y0 = s + group_y0;"))
    given, axis = cp.asarray(x.astype(np.float32)), len(numbers) - 1
    return (lambda: operator(given, *numbers, axis=axis), wanted.sum(axis, keepdims=True) + wanted)


def _pairs(text: str, x: Host, numbers: list[int], wanted: Host) -> Any:
    outer = cp.Reduction("y0 = x0;", **_SUM)
    operator = cp.Pairs(expr=text.replace("x0", "(x0 + x1)"), outer=outer)
    rows, columns = x[0, :, None].astype(np.float32), np.zeros((1, 7), np.float32)
    given, axis = [cp.asarray(rows), cp.asarray(columns)], -len(numbers)
    values = wanted[0, :, None] + columns.astype(np.int64)
    return lambda: operator(*given, *numbers, axis=axis), values.sum(axis)


def _epilogue(text: str, x: Host, numbers: list[int], wanted: Host) -> Any:
    image = cp.asarray(x.astype(np.float32)[None, :, None])
    same = cp.asarray(np.eye(3, dtype=np.float32)[:, :, None, None])
    return (
        lambda: ops.conv2d(image, same, epilogue=text, epilogue_args=tuple(numbers)),
        wanted[None, :, None],
    )


_FORMS: dict[str, _Form] = {
    "reduction": _reduction,
    "scan": _scan,
    "grouped": _grouped,
    "pairs": _pairs,
    "epilogue": _epilogue,
}
