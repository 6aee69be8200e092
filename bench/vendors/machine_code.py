"""Loops of disassembled kernels, and which part of their instructions are products.

Assembly is cut into blocks at labels and branches. A loop is what lies between a block and a
branch back to it that cannot be reached otherwise: a natural loop, as compilers define it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Dialect:
    """How a disassembler writes.

    Attributes:
        label: Matches a line that names the next instruction; its group is the name.
        instruction: Matches an instruction's line; its group is the instruction.
        branch: Finds a branch in an instruction; its group is where to.
        always: Finds that a branch is taken in any case.
        end: Finds an instruction that nothing follows.
        product: Finds a multiply-add.
        pair: Finds one of two products.
        pipes: What issues in parallel: a name and what finds its instructions, the first that does.
        rate: Products of an instruction at the peak.
    """

    label: re.Pattern[str]
    instruction: re.Pattern[str]
    branch: re.Pattern[str]
    always: re.Pattern[str]
    end: re.Pattern[str]
    product: re.Pattern[str]
    pair: re.Pattern[str]
    pipes: tuple[tuple[str, re.Pattern[str]], ...]
    rate: int = 1

    def pipe(self, instruction: str) -> str:
        """Returns the name of the pipe that takes an instruction."""
        return next(name for name, found in self.pipes if found.search(instruction))

    def cycles(self, instruction: str) -> float:
        """Returns how many cycles it takes there: one for eight lanes, where it says how many."""
        lanes = _LANES.search(instruction)
        return max(1.0, int(lanes[1]) / 8) if lanes else 1.0


# Eight lanes of numbers are calculated in a cycle, fewer take one as well.
_LANES = re.compile(r"\((\d+)\|M\d+\)")
_BARRIER = re.compile(r"s_barrier|BAR\.SYNC|^(\(W\)\s*)?wait\b|sync\.bar")
_ANY = re.compile("")
_NEVER = re.compile(r"(?!)")

AMDGCN = Dialect(
    label=re.compile(r"(\.L\w+):"),
    instruction=re.compile(r"\s+([sv]_.*|ds_.*|global_.*|buffer_.*|flat_.*|scratch_.*)"),
    branch=re.compile(r"s_c?branch\w*\s+(\.L\w+)"),
    always=re.compile(r"s_branch"),
    end=re.compile(r"s_endpgm"),
    product=re.compile(r"v_(pk_)?(fma|fmac|mac|mad)_(f16|f32|f64)"),
    pair=re.compile(r"v_pk_"),
    pipes=(
        ("branch", re.compile(r"^s_(c?branch|waitcnt|nop|barrier|sleep)")),
        ("scalar", re.compile(r"^s_")),
        ("vector", re.compile(r"^v_")),
        ("local", re.compile(r"^ds_")),
        ("memory", _ANY),
    ),
)
# Its vector instructions compute two products each at the peak.
CDNA = replace(AMDGCN, rate=2)
SASS = Dialect(
    label=re.compile(r"(\.L\w+):"),
    instruction=re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);"),
    branch=re.compile(r"\bBRA\b.*`\((\.L\w+)\)"),
    always=re.compile(r"^BRA"),
    end=re.compile(r"^EXIT"),
    product=re.compile(r"\b(FFMA|DFMA|HFMA2)\b"),
    pair=_NEVER,
    pipes=(("issue", _ANY),),
)
_SENDS = re.compile(r"\bsends?[c.\w]*\s")
_JUMPS = re.compile(r"\b(jmpi|while|goto|break|join|if|else|endif|sync|nop|brc|brd)\b")
_FLOATS = re.compile(r"(?:<[\d;,]*>|:):?(f|hf|df)\b|:(f|hf|df)\b")
GEN = Dialect(
    label=re.compile(r"(\w+):"),
    instruction=re.compile(r"\s*((?:\([^)]*\)\s*)?[a-z][\w.]*\s.*)"),
    # `goto.b` jumps back to its second label, where all lanes that go on have gone.
    branch=re.compile(
        r"\b(?:goto\.b\b.*?\s(?:_\w+|L\d+)\s+|(?:jmpi|while|goto(?!\.b)|brc|brd)\b.*?\s)(_\w+|L\d+)"
    ),
    always=re.compile(r"^\(W\)\s+jmpi"),
    end=re.compile(r"\bret\b"),
    product=re.compile(r"\b(mad|mac)\b.*:(f|df|hf)\b"),
    pair=_NEVER,
    pipes=(("send", _SENDS), ("branch", _JUMPS), ("numbers", _ANY)),
)
# Floats and whole numbers have a pipe each.
XE = replace(GEN, pipes=(("send", _SENDS), ("branch", _JUMPS), ("float", _FLOATS), ("whole", _ANY)))


@dataclass(frozen=True)
class Loop:
    """One loop.

    Attributes:
        instructions: Of its body, with the loops in it.
        products: Instructions among them that multiply and add.
        flops: Products that those compute: some are two.
        needed: Cycles that these would take by themselves at the peak.
        pipes: Cycles of every pipe, by its name.
        waits: Whether work-items of a group wait for each other in it.
    """

    instructions: int
    products: int
    flops: int
    needed: float = field(default=0.0, compare=False)
    pipes: Mapping[str, float] = field(default_factory=dict, compare=False)
    waits: bool = field(default=False, compare=False)

    @property
    def share(self) -> float:
        """The part of its instructions that are products."""
        return self.products / self.instructions


@dataclass
class _Block:
    label: str
    instructions: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    falls: bool = True


def loops(assembly: str, dialect: Dialect) -> list[Loop]:
    """Returns the loops of a kernel, small ones first.

    Args:
        assembly: What a compiler or a disassembler wrote.
        dialect: Which one.
    """
    blocks = _blocks(assembly, dialect)
    found = []
    for body in _natural_loops(blocks):
        inside = [line for at in body for line in blocks[at].instructions]
        products = [line for line in inside if dialect.product.search(line)]
        pairs = sum(1 for line in products if dialect.pair.search(line))
        cycles: dict[str, float] = defaultdict(float)
        for line in inside:
            cycles[dialect.pipe(line)] += dialect.cycles(line)
        needed = sum(dialect.cycles(line) for line in products)
        needed *= (len(products) + pairs) / dialect.rate / max(1, len(products))
        waits = any(_BARRIER.search(line) for line in inside)
        flops = len(products) + pairs
        found.append(Loop(len(inside), len(products), flops, needed, dict(cycles), waits))
    return sorted(found, key=lambda loop: loop.instructions)


def product_loops(found: Sequence[Loop]) -> tuple[Loop, Loop] | None:
    """Returns the smallest loop that has more than half of all products, and the next larger one.

    Both are the same where there is none around it; None where no loop has products.
    """
    most = max((loop.products for loop in found), default=0)
    # Some more may be outside of the inner loop: GPUs without it divide whole numbers by floats.
    inner = [loop for loop in found if 2 * loop.products > most]
    if not most:
        return None
    return inner[0], inner[min(1, len(inner) - 1)]


def nest(found: Sequence[Loop]) -> list[Loop]:
    """Returns the loop that `product_loops` finds, and those around it, the innermost first."""
    pair = product_loops(found)
    if pair is None:
        return []
    most = max(loop.products for loop in found)
    return [loop for loop in found if 2 * loop.products > most]


def _blocks(assembly: str, dialect: Dialect) -> list[_Block]:
    blocks = [_Block("")]
    for line in assembly.split("\n"):
        label = dialect.label.match(line)
        if label:
            blocks.append(_Block(label[1]))
            continue
        match = dialect.instruction.match(line)
        if not match:
            continue
        text = match[1]
        blocks[-1].instructions.append(text)
        branch = dialect.branch.search(text)
        if branch:
            blocks[-1].targets.append(branch[1])
            blocks[-1].falls = not dialect.always.search(text)
        elif dialect.end.search(text):
            blocks[-1].falls = False
        else:
            continue
        blocks.append(_Block(""))
    return blocks


def _natural_loops(blocks: Sequence[_Block]) -> list[list[int]]:
    """The blocks of every loop, by number."""
    place = {block.label: at for at, block in enumerate(blocks) if block.label}
    follow = [
        [place[t] for t in block.targets if t in place]
        + ([at + 1] if block.falls and at + 1 < len(blocks) else [])
        for at, block in enumerate(blocks)
    ]
    reached, waiting = {0}, [0]
    while waiting:
        for to in follow[waiting.pop()]:
            if to not in reached:
                reached.add(to)
                waiting.append(to)
    before: list[list[int]] = [[] for _ in blocks]
    for at in reached:
        for to in follow[at]:
            before[to].append(at)
    over = _dominators(before, reached)
    bodies: dict[int, set[int]] = {}
    for at in reached:
        for head in follow[at]:
            if head in over[at]:  # a branch back
                body = bodies.setdefault(head, {head})
                waiting = [at]
                while waiting:
                    block = waiting.pop()
                    if block not in body:
                        body.add(block)
                        waiting += before[block]
    return [sorted(body) for body in bodies.values()]


def _dominators(before: Sequence[Sequence[int]], reached: set[int]) -> dict[int, set[int]]:
    """For every block those that all ways to it lead through."""
    over = {at: {0} if at == 0 else set(reached) for at in reached}
    changed = True
    while changed:
        changed = False
        for at in sorted(reached - {0}):
            new = {at} | set.intersection(*(over[b] for b in before[at]))
            changed |= new != over[at]
            over[at] = new
    return over
