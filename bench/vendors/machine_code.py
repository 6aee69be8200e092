"""Loops of disassembled kernels, and which part of their instructions are products.

Assembly is cut into blocks at labels and branches. A loop is what lies between a block and a
branch back to it that cannot be reached otherwise: a natural loop, as compilers define it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["AMDGCN", "GEN", "SASS", "Dialect", "Loop", "loops", "product_loops"]


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
    """

    label: re.Pattern[str]
    instruction: re.Pattern[str]
    branch: re.Pattern[str]
    always: re.Pattern[str]
    end: re.Pattern[str]
    product: re.Pattern[str]
    pair: re.Pattern[str]


_NEVER = re.compile(r"(?!)")

AMDGCN = Dialect(
    label=re.compile(r"(\.L\w+):"),
    instruction=re.compile(r"\s+([sv]_.*|ds_.*|global_.*|buffer_.*|flat_.*|scratch_.*)"),
    branch=re.compile(r"s_c?branch\w*\s+(\.L\w+)"),
    always=re.compile(r"s_branch"),
    end=re.compile(r"s_endpgm"),
    product=re.compile(r"v_(pk_)?(fma|fmac|mac|mad)_(f16|f32|f64)"),
    pair=re.compile(r"v_pk_"),
)
SASS = Dialect(
    label=re.compile(r"(\.L\w+):"),
    instruction=re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);"),
    branch=re.compile(r"\bBRA\b.*`\((\.L\w+)\)"),
    always=re.compile(r"^BRA"),
    end=re.compile(r"^EXIT"),
    product=re.compile(r"\b(FFMA|DFMA|HFMA2)\b"),
    pair=_NEVER,
)
GEN = Dialect(
    label=re.compile(r"(\w+):"),
    instruction=re.compile(r"\s*((?:\([^)]*\)\s*)?[a-z][\w.]*\s.*)"),
    branch=re.compile(r"\b(?:jmpi|while|goto|brc|brd)\b.*?\s(_\w+|L\d+)"),
    always=re.compile(r"^\(W\)\s+jmpi"),
    end=re.compile(r"\bret\b"),
    product=re.compile(r"\b(mad|mac)\b.*:(f|df|hf)\b"),
    pair=_NEVER,
)


@dataclass(frozen=True)
class Loop:
    """One loop.

    Attributes:
        instructions: Of its body, with the loops in it.
        products: Instructions among them that multiply and add.
        flops: Products that those compute: some are two.
    """

    instructions: int
    products: int
    flops: int

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
        found.append(Loop(len(inside), len(products), len(products) + pairs))
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
