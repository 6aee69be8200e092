"""What an OpenCL compiler complained of, told in terms of the user's snippet.

A generated kernel has ``#line 1 "snippet:<part>"`` before every snippet and
``#line <n> "kernel"`` after it, so compilers name the snippet and its line by themselves. Their
formats differ (all of these were seen, or are documented):

* clang, hence Intel, NVIDIA, AMD, Mesa: ``snippet:step:2:14: error: use of undeclared …``, the
  source line and a caret below it;
* PoCL: ``error: snippet:step:2:14: use of undeclared …``, with ``<Spelling=file:1:2>`` where a
  macro was expanded, no source line;
* Oclgrind, rusticl 26.2: clang's format, but ``input.cl:16:14`` in spite of ``#line``: real lines;
* EDG front ends: ``"snippet:step", line 2: error: …``; others: ``snippet:step(2): error …``.

Nothing here knows a device: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from clprim.language.hints import of_complaint
from clprim.language.tokens import quote

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<file>\S.*?):(?P<line>\d+)(?::(?P<column>\d+))?:\s*(?:fatal )?error:\s*(?P<text>.*)",
        r"(?:fatal )?error:\s*(?P<file>\S.*?):(?P<line>\d+)(?::(?P<column>\d+))?"
        r"(?:\s*<Spelling=[^>]*>)?:\s*(?P<text>.*)",
        r'"(?P<file>[^"]+)",\s*line (?P<line>\d+):\s*(?:catastrophic )?error[^:]*:\s*(?P<text>.*)',
        r"(?P<file>\S.*?)\((?P<line>\d+)(?:[,:](?P<column>\d+))?\)\s*:\s*(?:fatal )?error[^:]*:\s*"
        r"(?P<text>.*)",
    )
)
_LINE_DIRECTIVE = re.compile(r'\s*#\s*line\s+(\d+)(?:\s+"([^"]*)")?\s*$')
_DIVISION = re.compile(r"cp_(divide|modulo)\(")
_WORD = re.compile(r"\w+|[^\w\s]")
_SNIPPET = "snippet:"
_KERNEL = "kernel"
_SHOWN_COMPLAINTS = 3
_SHOWN_LOG_LINES = 20
_SHOWN_CONTEXT = 3
_TAB = 4


@dataclass(frozen=True)
class Complaint:
    """One error of the compiler, located."""

    part: str | None
    line: int
    column: int | None
    text: str
    compiled: str | None


@dataclass(frozen=True)
class _Line:
    """A line of the generated source, and what ``#line`` makes of its place."""

    name: str
    number: int
    text: str


def complaints(log: str, source: str, ahead: int = 0) -> list[Complaint]:
    """Finds the errors in a build log that can be located in the source, in the log's order."""
    lines = _numbered(source)
    found: list[Complaint] = []
    seen: set[tuple[str | None, int, int | None]] = set()
    for entry in log.split("\n"):
        complaint = _parse(entry.strip(), lines, ahead)
        if complaint is None:
            continue
        # A snippet that is pasted twice is complained of twice, and one mistake at one place may
        # draw several complaints, of which the first is the one that helps.
        place = (complaint.part, complaint.line, complaint.column)
        if place not in seen:
            seen.add(place)
            found.append(complaint)
    return found


def explain(
    log: str,
    source: str,
    *,
    title: str,
    device: str,
    snippets: Mapping[str, str] | None = None,
    ahead: int = 0,
) -> str:
    """Writes the message of a build error: the snippet's line, a caret, the compiler's words."""
    head = f"{title}: the OpenCL compiler refused it on {device}"
    found = complaints(log, source, ahead)
    blamed = [complaint for complaint in found if complaint.part is not None]
    if not blamed:
        return "\n".join([head, *_generated(found, source), *_log(log)])
    body: list[str] = []
    for complaint in blamed[:_SHOWN_COMPLAINTS]:
        body += _quoted(complaint, snippets or {})
    if len(blamed) > _SHOWN_COMPLAINTS:
        body.append(f"  ({len(blamed) - _SHOWN_COMPLAINTS} more in the compiler's log: .log)")
    return "\n".join([head, *body])


def _numbered(source: str) -> list[_Line]:
    """Follows the ``#line`` directives of a source, line by line."""
    lines = []
    name, number = _KERNEL, 0
    for text in source.split("\n"):
        number += 1
        lines.append(_Line(name, number, text))
        directive = _LINE_DIRECTIVE.match(text)
        if directive:
            number = int(directive[1]) - 1  # is about the line that follows
            name = directive[2] if directive[2] is not None else name
    return lines


def _parse(entry: str, lines: list[_Line], ahead: int) -> Complaint | None:
    for pattern in _PATTERNS:
        match = pattern.match(entry)
        if match:
            break
    else:
        return None
    fields = match.groupdict()
    name, number = fields["file"], int(fields["line"])
    if name.endswith((".h", ".hpp")):
        return None  # a header of the compiler's own
    if _SNIPPET not in name and name != _KERNEL:
        number -= ahead  # counted from the first line that was compiled
        if ahead and number <= 0:
            return None
    part: str | None = None
    compiled: str | None = None
    if _SNIPPET in name:  # a compiler may put a folder before it
        part = name.split(_SNIPPET, 1)[1]
        for line in lines:
            if line.name == _SNIPPET + part and line.number == number:
                compiled = line.text
                break
    elif 0 < number <= len(lines):
        # The generated code, whose numbers are real, or a compiler that takes no notice of #line.
        line = lines[number - 1]
        compiled = line.text
        if line.name.startswith(_SNIPPET) and name != _KERNEL:
            part, number = line.name[len(_SNIPPET) :], line.number
    column = None
    if fields.get("column") is not None and compiled is not None:
        column = _character(compiled, int(fields["column"]))
    # PoCL renames OpenCL C's functions by macros; the user wrote the name without the prefix.
    text = fields["text"].strip().replace("'_cl_", "'")
    return Complaint(part, number, column, text, compiled)


def _character(text: str, column: int) -> int:
    """Turns the compiler's column (bytes, from 1) into an index of characters."""
    return len(text.encode()[: max(0, column - 1)].decode(errors="ignore"))


def _quoted(complaint: Complaint, snippets: Mapping[str, str]) -> list[str]:
    """Quotes the user's line with a caret below it."""
    compiled, column = complaint.compiled, complaint.column
    shown = compiled
    snippet = snippets.get(complaint.part or "")
    if snippet is not None and 0 < complaint.line <= len(snippet.split("\n")):
        shown = snippet.split("\n")[complaint.line - 1]
        if compiled is None:
            column = None
        elif shown.strip() not in compiled:
            column = _same_word(shown, compiled, column)
        elif column is not None:  # the renderer may have indented it
            column += shown.index(shown.strip()) - compiled.index(shown.strip())
    block = [f"  {complaint.part}, line {complaint.line}:"]
    hint = None
    if shown is not None:
        known = column is not None and 0 <= column <= len(shown)
        place = len(shown[:column].expandtabs(_TAB)) if known else 0
        line, mark = quote(shown.expandtabs(_TAB).rstrip(), place, 1)
        block += [f"    {line}", *([f"    {mark}"] if known else [])]
        hint = of_complaint(complaint.text, shown[column:] if known else "")
    block.append(f"  error: {complaint.text}")
    return [*block, f"  ({hint})"] if hint else block


def _same_word(shown: str, compiled: str, column: int | None) -> int | None:
    """Where a word of a line stood before operands got other names, and divisions a function's.

    None where that is unknown.
    """
    words = [[m.start() for m in _WORD.finditer(line)] for line in (shown, compiled)]
    if column not in words[1]:
        return None
    at = words[1].index(column)
    if not _DIVISION.search(compiled):
        return words[0][at] if len(words[0]) == len(words[1]) else None
    texts: list[list[str]] = [_WORD.findall(line) for line in (shown, compiled)]
    alike = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for _, i, j, k, end in alike.get_opcodes():
        if k <= at < end and j - i == end - k:
            return words[0][i + at - k]
    return None


def _generated(found: list[Complaint], source: str) -> list[str]:
    """Quotes the generated code around the first error that lies there."""
    if not found:
        return []
    complaint = found[0]
    lines = source.split("\n")
    first = max(1, complaint.line - _SHOWN_CONTEXT)
    last = min(len(lines), complaint.line + _SHOWN_CONTEXT)
    block = [f"  generated code, line {complaint.line}: error: {complaint.text}"]
    for number in range(first, last + 1):
        mark = ">" if number == complaint.line else " "
        block.append(f"  {mark} {number:4} | {lines[number - 1]}".rstrip())
    return block


def _log(log: str) -> list[str]:
    lines = [quote(line.rstrip(), 0, 1)[0] for line in log.strip().split("\n") if log.strip()]
    block = ["  the compiler's log:"] if lines else ["  the compiler left no log"]
    block += [f"    {line}" for line in lines[:_SHOWN_LOG_LINES]]
    if len(lines) > _SHOWN_LOG_LINES:
        block.append(f"    ({len(lines) - _SHOWN_LOG_LINES} more lines: .log)")
    block.append("  op.source(...) with the same arguments shows the whole kernel")
    return block
