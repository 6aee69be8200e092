"""Where a result's element lies between those of the input, and their weights, as lines of C.

Positions are PyTorch's: with `align_corners` the first and the last elements of both lie on each
other, else the outer edges of their pixels do. Cubic weights are Keys' (1981) with a = -3/4.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How far from its position an element still counts.
RADIUS = {"linear": 1, "cubic": 2}


@dataclass(frozen=True)
class Taps:
    """The elements that count for a position along one dimension."""

    lines: tuple[str, ...]
    places: tuple[str, ...]
    weights: tuple[str, ...]


def position(o: str, scale: str, align_corners: bool) -> str:
    """Returns where the element of coordinate ``o`` lies in the input; it may be outside."""
    return f"{o} * {scale}" if align_corners else f"({o} + 0.5f) * {scale} - 0.5f"


def nearest(mode: str, o: str, n: str, scale: str) -> str:
    """Returns which of n elements is the nearest, of the modes that take it; see `taps`."""
    half = " + 0.5f" if mode == "nearest-exact" else ""
    return f"min((int)floor(({o}{half}) * {scale}), {n} - 1)"


def taps(mode: str, d: int, o: str, n: str, scale: str, align_corners: bool) -> Taps:
    """Returns the elements that count for an element of the result."""
    if mode.startswith("nearest"):
        return Taps((f"int i{d} = {nearest(mode, o, n, scale)};",), (f"i{d}",), ())
    at = position(f"(typeof_{scale}){o}", scale, align_corners)
    lines = [f"typeof_{scale} at{d} = {at};"]
    if mode == "linear":
        lines += [
            f"at{d} = at{d} < 0 ? 0 : at{d};",
            f"int i{d} = min((int)at{d}, {n} - 1), j{d} = min(i{d} + 1, {n} - 1);",
            f"typeof_{scale} b{d} = clamp(at{d} - i{d}, 0.0f, 1.0f), a{d} = 1 - b{d};",
        ]
        return Taps(tuple(lines), (f"i{d}", f"j{d}"), (f"a{d}", f"b{d}"))
    lines.append(f"typeof_{scale} down{d} = floor(at{d}), t{d} = at{d} - down{d};")
    lines += cubic_weights(d, f"typeof_{scale}")
    places, weights = [], []
    for k, name in enumerate("ijkl"):
        step = f" {'+' if k > 1 else '-'} {abs(k - 1)}" if k != 1 else ""
        lines.append(f"int {name}{d} = clamp((int)down{d}{step}, 0, {n} - 1);")
        places.append(f"{name}{d}")
        weights.append(f"{'abcd'[k]}{d}")
    return Taps(tuple(lines), tuple(places), tuple(weights))


def cubic_weights(d: int, kind: str) -> list[str]:
    """Returns lines for the weights a, b, c, d of four neighbours, t beyond the second of them."""
    near = "((-0.75f + 2) * {t} - (-0.75f + 3)) * {t} * {t} + 1"
    far = "((-0.75f * {t} + 5 * 0.75f) * {t} - 8 * 0.75f) * {t} + 4 * 0.75f"
    lines = [f"{kind} u{d} = 1 - t{d}, s{d} = t{d} + 1, v{d} = u{d} + 1;"]
    for name, form, t in (("a", far, "s"), ("b", near, "t"), ("c", near, "u"), ("d", far, "v")):
        lines.append(f"{kind} {name}{d} = {form.format(t=f'{t}{d}')};")
    return lines


def cubic_slopes(d: int, kind: str) -> list[str]:
    """Returns lines for the slopes by t of what `cubic_weights` declares."""
    near = "(3 * (-0.75f + 2) * {t} - 2 * (-0.75f + 3)) * {t}"
    far = "(3 * -0.75f * {t} + 10 * 0.75f) * {t} - 8 * 0.75f"
    slopes = (
        ("a", far, "s", ""),
        ("b", near, "t", ""),
        ("c", near, "u", "-"),
        ("d", far, "v", "-"),
    )
    return [
        f"{kind} d{name}{d} = {sign}({form.format(t=f'{t}{d}')});" for name, form, t, sign in slopes
    ]


# --- Pillow's filters -----------------------------------------------------------------------------

# With all elements counting: a filter is as wide as the step from one result to the next, and its
# weights add up to 1. With aligned corners that step alone is another one, as PyTorch has it.


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
