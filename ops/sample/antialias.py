"""The strings of images made smaller with all elements counting, and back: Pillow's filters.

A filter is as wide as the step from one result to the next, and its weights add up to 1. With
aligned corners that step alone is another one, as PyTorch has it.
"""

from __future__ import annotations

from clprim.ops.sample.taps import RADIUS


def antialiased(kind: str) -> str:
    """The string of x0 in another size along dimension 1 of 3, with w0 steps of it for one."""
    return "\n".join(
        [
            "int n0 = size_x0(1), o0 = coord(1);",
            *_filter(0, kind, "o0"),
            "typeof_x0 sum = 0;",
            "typeof_w0 total = 0;",
            "for (int i0 = from0; i0 < to0; ++i0) {",
            *_weight(0, kind, "i0", "weight"),
            "sum += weight0 * at_x0(coord(0), i0, coord(2));",
            "total += weight0;",
            "}",
            "y0 = sum / total;",
        ]
    )


def antialiased_backward(kind: str) -> str:
    """Returns the string of the gradient, gathered from the results whose filters reach an element.

    Their weights are normed once more; see `antialiased`.
    """
    reach = f"{RADIUS[kind]} * (w0 >= 1 ? w0 : 1) + 1"
    return "\n".join(
        [
            "int n0 = size(1), m0 = size_x0(1), here0 = coord(1);",
            f"typeof_w0 low0 = (here0 - ({reach})) / w0 - 1.5f;",
            f"typeof_w0 high0 = (here0 + 1 + {reach}) / w0 + 0.5f;",
            "int first0 = w0 == 0 || low0 < 0 ? 0 : (int)low0;",
            "int last0 = w0 == 0 || high0 > m0 - 1 ? m0 - 1 : (int)high0;",
            "typeof_x0 sum = 0;",
            "for (int o0 = first0; o0 <= last0; ++o0) {",
            *_filter(0, kind, "o0"),
            "if (here0 < from0 || here0 >= to0) continue;",
            "typeof_w0 total0 = 0;",
            "for (int i0 = from0; i0 < to0; ++i0) {",
            *_weight(0, kind, "i0", "each"),
            "total0 += each0;",
            "}",
            *_weight(0, kind, "here0", "own"),
            "sum += own0 / total0 * at_x0(coord(0), o0, coord(2));",
            "}",
            "y0 = sum;",
        ]
    )


def _filter(d: int, kind: str, o: str) -> list[str]:
    """Lines for the elements ``from … to`` that count for the result ``o``, and its centre."""
    radius, w = RADIUS[kind], f"w{d}"
    center = f"{w} * ({o} + 0.5f)"
    return [
        f"typeof_{w} wide{d} = {w} >= 1 ? {w} : 1, center{d} = {center};",
        f"int from{d} = max((int)(center{d} - {radius} * wide{d} + 0.5f), 0);",
        f"int to{d} = min((int)(center{d} + {radius} * wide{d} + 0.5f), n{d});",
    ]


def _weight(d: int, kind: str, i: str, name: str) -> list[str]:
    """Lines for the weight of the element ``i``."""
    t = f"t{name}{d}"
    if kind == "linear":
        weight = f"{t} < 1 ? 1 - {t} : 0"
    else:  # Keys' weights with a = -1/2, as Pillow has them
        weight = (
            f"{t} < 1 ? (1.5f * {t} - 2.5f) * {t} * {t} + 1 : "
            f"{t} < 2 ? ((-0.5f * {t} + 2.5f) * {t} - 4) * {t} + 2 : 0"
        )
    return [
        f"typeof_w{d} {t} = fabs(({i} - center{d} + 0.5f) / wide{d});",
        f"typeof_w{d} {name}{d} = {weight};",
    ]
