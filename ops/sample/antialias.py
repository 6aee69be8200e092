"""The strings of images made smaller with all elements counting, and back: Pillow's filters.

A filter is as wide as the step from one result to the next, and its weights add up to 1. With
aligned corners that step alone is another one, as PyTorch has it.
"""

from __future__ import annotations

from clprim.ops.sample.taps import RADIUS
from clprim.ops.shared.strings import places

__all__ = ["antialiased", "antialiased_backward"]


def antialiased(ndim: int, kind: str) -> str:
    """Returns the string of x0 in another size, with scalars w0, … steps of it for one.

    Args:
        ndim: Dimensions that change.
        kind: ``linear`` or ``cubic``.
    """
    lines: list[str] = []
    loops: list[str] = []
    for d in range(ndim):
        lines.append(f"int n{d} = size_x0({2 + d});")
        lines += _filter(d, kind, f"coord({2 + d})")
        loops.append(f"for (int i{d} = from{d}; i{d} < to{d}; ++i{d}) {{")
        loops += _weight(d, kind, f"i{d}", "weight")
    product = " * ".join(f"weight{d}" for d in range(ndim))
    place = places(2 + ndim, {2 + d: f"i{d}" for d in range(ndim)})
    body = [
        "typeof_y0 sum = 0;",
        "typeof_w0 total = 0;",
        *loops,
        f"sum += {product} * at_x0({place});",
        f"total += {product};",
        "}" * ndim,
        "y0 = sum / total;",
    ]
    return "\n".join([*lines, *body])


def antialiased_backward(ndim: int, kind: str) -> str:
    """Returns the string of the gradient, gathered from the results whose filters reach an element.

    Their weights are normed once more; see `antialiased`.
    """
    radius = RADIUS[kind]
    lines: list[str] = []
    loops: list[str] = []
    for d in range(ndim):
        w = f"w{d}"
        reach = f"{radius} * ({w} >= 1 ? {w} : 1) + 1"
        lines += [
            f"int n{d} = size({2 + d}), m{d} = size_x0({2 + d}), here{d} = coord({2 + d});",
            f"typeof_{w} low{d} = (here{d} - ({reach})) / {w} - 1.5f;",
            f"typeof_{w} high{d} = (here{d} + 1 + {reach}) / {w} + 0.5f;",
            f"int first{d} = {w} == 0 || low{d} < 0 ? 0 : (int)low{d};",
            f"int last{d} = {w} == 0 || high{d} > m{d} - 1 ? m{d} - 1 : (int)high{d};",
        ]
        loops += [
            f"for (int o{d} = first{d}; o{d} <= last{d}; ++o{d}) {{",
            *_filter(d, kind, f"o{d}"),
            f"if (here{d} < from{d} || here{d} >= to{d}) continue;",
            f"typeof_{w} total{d} = 0;",
            f"for (int i{d} = from{d}; i{d} < to{d}; ++i{d}) {{",
            *_weight(d, kind, f"i{d}", "each"),
            f"total{d} += each{d};",
            "}",
            *_weight(d, kind, f"here{d}", "own"),
            f"typeof_{w} weight{d} = own{d} / total{d};",
        ]
    product = " * ".join(f"weight{d}" for d in range(ndim))
    place = places(2 + ndim, {2 + d: f"o{d}" for d in range(ndim)})
    body = ["typeof_x0 sum = 0;", *loops, f"sum += {product} * at_x0({place});", "}" * ndim]
    return "\n".join([*lines, *body, "y0 = sum;"])


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
