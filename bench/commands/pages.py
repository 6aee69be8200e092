"""The command that measures nothing: charts and the index of what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.commands.options import RESULTS
from bench.page.recorded import index_of, read_page, redraw

__all__ = ["pages"]


def pages(
    folder: Annotated[Path, typer.Option("--folder", help="Of the pages.")] = RESULTS,
) -> None:
    """Charts of recorded pages anew, and the index of all of them."""
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md" and redraw(read_page(path)):
            typer.echo(f"drawn: {path.with_suffix('.png')}")
    (folder / "README.md").write_text(index_of(folder), encoding="utf-8")
