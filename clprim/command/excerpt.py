"""Shows the part of a kernel that a user wrote."""

from __future__ import annotations

import re
import sys
import textwrap


def excerpt(source: str, most: int) -> str:
    """Returns the lines around the user's own: the widest block that has at most ``most`` lines.

    ``#line`` directives are left out and the user's lines indented and marked.
    """
    lines, first = _mark(source)
    blocks: list[tuple[int, int]] = []
    opened: list[int] = []
    for at, line in enumerate(lines):
        for bracket in re.findall(r"[{}]", line):
            if bracket == "{":
                opened.append(at)
            elif opened:
                blocks.append((opened.pop(), at))
    around = sorted((b for b in blocks if b[0] < first <= b[1]), key=lambda b: b[1] - b[0])
    if not around:
        return "\n".join(lines)
    chosen = around[0]
    for block in around:
        if block[1] - block[0] < most:
            chosen = block
    return textwrap.dedent("\n".join(lines[chosen[0] : chosen[1] + 1]))


def _mark(source: str) -> tuple[list[str], int]:
    """Returns the lines without ``#line``, and the number of the first one of ``expr``."""
    lines: list[str] = []
    first, part, indent = 0, "", ""
    for line in source.split("\n"):
        directive = re.match(r'#line \d+ "(?:snippet:(\w+)|kernel)"', line)
        if directive:
            part = directive[1] or ""
            indent = re.match(r"\s*", lines[-1])[0] + "    " if part and lines else indent  # type: ignore[index] # always matches
            if part == "expr" and not first:
                first = len(lines)
        elif part:
            if line.strip():
                lines.append(f"{indent}{line.strip()}  // ← {part}")
        elif line.strip() == "}" and lines and not lines[-1]:
            lines[-1] = line
        elif line.strip() or (lines and lines[-1]):
            lines.append(line)
    return lines, first


def paint(source: str) -> str:
    """Brings out the user's lines, where there are colours."""
    return "\n".join(
        colour(line, "1;33") if "// ←" in line else line for line in source.split("\n")
    )


def colour(text: str, code: str) -> str:
    """Writes text in a colour of ANSI's, where a terminal reads it."""
    return f"\033[{code}m{text}\033[0m" if sys.stdout.isatty() else text
