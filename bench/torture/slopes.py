"""Gradients of random expressions where they have corners, zeros, multiples and equals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import clprim as cp
from bench.torture.case import Case
from bench.torture.draw import Draw, Host
from clprim import ops

_Value = Callable[..., Host]
# By name: the same as OpenCL C, if there is such, its value, and its slope in each operand. The
# last ones end expressions: what they compute is rounded, and a rounding is no corner.
_EXACT: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "add": ("{} + {}", np.add, (lambda a, b: a * 0 + 1, lambda a, b: b * 0 + 1)),
    "sub": ("{} - {}", np.subtract, (lambda a, b: a * 0 + 1, lambda a, b: b * 0 - 1)),
    "mul": ("{} * {}", np.multiply, (lambda a, b: b, lambda a, b: a)),
    "maximum": (
        "max({}, {})",
        np.maximum,
        (lambda a, b: np.heaviside(a - b, 0.5), lambda a, b: np.heaviside(b - a, 0.5)),
    ),
    "minimum": (
        "min({}, {})",
        np.minimum,
        (lambda a, b: np.heaviside(b - a, 0.5), lambda a, b: np.heaviside(a - b, 0.5)),
    ),
    "abs": ("fabs({})", np.abs, (np.sign,)),
    "square": ("{0} * {0}", np.square, (lambda a: 2 * a,)),
    "relu": ("{0} > 0 ? {0} : 0", lambda a: np.maximum(a, 0), (lambda a: (a > 0) * 1.0,)),
    "hardtanh": (
        "{0} <= -1 ? -1 : {0} >= 1 ? 1 : {0}",
        lambda a: np.clip(a, -1, 1),
        (lambda a: (abs(a) < 1) * 1.0,),
    ),
}
_MULTIPLES: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "fmod": ("fmod({}, {})", np.fmod, (lambda a, b: a * 0 + 1, lambda a, b: -np.trunc(a / b))),
    "remainder": ("", np.remainder, (lambda a, b: a * 0 + 1, lambda a, b: -np.floor(a / b))),
}
_LAST: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "logaddexp": (
        "",
        np.logaddexp,
        (lambda a, b: 1 / (1 + np.exp(b - a)), lambda a, b: 1 / (1 + np.exp(a - b))),
    ),
    "logaddexp2": (
        "",
        np.logaddexp2,
        (lambda a, b: 1 / (1 + np.exp2(b - a)), lambda a, b: 1 / (1 + np.exp2(a - b))),
    ),
    "xlogy": ("", lambda a, b: a * np.log(b), (lambda a, b: np.log(b), lambda a, b: a / b)),
}
_ALL = _EXACT | _MULTIPLES | _LAST
_POINTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)


def slope(draw: Draw) -> Case:
    """Gradients of an expression under `value_and_grad`, and derived from it as a string."""
    size = 16
    hosts = [draw.random.choice(_POINTS, size), draw.random.choice(_POINTS, size)]
    hosts.append(abs(draw.random.choice(_POINTS, size)) + 0.5)  # to divide by
    weight = draw.random.choice(_POINTS, size)
    steps: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(int(draw.one((1, 2, 3, 4)))):
        name = draw.one([*_EXACT, *_MULTIPLES])
        count, known = len(_ALL[name][2]), 3 + len(steps)
        given = tuple(int(draw.random.integers(known)) for _ in range(count))
        steps.append((name, (given[0], 2) if name in _MULTIPLES else given))
    if draw.chance(0.4):
        name = draw.one(list(_LAST))
        steps.append((name, (2 + len(steps), 2)))

    def computed(arrays: list[cp.Array]) -> cp.Array:
        found = [*arrays]
        for name, given in steps:
            found.append(getattr(ops, name)(*(found[n] for n in given)))
        return (found[-1] * cp.asarray(weight)).sum()

    values = [h.astype(np.float64) for h in hosts]
    slopes = [np.eye(3)[n][:, None] * np.ones(size) for n in range(3)]
    lines = []
    for name, given in steps:
        text, value, partials = _ALL[name]
        of = [values[n] for n in given]
        values.append(value(*of))
        slopes.append(sum(p(*of) * slopes[n] for p, n in zip(partials, given, strict=True)))
        labels = [f"x{n}" if n < 3 else f"t{n}" for n in given]
        lines.append(f"typeof_y0 t{len(values) - 1} = {text.format(*labels)};" if text else "")
    expected = tuple(slopes[-1] * weight)
    string = f"(void)x0; (void)x1; (void)x2; {' '.join(lines)} y0 = t{len(values) - 1};"
    operator = cp.Pointwise(string) if all(lines) else None

    def run() -> tuple[Host, ...]:
        arrays = [*map(cp.asarray, hosts)]
        _, found = cp.value_and_grad(computed, 0)(arrays)
        derived = () if operator is None else operator.gradient()(*arrays, grad=cp.asarray(weight))
        return tuple(g.get() for g in (*found, *derived))

    text = f"{steps} of {hosts}, string {string if operator else 'none'}"
    return Case(text, run, expected * (1 if operator is None else 2), 1e-12)
