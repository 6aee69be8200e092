"""Prints a plan's code as OpenCL C. The same code gives the same text, byte for byte."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from clprim.errors import DefinitionError
from clprim.language.cursor import Fault
from clprim.language.ways import mixes_ways
from clprim.plan.kernel import KernelCode

if TYPE_CHECKING:
    import jinja2


# What keeps work-items out of each other's vectors; compilers that know no such word skip it.
_NO_VECTORS = "__attribute__((intel_vec_len_hint(1)))"


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Returns the environment that templates are read and printed with."""
    import jinja2

    folder = resources.files("clprim.templates")

    def read(name: str) -> str | None:
        file = folder / name
        return file.read_text(encoding="utf-8") if file.is_file() else None

    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.globals["no_vectors"] = _NO_VECTORS
    found.filters["drawing"] = _drawing
    found.filters["indent"] = _indent  # Jinja's own ends lines where C does not, within comments
    return found


def _drawing(text: str) -> str:
    """Turns what a template says of its kernel, with the numbers of this one, into comments."""
    lines = text.strip("\n").split("\n")
    return "".join(f"// {line.removeprefix('  ')}".rstrip() + "\n" for line in lines)


def _indent(text: str, width: int) -> str:
    """Sets all lines but the first in, empty ones excepted; a line ends in a newline, as in C."""
    first, *others = text.split("\n")
    return "\n".join([first, *(" " * width + line if line else line for line in others)])


def render(template: str, code: KernelCode) -> str:
    """Prints ``code`` with a template."""
    text = environment().get_template(f"{template}.cl.jinja").render(code=code)
    # A local may be called as its kernel: C lets it hide the function, which the host asks for.
    return _number_lines(_tidy(text, tuple(name for name in code.own if name != code.name)))


def _tidy(text: str, own: tuple[str, ...]) -> str:
    """Returns the text with snippets where the user's columns are, and without stray blanks.

    Snippets and directives lose the indentation that templates gave them, so that the compiler's
    carets fit; other lines lose trailing blanks and doubled empty lines, and names that the user
    chose as well get a prefix that no user's name has.
    """
    # Not what follows a dot: components of vectors, and the f of a number.
    taken = re.compile(rf"(?<!\.)\b({'|'.join(own)})\b") if own else None
    lines: list[str] = []
    indent: int | None = None  # of the snippet we are in
    for line in text.split("\n"):
        stripped = line.strip(" ")
        if indent is not None and not stripped.startswith("#line @ "):
            # A snippet's own line; those that look like the engine's marks are in its comments.
            lines.append(line[indent:] if line[:indent].isspace() else line)
        elif stripped.startswith("#line "):
            indent = len(line) - len(stripped) if stripped.startswith("#line 1 ") else None
            lines.append(stripped)
        elif stripped or (lines and lines[-1]):
            ours = taken if not stripped.startswith("#pragma") else None
            lines.append((ours.sub(r"cp_\1", line) if ours else line).rstrip())
    return "\n".join(lines).strip("\n") + "\n"


def _number_lines(text: str) -> str:
    """Replaces ``#line @`` by the number that the next line really has."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("#line @ "):
            lines[at] = line.replace("@", str(at + 2), 1)
    return "\n".join(lines)


_SNIPPETS = re.compile(r'^#line 1 "snippet:.*?\n(.*?)^#line \d+ "kernel"', re.MULTILINE | re.DOTALL)
_ONE_ITEM = "reqd_work_group_size(1, 1, 1)"
# Without one of these nothing is lost, and nothing parsed: most strings, most preambles.
_TELLING = re.compile(r"\b(?:for|while|do|goto|at_[xw]\d+)\b")
# Where neighbouring work-items differ: i is theirs.
_OWN = re.compile(r"^ *(?:const )?\w+ (x\d+|coord_\d+) = [^;]*\bi\b", re.MULTILINE)


@lru_cache(maxsize=1024)
def apart(source: str) -> str:
    """Returns a kernel whose work-items share no vectors where their ways may part."""
    if _ONE_ITEM in source:
        return source
    names = (name.replace("coord_", "coord(") for name in _OWN.findall(source))
    own = frozenset({"index"} | {n + ")" if "(" in n else n for n in names})
    logic = re.search(r"\btypedef bool", source) is not None
    if not any(_may_mix(text, own, logic) for text in _SNIPPETS.findall(source)):
        return source
    return re.sub(r"(^|\) )__kernel ", rf"\1__kernel {_NO_VECTORS} ", source, flags=re.MULTILINE)


def _may_mix(text: str, own: frozenset[str], logic: bool) -> bool:
    if not _TELLING.search(text):
        return False
    try:
        return mixes_ways(text, own, logic=logic)
    except (Fault, DefinitionError):  # what only the compiler understands
        return True
