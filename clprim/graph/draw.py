"""A picture of a graph before and after the passes: boxes in order, arrows where memory is read."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import import_module
from pathlib import Path

from clprim.errors import DefinitionError, quoted
from clprim.graph.graph import Buffer, Graph, buffer_of
from clprim.graph.text import Names, kind_text

_WIDTH, _HEIGHT, _STEP, _MARGIN = 400, 40, 64, 24
_LETTER = 6.2  # pixels a character of the small text
_COLOURS = {"Pointwise": "#fde8c8", "ContractionPrimitive": "#cfe3ff", "Reduction": "#d9f2d6"}
_STYLE = (
    "text{font:11px sans-serif;fill:#222}.h{font-weight:bold;font-size:14px}.s{fill:#666;"
    "font-size:10px}rect{stroke:#888;rx:5}path{fill:none;stroke:#9aa;stroke-width:1.2}"
)


def draw(path: str | Path, before: Graph, after: Graph) -> None:
    """Writes a picture of two graphs beside each other."""
    kind = Path(path).suffix.lower() if isinstance(path, (str, Path)) else ""
    if kind not in (".svg", ".png"):
        raise DefinitionError(f"draw: {quoted(path)}: expected a name that ends in .svg or .png")
    text = svg(before, after)
    try:
        if kind == ".svg":
            Path(path).write_text(text, encoding="utf-8")
            return
        cairosvg = import_module("cairosvg")
        cairosvg.svg2png(bytestring=text.encode(), write_to=str(path), scale=2)
    except ImportError:
        raise DefinitionError("draw: a .png takes the package cairosvg; .svg needs none") from None
    except OSError as error:
        raise DefinitionError(f"draw: {quoted(str(path))}: {error}") from error


def svg(before: Graph, after: Graph) -> str:
    """Returns the picture as SVG."""
    columns = [*_column(before, 0, "traced"), *_column(after, 1, "replayed")]
    rows = max(len(before.nodes), len(after.nodes))
    width, height = 2 * (_WIDTH + 3 * _MARGIN) + _MARGIN, (rows + 2) * _STEP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>{"".join(columns)}</svg>'
    )


def _column(graph: Graph, number: int, word: str) -> Iterator[str]:
    left = _MARGIN + number * (_WIDTH + 3 * _MARGIN) + 2 * _MARGIN
    plural = "" if len(graph.nodes) == 1 else "s"
    title = f"{graph.what}, {word}: {len(graph.nodes)} call{plural}"
    yield f'<text class="h" x="{left}" y="{_MARGIN}">{escape(title)}</text>'
    names, writers = Names(graph), graph.uses.writers

    def top(n: int) -> int:
        return 2 * _MARGIN + n * _STEP

    for n, node in enumerate(graph.nodes):
        colour = _COLOURS.get(type(node.primitive).__name__, "#eee")
        yield (
            f'<rect x="{left}" y="{top(n)}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'style="fill:{colour}"><title>{escape(node.line)}</title></rect>'
        )
        made = ", ".join(map(names, node.writes))
        read = ", ".join(map(names, node.reads))
        kinds = ", ".join(map(kind_text, node.writes))
        yield f'<text x="{left + 8}" y="{top(n) + 16}">{_fitted(f"{made} = {node.primitive.what}")}'
        yield f'</text><text class="s" x="{left + 8}" y="{top(n) + 32}">'
        yield f"{_fitted(f'{read}  →  {kinds}')}</text>"
        found: set[Buffer] = {buffer_of(r) for r in node.reads}
        for writer in sorted({w for b in found for w in writers.get(b, ()) if w < n}):
            start, end = top(writer) + _HEIGHT, top(n)
            if writer == n - 1:
                x = left + _WIDTH // 2
                yield f'<path d="M{x} {start}L{x} {end}"/>'
            else:
                bend = left - 8 - 3 * min(n - writer, 12)
                begin, finish = start - _HEIGHT // 2, end + _HEIGHT // 2
                yield f'<path d="M{left} {begin}C{bend} {begin} {bend} {finish} {left} {finish}"/>'


def _fitted(text: str) -> str:
    """Text that a box has room for."""
    most = int((_WIDTH - 16) / _LETTER)
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
