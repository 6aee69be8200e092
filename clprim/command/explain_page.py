"""``clprim explain --html``: roofline, strings, plan and kernels as one page without scripts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape

from clprim.command.explain import Explanation
from clprim.language.definition import texts
from clprim.language.names import KEYWORDS, QUALIFIERS, STORAGE, TYPES
from clprim.language.tokens import Token, pieces
from clprim.runtime.ceilings import Measurement

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --box: #f4f6f9; --edge: #d5dde8;
        --dim: #6b7280; --yours: #ffe9a8; --point: #2f6db3; --comment: #4f7350; --type: #7a3e9d;
        --keyword: #9a2f5f; --number: #0b6e8a; --string: #9a5b00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe3ea; --paper: #16181d; --box: #1f232b; --edge: #353c48; --dim: #939cab;
          --yours: #57471a; --point: #74aeef; --comment: #8fb58f; --type: #c8a3e6;
          --keyword: #eb94bb; --number: #79c9de; --string: #e5b567; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em;
       color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
pre { background: var(--box); border: 1px solid var(--edge); border-radius: 6px; padding: 1em;
      overflow-x: auto; font-size: 12.5px; line-height: 1.45; }
.yours { background: var(--yours); } .comment { color: var(--comment); }
.directive, .axis { color: var(--dim); fill: var(--dim); } .type { color: var(--type); }
.keyword { color: var(--keyword); } .number { color: var(--number); }
.string { color: var(--string); } th, td { text-align: left; padding: .15em 1.2em .15em 0; }
svg { max-width: 100%; height: auto; fill: var(--ink); } .roof { stroke: var(--ink); }
.rule { stroke: var(--dim); } .point { fill: var(--point); stroke: var(--point); }
"""
_KEYWORDS = KEYWORDS | QUALIFIERS | STORAGE | {"return"}
_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 20, 45


@dataclass(frozen=True)
class Timing:
    """What running it showed."""

    seconds: float
    ceilings: Measurement


def explain_page(explanation: Explanation, timing: Timing | None = None) -> str:
    """Returns a page of HTML about one call."""
    title = escape(explanation.title)
    blocks = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"/>'
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        *_measured(explanation, timing),
        "<h2>The strings</h2>",
        *(_snippet(name, text) for name, text in texts(explanation.definition).items() if text),
        "<h2>The plan</h2>",
        f"<p>{escape(explanation.words)}</p>",
        _arrays(explanation),
    ]
    for number, (name, source) in enumerate(explanation.kernels, 1):
        blocks.append(
            f"<h2>Kernel {number} of {len(explanation.kernels)}: <code>{escape(name)}</code></h2>"
        )
        blocks.append(f"<p>{escape(explanation.launches[number - 1])}</p>")
        blocks.append(f"<pre>{_kernel(source)}</pre>")
    return "\n".join([*blocks, "</body></html>"]) + "\n"


def _measured(explanation: Explanation, timing: Timing | None) -> list[str]:
    if timing is None:
        return ["<p>Not measured: planned for a device that is not here.</p>"]
    if not explanation.nbytes:
        return ["<p>Not measured: there is nothing to run.</p>"]
    return [_verdict(explanation, timing), _roofline(explanation, timing)]


def _snippet(name: str, text: str) -> str:
    code = "\n".join(_highlighted(text.strip()))
    return f"<p>{escape(name)}</p><pre>{code}</pre>"


def _arrays(explanation: Explanation) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(what)}</td></tr>"
        for name, what in explanation.operands
    )
    return f"<table>{rows}</table><p>On {escape(explanation.device)}.</p>"


def _kernel(source: str) -> str:
    """The source, highlighted, with the user's own lines brought out."""
    lines, yours = [], False
    for line, code in zip(source.split("\n"), _highlighted(source), strict=True):
        directive = re.match(r'#line \d+ "(snippet:)?', line)
        if directive:
            yours = bool(directive[1])
        mine = yours and not directive and line.strip()
        lines.append(f'<span class="yours">{code}</span>' if mine else code)
    return "\n".join(lines)


def _highlighted(source: str) -> list[str]:
    """The lines of OpenCL C, with tokens that are not plain names or operators in spans."""
    parts, at = [], 0
    for token in pieces(source):
        kind = _kind(token)
        if not kind:
            continue
        parts.append(escape(source[at : token.start]))
        at = token.end
        parts.append(
            "\n".join(
                f'<span class="{kind}">{escape(line)}</span>' if line else ""
                for line in token.text.split("\n")
            )
        )
    return "".join([*parts, escape(source[at:])]).split("\n")


def _kind(token: Token) -> str:
    if token.kind != "name":
        return "" if token.kind == "op" else token.kind
    if token.text in _KEYWORDS or token.text.startswith("__"):
        return "keyword"
    return "type" if token.text in TYPES or token.text == "index_t" else ""


def _limit(explanation: Explanation, timing: Timing) -> tuple[float, str]:
    """Seconds that the call takes at least on this device, and what sets them."""
    memory = explanation.nbytes / timing.ceilings.copy_bandwidth
    arithmetic = explanation.flops / timing.ceilings.fp32_peak
    return (memory, "memory") if memory >= arithmetic else (arithmetic, "arithmetic")


def _verdict(explanation: Explanation, timing: Timing) -> str:
    least, by = _limit(explanation, timing)
    rate = explanation.nbytes / timing.seconds / 1e9
    return (
        f"<p>Measured: <b>{1e6 * timing.seconds:.1f} µs</b> on the device, {rate:.1f} GB/s, "
        f"{explanation.flops / timing.seconds / 1e9:.1f} GFLOP/s. The device's {by} allows "
        f"{1e6 * least:.1f} µs: <b>{least / timing.seconds:.0%}</b> of what is possible. "
        f"({escape(str(timing.ceilings))}; data that a cache holds may be faster than memory.)</p>"
    )


def _roofline(explanation: Explanation, timing: Timing) -> str:
    """A drawing of what the device allows, with the call as a point in it."""
    peak, bandwidth = timing.ceilings.fp32_peak, timing.ceilings.copy_bandwidth
    ridge = peak / bandwidth
    # Copies compute nothing; they stand at the left edge.
    intensity = max(explanation.flops / explanation.nbytes, 2.0**-6)
    rate = intensity * explanation.nbytes / timing.seconds
    left, right = min(intensity, ridge) / 4, max(intensity, ridge) * 4
    top, bottom = 2 * max(peak, rate), min(rate, left * bandwidth) / 2

    def x(value: float) -> float:
        along = math.log(value / left) / math.log(right / left)
        return _LEFT + along * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        along = math.log(value / bottom) / math.log(top / bottom)
        return _HEIGHT - _BOTTOM - along * (_HEIGHT - _TOP - _BOTTOM)

    roof = " ".join(
        f"{x(at):.1f},{y(min(peak, at * bandwidth)):.1f}" for at in (left, ridge, right)
    )
    allowed = min(peak, intensity * bandwidth)
    share = rate / allowed
    foot = x(left), y(left * bandwidth)
    rise = math.degrees(math.atan2(foot[1] - y(peak), x(ridge) - foot[0]))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        'aria-label="roofline" font-family="sans-serif" font-size="12">',
        f'<polyline points="{roof}" class="roof" fill="none" stroke-width="2"/>',
        f'<line x1="{x(intensity):.1f}" x2="{x(intensity):.1f}" y1="{y(allowed):.1f}" '
        f'y2="{y(rate):.1f}" class="point" stroke-dasharray="4 3"/>',
        f'<circle cx="{x(intensity):.1f}" cy="{y(rate):.1f}" r="6" class="point"/>',
        f'<text x="{x(intensity) + 10:.1f}" y="{y(rate) + 16:.1f}">{rate / 1e9:.3g} GFLOP/s, '
        f"{share:.0%} of the roof</text>",
        f'<text x="{x(ridge) + 6:.1f}" y="{y(peak) - 8:.1f}">{peak / 1e9:.0f} GFLOP/s</text>',
        f'<text transform="translate({foot[0]:.1f} {foot[1]:.1f}) rotate({-rise:.1f})" '
        f'x="12" y="-8">{bandwidth / 1e9:.1f} GB/s</text>',
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_HEIGHT - _BOTTOM}" '
        f'y2="{_HEIGHT - _BOTTOM}" class="rule"/>',
        f'<line x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" class="rule"/>',
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "operations a byte</text>",
        f'<text x="16" y="{_HEIGHT / 2:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {_HEIGHT / 2:.0f})">GFLOP/s</text>',
    ]
    parts += [
        f'<text x="{x(2.0**power):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle" '
        f'class="axis">{_power(power)}</text>'
        for power in range(math.ceil(math.log2(left)), math.floor(math.log2(right)) + 1, 2)
    ]
    parts += [
        f'<text x="{_LEFT - 6}" y="{y(10.0**power) + 4:.1f}" text-anchor="end" class="axis">'
        f"{10.0**power / 1e9:g}</text>"
        for power in range(math.ceil(math.log10(bottom)), math.floor(math.log10(top)) + 1)
    ]
    return "\n".join([*parts, "</svg>"])


def _power(power: int) -> str:
    return f"{2**power}" if power >= 0 else f"1/{2**-power}"
