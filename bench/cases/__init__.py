"""Pages as data: a row is a name, arguments, contenders and its work."""

from __future__ import annotations

from bench.case import Page
from bench.cases import (
    arithmetic,
    fft,
    gradient,
    language,
    launch,
    linalg,
    memory,
    networks,
    norm,
    operators,
    pairs,
    subpixel,
)

#: By the command's name.
PAGES: dict[str, Page] = {
    **memory.PAGES,
    **arithmetic.PAGES,
    **norm.PAGES,
    **operators.PAGES,
    **gradient.PAGES,
    **pairs.PAGES,
    **linalg.PAGES,
    **fft.PAGES,
    **subpixel.PAGES,
    **language.PAGES,
    **launch.PAGES,
    **networks.PAGES,
}
