"""A `Scan` that begins anew at marked elements, as another scan: of partials and a mark.

With f: "a segment begins among these elements", pairs (f, p) merge by
(f₁, p₁) ∘ (f₂, p₂) = (f₁ or f₂, p₂ if f₂, else p₁ ∘ p₂), which is associative where ∘ is (Schwartz
1980, Blelloch 1990). So every strategy of scans does them, and none knows of segments.
"""

from __future__ import annotations

import re
from dataclasses import replace

from clprim.language.composed import Composed, Piece
from clprim.language.definition import ReductionDefinition, define_reduction
from clprim.language.rename import renamed
from clprim.language.snippet import Snippet


def segmented(plain: ReductionDefinition, *, exclusive: bool) -> ReductionDefinition:
    """Returns the scan with one array and one partial more: the marks, and whether any was seen."""
    mark, seen = f"x{plain.inputs}", f"scan_y{plain.partials}"
    later = f"other_y{plain.partials}"
    taken = "".join(f" scan_y{n} = other_y{n};" for n in range(plain.partials))
    init = renamed(plain.init, {})
    found = define_reduction(
        renamed(plain.expr, {}),
        init=_joined(init, f"{seen} = 0;"),
        step=_joined(f"if ({mark} != 0) {{", init, f"{seen} = 1; }}", renamed(plain.step, {})),
        combine=_joined(
            "{", renamed(plain.combine, {}), f"}} if ({later} != 0) {{{taken} {seen} = 1; }}"
        ),
        finalize=_finalize(plain, mark, exclusive=exclusive),
        name=plain.name,
        preamble=plain.preamble,
        scan=True,
    )
    return replace(found, values_are_partials=plain.values_are_partials)


def _finalize(plain: ReductionDefinition, mark: str, *, exclusive: bool) -> str:
    """Makes results of all partials but the last; at a mark, an exclusive scan's neutral start."""
    own = {f"scan_y{n}": f"segments_own_{n}" for n in range(plain.partials)} if exclusive else {}
    if plain.finalize is None:
        names = (f"scan_y{n}" for n in range(plain.results))
        results = "".join(f"y{n} = {own.get(name, name)};\n" for n, name in enumerate(names))
    else:
        results = _copied(plain.finalize, own)
    if not exclusive:
        return results
    copies = "".join(f"typeof_{name} {copy} = {name}; " for name, copy in own.items())
    return _joined(f"{copies}if ({mark} != 0) {{", _copied(plain.init, own), "}", results)


def _copied(snippet: Snippet, own: dict[str, str]) -> Composed:
    """The snippet on copies of partials, whose types and ends keep their names."""
    text = renamed(snippet, own)
    return Composed(re.sub(r"(?<=[tf]_)segments_own_", "scan_y", text), text.pieces)


def _joined(*parts: str) -> Composed:
    """Texts one below the other, which remember whose lines they are."""
    text, pieces = "", list[Piece]()
    for part in parts:
        if isinstance(part, Composed):
            lines = text.count("\n")
            pieces += [Piece(lines + piece.line, piece.part, piece.text) for piece in part.pieces]
        text += part if part.endswith("\n") else part + "\n"
    return Composed(text, tuple(pieces))
