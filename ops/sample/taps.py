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
