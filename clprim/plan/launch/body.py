"""The text of a kernel as a function that a launch of several calls: the same text, other ends.

What the kernel asks for by `get_group_id` and its like are macros, its arguments are read from a
table, its local memory is a part of what all of them share, and names of its file get a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from clprim.plan.kernel import KernelPlan, Parameter

_ATTRIBUTES = r"(?:__attribute__\(\((?:[^()]|\([^()]*\))*\)\)\s+)*"
_KERNEL = re.compile(
    rf"^{_ATTRIBUTES}__kernel {_ATTRIBUTES}void \w+\(.*?\)\n\{{\n", re.MULTILINE | re.DOTALL
)
_SIZE = re.compile(r"\breqd_work_group_size\((\d+), (\d+), (\d+)\)")
_LOCAL = re.compile(r"^    __local (\w+) (\w+\[[^;=]*);\n", re.MULTILINE)
_ARRAY = re.compile(r"(\w+)(\[[^\]]*\])(\[[^\]]*\])*")
_DEFINED = re.compile(r"^[ \t]*#define (\w+)", re.MULTILINE)
_LINE = re.compile(r'^#line \d+ "kernel"$', re.MULTILINE)
_ASIDE = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|"(?:[^"\\\n]|\\.)*"',
    re.MULTILINE | re.DOTALL,
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|[(){}\[\]]")
_WORDS = frozenset(
    "__attribute__ __constant __global __kernel __local __private const constant double enum float "
    "global half inline kernel local private signed static struct typedef union unsigned void "
    "volatile bool size_t ptrdiff_t".split()
)
_TYPE = re.compile(r"(?:u?(?:char|short|int|long)|float|double|half)(?:2|3|4|8|16)?")
# What a kernel's text may not hold, as the work-items of a launch of several differ in it.
_FOREIGN = re.compile(r"\b(?:\w*sub_group\w*|get_global_offset|get_work_dim|enqueue_kernel)\b")
_APART = re.compile(r"\b(?:barrier|work_group_\w+)\(|\b__local\b")
# By format of a parameter: how many words of the table it takes, and what they become.
_LOADS = {
    "b": "(char)W0", "B": "(uchar)W0", "h": "(short)W0", "H": "(ushort)W0", "i": "W0",
    "I": "(uint)W0", "f": "as_float(W0)", "l": "as_long((int2)(W0, W1))",
    "L": "as_ulong((int2)(W0, W1))", "d": "as_double((int2)(W0, W1))",
    "F": "as_float2((int2)(W0, W1))", "D": "as_double2((int4)(W0, W1, W2, W3))",
}  # fmt: skip
#: Bound: words of a pointer: which memory it lies in, and how many bytes from its begin.
POINTER = 3


def words_of(parameter: Parameter) -> int:
    """Returns how many words of the table a parameter takes."""
    if not parameter.format:
        return POINTER
    return {"D": 4}.get(parameter.format, 2 if parameter.format in "lLdF" else 1)


@dataclass(frozen=True)
class Body:
    """A kernel that is a phase.

    Attributes:
        text: The printed kernel.
        parameters: Its parameters.
        items: Whether a unit of work is a work-item, instead of a work-group.
    """

    text: str
    parameters: tuple[Parameter, ...]
    items: bool

    @cached_property
    def _parts(self) -> tuple[str, str]:
        """What stands before the kernel's head, and behind it."""
        found = _KERNEL.search(self.text)
        assert found is not None
        before, after = self.text[: found.start()], self.text[found.end() :]
        return _LINE.sub('#line @ "kernel"', before), _LINE.sub('#line @ "kernel"', after)

    @property
    def before(self) -> str:
        """Types, functions and macros."""
        return self._parts[0]

    @property
    def statements(self) -> str:
        """The kernel's statements and the bracket that closes it, without its local arrays."""
        return _LOCAL.sub("", self._parts[1])

    @property
    def macros(self) -> tuple[str, ...]:
        """Macros that it defines."""
        return tuple(dict.fromkeys(_DEFINED.findall(self.text)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its file that other kernels may have as well."""
        found, depth = dict[str, None](), 0
        for token in _TOKEN.findall(_ASIDE.sub(" ", self.before)):
            if token in "({[":
                depth += 1
            elif token in ")}]":
                depth -= 1
            elif not depth and token not in _WORDS and not _TYPE.fullmatch(token):
                found[token] = None
        return tuple(name for name in found if name not in self.macros)

    @property
    def arrays(self) -> tuple[tuple[str, str, str], ...]:
        """Its arrays in local memory: as members of a struct, and as what points to them."""
        found = []
        for kind, declared in _LOCAL.findall(self._parts[1]):
            for name, first, rest in _ARRAY.findall(declared):
                own = f"(*const {name}){rest}" if rest else f"*const {name}"
                found.append((name, f"{kind} {name}{first}{rest}", f"__local {kind} {own}"))
        return tuple(found)

    @property
    def given(self) -> str:
        """Its parameters' names, as what is given to a function."""
        names = (re.split(r"[ *]", p.declaration)[-1] for p in self.parameters)
        return "".join(f"{name}, " for name in names)

    @property
    def loads(self) -> tuple[tuple[str, str], ...]:
        """Declarations of its parameters, and what they are read from the table as."""
        found, at = [], 0
        for parameter in self.parameters:
            if parameter.format:
                value = _LOADS[parameter.format]
                for n in range(words_of(parameter)):
                    value = value.replace(f"W{n}", f"walk_words[{at + n}]")
            else:
                kind = parameter.declaration[: parameter.declaration.rindex("*") + 1]
                value = f"({kind})walk_memory(walk_words + {at})"
            found.append((parameter.declaration, value))
            at += words_of(parameter)
        return tuple(found)


def _printed(text: str, parameters: Sequence[Parameter]) -> Iterator[Parameter]:
    """Yields parameters as they are called in a text, where a snippet may have their names."""
    head = _KERNEL.search(text)
    assert head is not None
    names = re.findall(r"(\w+)[,)]", head[0][head[0].index(" void ") :])
    for parameter, name in zip(parameters, names, strict=True):
        kind = parameter.declaration[: -len(re.split(r"[ *]", parameter.declaration)[-1])]
        yield Parameter(f"{kind}{name}", parameter.format)


@lru_cache(maxsize=1024)
def _sizes_of(text: str) -> tuple[int, bool] | None:
    """The work-items of its groups where it says so, else 0, and whether these share anything."""
    head = _KERNEL.search(text)
    if head is None or text.count("__kernel ") != 1 or _FOREIGN.search(text):
        return None
    size = _SIZE.search(head[0])
    items = 0 if size is None else math.prod(map(int, size.groups()))
    return items, _APART.search(text) is not None


def group_of(kernel: KernelPlan, text: str) -> int | None:
    """Returns how many work-items the groups of a launch have in which a kernel is a phase.

    0 where any number will do, as its work-items share nothing; None where it can be no phase.
    """
    found = _sizes_of(text)
    if found is None:
        return None
    items, shared = found
    return (items or math.prod(kernel.local_size)) if shared else 0


def body_of(kernel: KernelPlan, text: str, items: int) -> Body | None:
    """Returns a kernel as a phase of a launch whose work-groups have so many work-items.

    None where it can be no phase of that launch.
    """
    group, found = group_of(kernel, text), _sizes_of(text)
    if found is None or group not in (0, items):
        return None
    return Body(
        text, tuple(_printed(text, kernel.code.parameters)), items=found[0] != items and not group
    )
