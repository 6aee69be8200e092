"""``clprim explain --html``: strings, plan, kernels and roofline as one page without scripts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape

from clprim.command.explain import Explanation
from clprim.language.definition import texts
from clprim.runtime.ceilings import Measurement

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
pre { background: #f4f6f9; border: 1px solid #d5dde8; border-radius: 6px; padding: 1em;
      overflow-x: auto; font-size: 12.5px; line-height: 1.45; }
.yours { background: #ffe9a8; font-weight: 600; } .comment { color: #5a7a5a; }
.directive { color: #a0a8b4; } th, td { text-align: left; padding: .15em 1.2em .15em 0; }
td.number { text-align: right; } svg { max-width: 100%; }
"""
_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 20, 45


@dataclass(frozen=True)
class Timing:
    """What running it showed.

    Attributes:
        seconds: Of all kernels of one call on the device, the median of some.
        ceilings: What the device can do at best.
    """

    seconds: float
    ceilings: Measurement


def explain_page(explanation: Explanation, timing: Timing | None = None) -> str:
    """Returns a page of HTML about one call.

    Args:
        explanation: Of the call.
        timing: Of it, where a device ran it; else there is no roofline.
    """
    title = escape(explanation.title)
    blocks = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
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
    blocks.append("<h2>Roofline</h2>")
    if timing is None:
        blocks.append("<p>Not measured: planned for a device that is not here.</p>")
    elif not explanation.nbytes:
        blocks.append("<p>Not measured: there is nothing to run.</p>")
    else:
        blocks += [_verdict(explanation, timing), _roofline(explanation, timing)]
    return "\n".join([*blocks, "</body></html>"]) + "\n"


def _snippet(name: str, text: str) -> str:
    return f"<p>{escape(name)}</p><pre>{escape(text.strip())}</pre>"


def _arrays(explanation: Explanation) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(what)}</td></tr>"
        for name, what in explanation.operands
    )
    return f"<table>{rows}</table><p>On {escape(explanation.device)}.</p>"


def _kernel(source: str) -> str:
    """The source with the user's own lines and the comments brought out."""
    lines, yours = [], False
    for line in source.split("\n"):
        text = escape(line)
        directive = re.match(r'#line \d+ "(snippet:)?', line)
        if directive:
            yours = bool(directive[1])
            text = f'<span class="directive">{text}</span>'
        elif yours and line.strip():
            text = f'<span class="yours">{text}</span>'
        else:
            text = re.sub(r"(//.*)$", r'<span class="comment">\1</span>', text)
        lines.append(text)
    return "\n".join(lines)


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
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        'aria-label="roofline" font-family="sans-serif" font-size="12">',
        f'<polyline points="{roof}" fill="none" stroke="#222" stroke-width="2"/>',
        f'<line x1="{x(intensity):.1f}" x2="{x(intensity):.1f}" y1="{y(allowed):.1f}" '
        f'y2="{y(rate):.1f}" stroke="#4c78a8" stroke-dasharray="4 3"/>',
        f'<circle cx="{x(intensity):.1f}" cy="{y(rate):.1f}" r="6" fill="#4c78a8"/>',
        f'<text x="{x(intensity) + 10:.1f}" y="{y(rate) + 16:.1f}">{rate / 1e9:.3g} GFLOP/s, '
        f"{share:.0%} of the roof</text>",
        f'<text x="{x(ridge) + 6:.1f}" y="{y(peak) - 8:.1f}">{peak / 1e9:.0f} GFLOP/s</text>',
        f'<text x="{x(left) + 8:.1f}" y="{y(left * bandwidth) - 14:.1f}">'
        f"{bandwidth / 1e9:.1f} GB/s</text>",
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_HEIGHT - _BOTTOM}" '
        f'y2="{_HEIGHT - _BOTTOM}" stroke="#888"/>',
        f'<line x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#888"/>',
        f'<text x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "operations a byte</text>",
        f'<text x="16" y="{_HEIGHT / 2:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {_HEIGHT / 2:.0f})">GFLOP/s</text>',
    ]
    parts += [
        f'<text x="{x(2.0**power):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle" '
        f'fill="#666">{_power(power)}</text>'
        for power in range(math.ceil(math.log2(left)), math.floor(math.log2(right)) + 1, 2)
    ]
    parts += [
        f'<text x="{_LEFT - 6}" y="{y(10.0**power) + 4:.1f}" text-anchor="end" fill="#666">'
        f"{10.0**power / 1e9:g}</text>"
        for power in range(math.ceil(math.log10(bottom)), math.floor(math.log10(top)) + 1)
    ]
    return "\n".join([*parts, "</svg>"])


def _power(power: int) -> str:
    return f"{2**power}" if power >= 0 else f"1/{2**-power}"
