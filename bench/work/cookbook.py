"""Thirty operators from strings: `docs/cookbook.md` is made from this list and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.bandwidth import Ceilings
from bench.clock.timing import measured_call, race
from clprim.runtime.device import Device

_SIDE = 4096


@dataclass(frozen=True)
class Recipe:
    """One operator.

    Attributes:
        title: What it computes.
        define: What makes it, as Python.
        call: How it is called: ``op`` with the arrays of `inputs`.
        numpy: The same in NumPy.
        note: What is to be learnt from it.
    """

    title: str
    define: str
    call: str
    numpy: str
    note: str = ""


def _map(title: str, string: str, call: str, numpy: str, note: str = "", more: str = "") -> Recipe:
    return Recipe(title, f'cp.Pointwise("{string}"{more})', call, numpy, note)


def _sum(title: str, string: str, call: str, numpy: str, note: str = "", more: str = "") -> Recipe:
    parts = [
        f'"{string}"',
        'init="reduce_y0 = 0;"',
        'step="reduce_y0 += y0;"',
        *([more] if more else []),
    ]
    return Recipe(title, _call_of("cp.Reduction", parts), call, numpy, note)


def _call_of(name: str, parts: Sequence[str]) -> str:
    lines = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{lines})"


RECIPES = (
    _map("ReLU", "y0 = x0 < 0 ? 0 : x0;", "op(x)", "np.maximum(x, 0)", "Keeps NaN, as PyTorch."),
    _map("Leaky ReLU", "y0 = x0 > 0 ? x0 : w0 * x0;", "op(x, 0.1)", "np.where(x > 0, x, 0.1 * x)"),
    _map(
        "Swish with a slope",
        "y0 = x0 / (1 + exp(-w0 * x0));",
        "op(x, 1.5)",
        "x / (1 + np.exp(-1.5 * x))",
        "`op.gradient()` derives the kernel of its gradient.",
    ),
    _map(
        "GELU by tanh",
        "y0 = 0.5 * x0 * (1 + tanh(0.7978845608 * (x0 + 0.044715 * x0 * x0 * x0)));",
        "op(x)",
        "0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))",
        "Literals are float32 next to float32 arrays.",
    ),
    _map("Mish", "y0 = x0 * tanh(log1p(exp(x0)));", "op(x)", "x * np.tanh(np.log1p(np.exp(x)))"),
    _map(
        "Soft threshold",
        "typeof_y0 m = fabs(x0) - w0; y0 = m > 0 ? copysign(m, x0) : 0;",
        "op(x, 0.5)",
        "np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)",
        "A local declared by `typeof_y0` keeps whole vectors.",
    ),
    _map(
        "Scale, and add a bias a column",
        "y0 = x0 * w0 + x1;",
        "op(x, b, 2.0)",
        "x * 2 + b",
        "`b` broadcasts; nothing is copied.",
    ),
    _map("Interpolate", "y0 = x0 + w0 * (x1 - x0);", "op(x, z, 0.25)", "x + 0.25 * (z - x)"),
    _map(
        "To 8 bits, saturated",
        "y0 = convert_uchar_sat_rte(255 * x0);",
        "op(x)",
        "np.clip(np.rint(255 * x), 0, 255)",
        "A plain store would drop high bits.",
        ", result_type=np.uint8",
    ),
    _map(
        "Polar coordinates",
        "y0 = hypot(x0, x1); y1 = atan2(x1, x0);",
        "op(x, z)",
        "(np.hypot(x, z), np.arctan2(z, x))",
        "Two results, one pass.",
    ),
    _map(
        "Complex product",
        "y0 = x0 * x2 - x1 * x3; y1 = x0 * x3 + x1 * x2;",
        "op(x, z, z, x)",
        "(x * z - z * x, x * x + z * z)",
        "Real and imaginary parts are arrays of their own.",
    ),
    _map(
        "Huber loss of each element",
        "typeof_y0 d = fabs(x0 - x1); y0 = d < w0 ? 0.5 * d * d : w0 * (d - 0.5 * w0);",
        "op(x, z, 1.0)",
        "np.where(np.abs(x - z) < 1, 0.5 * (x - z) ** 2, np.abs(x - z) - 0.5)",
    ),
    _map(
        "Binary cross entropy of logits",
        "y0 = (x0 > 0 ? x0 : 0) - x0 * x1 + log1p(exp(-fabs(x0)));",
        "op(x, z)",
        "np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x)))",
    ),
    _map(
        "Grey values",
        "y0 = 0.299 * x0 + 0.587 * x1 + 0.114 * x2;",
        "op(x, z, x)",
        "0.413 * x + 0.587 * z",
        "Views, such as the channels of an image, are read where they lie.",
    ),
    _map(
        "Lower triangle",
        "y0 = coord(-1) <= coord(-2) ? x0 : 0;",
        "op(x)",
        "np.tril(x)",
        "`coord(d)`: where the element is.",
    ),
    _map(
        "Difference to the left neighbour",
        "y0 = coord(1) > 0 ? x0 - at_x0(coord(0), coord(1) - 1) : 0;",
        "op(x)",
        "np.diff(x, axis=1, prepend=x[:, :1])",
        "`at_x0` reads an array at any coordinates.",
    ),
    Recipe(
        "Blur along rows",
        _call_of(
            "cp.Pointwise",
            [
                '"long c = coord(1), last = size(1) - 1;"\n'
                '    "y0 = (at_x0(coord(0), c > 0 ? c - 1 : 0) + 2 * x0"\n'
                '    "      + at_x0(coord(0), c < last ? c + 1 : last)) / 4;"'
            ],
        ),
        "op(x)",
        "(x[:, [0, *range(x.shape[1] - 1)]] + 2 * x"
        " + x[:, [*range(1, x.shape[1]), x.shape[1] - 1]]) / 4",
        "Edges repeat.",
    ),
    _map(
        "Look up in a table",
        "y0 = at_x0(x1);",
        "op(b, i)",
        "b[i]",
        "Indices are not checked: `inside_x0(x1)` tells.",
    ),
    _map("Gray code", "y0 = x0 ^ (x0 >> 1);", "op(i)", "i ^ (i >> 1)", "Integers stay integers."),
    Recipe(
        "Cube root by Newton's method",
        _call_of(
            "cp.Pointwise",
            [
                '"typeof_y0 r = 1;"\n'
                '    "for (int k = 0; k < 8; ++k) r -= (r - x0 / (r * r)) / 3;"\n'
                '    "y0 = r;"'
            ],
        ),
        "op(z)",
        "np.cbrt(z)",
        "Loops and `if` are C's.",
    ),
    _sum("Inner product of rows", "y0 = x0 * x1;", "op(x, z, axis=1)", "(x * z).sum(1)"),
    _sum(
        "Root mean square",
        "y0 = x0 * x0;",
        "op(x, axis=1)",
        "np.sqrt((x * x).mean(1))",
        "`finalize` runs once a result.",
        'finalize="y0 = sqrt(reduce_y0 / count);"',
    ),
    _sum(
        "Mean squared error",
        "typeof_y0 d = x0 - x1; y0 = d * d;",
        "op(x, z)",
        "((x - z) ** 2).mean()",
        "No array of differences is ever written.",
        'finalize="y0 = reduce_y0 / count;"',
    ),
    _sum(
        "Count what exceeds a threshold",
        "y0 = x0 > w0;",
        "op(x, 0.5, axis=0)",
        "(x > 0.5).sum(0)",
        "",
        "result_type=np.int64",
    ),
    Recipe(
        "Minimum and maximum",
        _call_of(
            "cp.Reduction",
            [
                '"y0 = x0;"',
                'init="reduce_y0 = highest_reduce_y0; reduce_y1 = lowest_reduce_y1;"',
                'step="reduce_y0 = min(reduce_y0, y0); reduce_y1 = max(reduce_y1, y0);"',
            ],
        ),
        "op(x, axis=0)",
        "(x.min(0), x.max(0))",
    ),
    Recipe(
        "Largest value and where it is",
        _call_of(
            "cp.Reduction",
            [
                '"y0 = x0;"',
                'init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;"',
                'step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }"',
            ],
        ),
        "op(x, axis=1)",
        "(x.max(1), x.argmax(1))",
        "The first one wins on every device.",
    ),
    Recipe(
        "Weighted mean",
        _call_of(
            "cp.Reduction",
            [
                '"y0 = x0 * x1; y1 = x1;"',
                'init="reduce_y0 = 0; reduce_y1 = 0;"',
                'step="reduce_y0 += y0; reduce_y1 += y1;"',
                'finalize="y0 = reduce_y0 / reduce_y1;"',
            ],
        ),
        "op(x, z, axis=1)",
        "(x * z).sum(1) / z.sum(1)",
    ),
    Recipe(
        "Logarithm of a sum of exponentials",
        _call_of(
            "cp.Reduction",
            [
                '"y0 = x0;"',
                'init="reduce_y0 = -INFINITY; reduce_y1 = 0;"',
                'step="typeof_reduce_y0 m = max(reduce_y0, y0);"\n'
                '         "reduce_y1 = reduce_y1 * exp(reduce_y0 - m) + exp(y0 - m);"\n'
                '         "reduce_y0 = m;"',
                'combine="if (other_y1 > 0) {"\n'
                '            "  typeof_reduce_y0 m = max(reduce_y0, other_y0);"\n'
                '            "  reduce_y1 = reduce_y1 * exp(reduce_y0 - m)"\n'
                '            "            + other_y1 * exp(other_y0 - m);"\n'
                '            "  reduce_y0 = m; }"',
                'finalize="y0 = reduce_y0 + log(reduce_y1);"',
            ],
        ),
        "op(x, axis=1)",
        "np.log(np.exp(x).sum(1))",
        "A `combine` of one's own; one pass, no overflow.",
    ),
    Recipe(
        "Running sum",
        _call_of("cp.Scan", ['"y0 = x0;"', 'init="scan_y0 = 0;"', 'step="scan_y0 += y0;"']),
        "op(x, axis=1)",
        "x.cumsum(1)",
    ),
    Recipe(
        "Running maximum",
        _call_of(
            "cp.Scan",
            [
                '"y0 = x0;"',
                'init="scan_y0 = lowest_scan_y0;"',
                'step="scan_y0 = max(scan_y0, y0);"',
            ],
        ),
        "op(x, axis=1)",
        "np.maximum.accumulate(x, 1)",
    ),
    Recipe(
        "Rows of length 1",
        _call_of(
            "cp.Grouped",
            [
                '"y0 = x0 * x0;"',
                'init="reduce_y0 = 0;"',
                'step="reduce_y0 += y0;"',
                'finalize="group_y0 = rsqrt(reduce_y0);"',
                'each="y0 = x0 * group_y0;"',
            ],
        ),
        "op(x, axis=1)",
        "x / np.sqrt((x * x).sum(1, keepdims=True))",
        "`Grouped`: reduce, then map with what came of the group.",
    ),
)


def inputs(side: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays that recipes are called with: x, z, a row b, and indices i.

    Args:
        side: Rows and columns.
    """
    random = np.random.default_rng(0)
    return {
        "x": random.uniform(-2, 2, (side, side)).astype(np.float32),
        "z": random.uniform(0.5, 2, (side, side)).astype(np.float32),
        "b": random.uniform(-1, 1, side).astype(np.float32),
        "i": random.integers(0, side, (side, side), np.int32),
    }


def prepared(recipe: Recipe, arrays: dict[str, cp.Array]) -> Callable[[], tuple[cp.Array, ...]]:
    """Return the call of a recipe, whose strings are those of the page, to the letter."""
    names = {"cp": cp, "np": np, **arrays}
    names["op"] = eval(recipe.define, names)
    code = compile(recipe.call, recipe.title, "eval")

    def call() -> tuple[cp.Array, ...]:
        found = eval(code, names)
        return found if isinstance(found, tuple) else (found,)

    return call


def measure_recipes(
    device: Device, *, repeats: int, side: int, progress: Callable[[str, float], None]
) -> dict[str, float]:
    """Return how fast each recipe is next to a copy of as many bytes, both on the device.

    Args:
        device: Where; the current one.
        repeats: Runs of each.
        side: Rows and columns of the arrays.
        progress: Told what is under way.
    """
    arrays = {name: cp.asarray(host) for name, host in inputs(side).items()}
    ceilings, found = Ceilings(device), {}
    for recipe in RECIPES:
        progress(recipe.title, 1 / len(RECIPES))
        call = prepared(recipe, arrays)
        names = set(compile(recipe.call, "", "eval").co_names) & set(arrays)
        nbytes = sum(arrays[name].nbytes for name in names) + sum(y.nbytes for y in call())
        finalists = ceilings.finalists("copy", nbytes)
        contenders = [measured_call("clprim", nbytes, call, device), *finalists]
        results = race(contenders, repeats, before=ceilings.before(nbytes))
        # The fastest run of each: whatever else the machine does only slows one down.
        fastest = {name: min(r.seconds("device")) / r.work for name, r in results.items()}
        mine = fastest.pop("clprim")
        found[recipe.title] = min(fastest.values()) / mine
    return found


def page_of(speeds: dict[str, str], where: str) -> str:
    """Return the page.

    Args:
        speeds: Of each recipe, as printed.
        where: What it was measured on.
    """
    blocks = [
        "# Cookbook",
        f"{len(RECIPES)} operators from strings. `x` and `z` are arrays of {_SIDE} × {_SIDE} "
        "float32 on the device, `b` is a row, `i` holds indices. The percentage is the rate, of "
        "bytes read and written, over that of the best copy kernel of the same device: 100 % "
        "means that arithmetic costs nothing, more that a part is only read; the fastest run "
        "of each counts, as the machine had other work. Low numbers compute much (exponentials, "
        "logarithms, roots), or run element by element: see [Whole vectors]"
        "(language.md#whole-vectors). Every recipe is "
        "compared with the NumPy expression beneath it in the tests; `python -m bench cookbook` "
        "measures them.",
        f"Measured: {where}.",
    ]
    for recipe in RECIPES:
        code = f"op = {recipe.define}\n{recipe.call}  # {recipe.numpy}"
        speed = speeds.get(recipe.title, "–")
        blocks += [
            f"## {recipe.title}",
            f"```python\n{code}\n```",
            f"**{speed}** of a copy. {recipe.note}".rstrip(),
        ]
    return "\n\n".join(blocks) + "\n"
