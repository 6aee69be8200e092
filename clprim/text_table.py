"""Plain-text tables, without a dependency."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def format_table(
    headers: Sequence[object],
    rows: Sequence[Sequence[object] | None],
    *,
    align: str | None = None,
) -> str:
    """Lays rows out in columns that are as wide as their widest cell."""
    if align is None:
        align = "".join(_natural_side(rows, column) for column in range(len(headers)))
    if len(align) != len(headers) or set(align) - {"l", "r"}:
        raise ValueError(f"align must be {len(headers)} letters out of 'l' and 'r', not {align!r}")
    cells = [None if row is None else [_text(cell) for cell in row] for row in rows]
    head = [_text(header) for header in headers]
    widths = [len(header) for header in head]
    for row in cells:
        if row is None:
            continue
        if len(row) != len(head):
            raise ValueError(f"a row has {len(row)} cells, the table {len(head)} columns: {row}")
        widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    rule = _GAP.join("-" * width for width in widths)
    lines = [_line(head, widths, align), rule]
    lines += [rule if row is None else _line(row, widths, align) for row in cells]
    return "\n".join(lines)


def _natural_side(rows: Sequence[Sequence[object] | None], column: int) -> str:
    values = [row[column] for row in rows if row is not None and column < len(row)]
    return "r" if values and all(isinstance(value, (int, float)) for value in values) else "l"


def _text(cell: object) -> str:
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _line(cells: Sequence[str], widths: Sequence[int], align: str) -> str:
    columns = zip(cells, widths, align, strict=True)
    padded = (
        cell.rjust(width) if side == "r" else cell.ljust(width) for cell, width, side in columns
    )
    return _GAP.join(padded).rstrip()
