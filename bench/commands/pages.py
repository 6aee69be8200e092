"""The command that measures nothing: charts and the index of what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.commands.options import RESULTS
from bench.page.recorded import index_of, read_page, redraw
from bench.page.speed import comparisons, draw_speed, insert, speed_table

_ROOT = RESULTS.parents[1]
#: Address of the recorded pages: the README is read on PyPI too.
PAGES = "https://github.com/clprim/clprim/blob/main/bench/results/"
SPEED_DEVICE = "Intel's OpenCL on 2 cores of an AMD EPYC (AVX-512), float32"


def pages(
    folder: Annotated[Path, typer.Option("--folder", help="Of the pages.")] = RESULTS,
) -> None:
    """Charts of recorded pages anew, and the index of all of them."""
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md" and redraw(read_page(path)):
            typer.echo(f"drawn: {path.with_suffix('.png')}")
    refresh(folder)


def refresh(folder: Path) -> None:
    """Write the index of recorded pages, and what the README says of them.

    Args:
        folder: Of the pages.
    """
    (folder / "README.md").write_text(index_of(folder), encoding="utf-8")
    if folder == RESULTS:
        found = comparisons(folder)
        draw_speed(_ROOT / "docs" / "speed.png", found, SPEED_DEVICE)
        readme = _ROOT / "README.md"
        text = insert(readme.read_text(encoding="utf-8"), speed_table(found, PAGES))
        readme.write_text(text, encoding="utf-8")
