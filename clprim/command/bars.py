"""A picture of where time went: a bar a row, as SVG, without any package."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from clprim.errors import DefinitionError

_MOST, _WIDTH, _ROW, _NAMES = 40, 960, 20, 360
_STYLE = "text{font:12px sans-serif;fill:#222}.h{font-weight:bold;font-size:14px}.n{fill:#666}"


def svg(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Returns bars of milliseconds, the longest rows first; the rest is one row."""
    shown = [*rows[:_MOST]]
    if len(rows) > _MOST:
        shown.append((f"{len(rows) - _MOST} others", sum(s for _, s in rows[_MOST:])))
    total = sum(seconds for _, seconds in rows) or 1.0
    longest = max((seconds for _, seconds in shown), default=1.0) or 1.0
    lines = [f'<text class="h" x="16" y="26">{escape(title)}</text>']
    for n, (name, seconds) in enumerate(shown):
        y, width = 44 + n * _ROW, (_WIDTH - _NAMES - 160) * seconds / longest
        told = name if len(name) <= 52 else f"{name[:51]}…"
        lines += [
            f'<text x="{_NAMES - 8}" y="{y + 13}" text-anchor="end">{escape(told)}</text>',
            f'<rect x="{_NAMES}" y="{y + 2}" width="{max(width, 1):.1f}" height="{_ROW - 5}" '
            f'fill="#5b8fd6"><title>{escape(name)}</title></rect>',
            f'<text class="n" x="{_NAMES + max(width, 1) + 6:.1f}" y="{y + 13}">'
            f"{1e3 * seconds:.3f} ms, {seconds / total:.1%}</text>",
        ]
    height = 60 + len(shown) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(lines)}</svg>\n'
    )


def check(path: Path) -> None:
    """Refuses another kind of file than .svg."""
    if path.suffix.lower() != ".svg":
        raise DefinitionError(f"{path}: expected a name that ends in .svg")


def write(path: Path, title: str, rows: Sequence[tuple[str, float]]) -> None:
    """Writes the picture."""
    check(path)
    try:
        path.write_text(svg(title, rows), encoding="utf-8")
    except OSError as error:
        raise DefinitionError(f"{path}: {error.strerror or error}") from None
