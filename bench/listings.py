"""What compilers' listings leave of matrix units' peak: products, ResNet-50's layers, in float16.

Of a kernel's loop three times are counted, in clocks of a scheduler: what its units take, what it
takes to issue all else, and what its part of local memory takes to move what goes through it. The
share is the first one over the longest. Caches, memory and waiting are left out: it is a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import numpy as np

from bench import vendors
from clprim.plan.conv.dense import dense_convolution
from clprim.plan.conv.lowering import contractions
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.product.matrix import MatrixCode, matrix_applicable
from clprim.plan.product.problem import Contraction
from clprim.render import render


class Chip(NamedTuple):
    """What makers say of a compute unit."""

    rate: float  # Multiply-adds of 16 bits that a scheduler's unit adds to float32 in a clock
    schedulers: int  # Of those that share local memory
    registers: int  # Of a lane, of all sub-groups that a scheduler holds
    slots: int  # Sub-groups that it holds at most
    local: int  # KiB of local memory
    beside: bool = True  # Whether others' instructions are computed while units multiply


#: ``mma.sync`` reaches .63 of sm_90's peak, which takes ``wgmma``: shares are of these .63.
CHIPS = {
    "sm_80": Chip(256, 4, 512, 16, 164),
    "sm_86": Chip(128, 4, 512, 12, 100),
    "sm_90": Chip(0.63 * 512, 4, 512, 16, 228),
    "gfx1100": Chip(128, 2, 1536, 16, 64, beside=False),
    "gfx90a": Chip(128, 4, 512, 8, 64),
    "dg2": Chip(64, 16, 1024, 8, 128),
}
#: Bytes that local memory moves in a clock.
_BYTES = 128
_UNITS = re.compile(r"\b(?:[HI]MMA|v_mfma|v_wmma|dpas)")
_LABEL = re.compile(r"\s*(?://)?\s*(\.?[A-Za-z_]\w*):")
_JUMP = re.compile(r"\bBRA\b|\bs_c?branch|\bgoto|\bjmpi|\bwhile")
_LANES = re.compile(r"\((\d+)\|M\d+\)")


class Share(NamedTuple):
    """What a compiler has made of a kernel."""

    share: float  # Of the units' peak
    registers: int
    spilled: int
    held: int  # Sub-groups that a scheduler holds at a time


_FORMS = ("NN", "NT", "TN")


def rows() -> dict[str, Contraction]:
    """Return what is compiled, by name."""
    half = np.dtype(np.float16)
    found = {f"{form} 2048³": dense_product(2048, 2048, 2048, form, dtype=half) for form in _FORMS}
    for name, (shape, options) in vendors.LAYERS.items():
        layer = dense_convolution(*shape, **{"last": True, "dtype": half, **options})
        found[name] = contractions(layer)[0]
    return found


def share_of(target: str, problem: Contraction) -> Share | None:
    """Compile a product for a GPU, and count; None where its units do not compute it."""
    traits, chip = vendors.GPUS[target], CHIPS[target]
    if not matrix_applicable(problem, traits):
        return None
    stages = PRODUCTS.plan(problem, traits, "matrix").stages
    plan = next(plan for plan in stages if plan.template == "product/matrix")
    code = cast("MatrixCode", plan.code)
    found = vendors.compile_for(target, render(plan.template, code), code.options)
    unit, together = code.unit, code.items // code.unit.items
    if not found.builds:
        raise RuntimeError(f"{target}: {found.message}")
    loop = [*_loop(found.listing, code.steps // unit.steps)]
    products = sum(_UNITS.search(line) is not None for line in loop)
    multiplied = products * unit.rows * unit.columns * unit.steps / chip.rate
    issued = sum(_clocks(target, line) for line in loop)
    moved = sum(_moved(line, unit.items) for line in loop) * chip.schedulers / _BYTES
    longest = max(moved, issued, multiplied) if chip.beside else max(moved, issued + multiplied)
    by_local = 1024 * chip.local // code.memory * together // chip.schedulers
    by_registers = chip.registers // max(1, -(-found.registers // 8) * 8)
    held = max(1, min(chip.slots, by_registers, by_local))
    return Share(multiplied / longest, found.registers, found.spilled, held)


def _lines(listing: str) -> Iterator[tuple[str, str]]:
    """Yield labels and instructions, as (label, "") and ("", instruction)."""
    for line in listing.splitlines():
        label = _LABEL.match(line)
        text = re.sub(r"/\*.*?\*/|//.*|;.*", "", line).strip()
        if label is not None:
            yield label[1], ""
        elif text and line[:1] in " \t(" and not text.startswith("."):
            yield "", text


def _loop(listing: str, trips: int) -> Iterator[str]:
    """Yield what is issued in a stage: a loop around products, and ``trips`` of one within."""
    lines = [*_lines(listing)]
    labels = {name: place for place, (name, _) in enumerate(lines) if name}
    loops = []
    for place, (_, text) in enumerate(lines):
        for name in re.findall(r"\.?[A-Za-z_]\w*", text) if _JUMP.search(text) else ():
            begin = labels.get(name, place)
            body = [line for _, line in lines[begin:place] if line]
            if begin < place and any(map(_UNITS.search, body)):
                loops.append([*body, text])
    outer, inner = max(loops, key=len), min(loops, key=len)
    yield from outer
    if inner is not outer and len(inner) < len(outer):
        yield from inner * (trips - 1)


def _clocks(target: str, line: str) -> int:
    """Return the clocks that an instruction takes of what sub-groups share to issue."""
    if target.startswith("sm_"):
        return 1
    if _UNITS.search(line):
        return 0
    if target == "dg2":  # eight lanes a clock, a message one
        lanes = _LANES.search(line)
        return max(1, int(lanes[1]) // 8) if lanes and not re.search("send|sync", line) else 1
    # Scalars, messages and jumps of others are issued meanwhile; gfx9 computes 16 lanes a clock.
    return (4 if target.startswith("gfx9") else 1) * line.startswith("v_")


def _moved(line: str, items: int) -> int:
    """Return the bytes that an instruction moves through local memory."""
    if "LDSM" in line:
        return 512 if ".4" in line else 256
    found = re.search(r"\b(?:LDS|STS|LDGSTS)\b\S*", line)
    if found:
        width = re.search(r"\.(64|128)\b", found[0])
        return 32 * (int(width[1]) // 8 if width else 4)
    found = re.match(r"ds_(?:read|load|write|store)(2)?\w*?_[bui](\d+)", line)
    if found:
        return items * max(4, int(found[2]) // 8) * (2 if found[1] else 1)
    # A message to surface 254: the registers that it writes, and those that it takes beside places.
    found = re.search(r"send\.dc[01] .*?(?:r\d+:(\d+))? +0x\w+ +(0x\w+FE)\b", line)
    return 32 * ((int(found[2], 16) >> 20) % 32 + int(found[1] or 0)) if found else 0


def command(targets: list[str], say: Callable[[str], None]) -> int:
    """Print a table of all shares, as Markdown; 1 where something is spilled."""
    missing = {t: vendors.available(t) or vendors.lacks_listings(t) for t in targets}
    for target, what in missing.items():
        if what:
            print(f"{target}: not installed: {what}")
    targets = [target for target in targets if not missing[target]]
    spilled = False
    print(f"| float16 | {' | '.join(targets)} |")
    print(f"|---{'|---' * len(targets)}|")
    for name, problem in rows().items():
        cells = []
        for target in targets:
            say(f"{target}: {name}")
            share = share_of(target, problem)
            cells.append(cell_of(share))
            spilled = spilled or (share is not None and share.spilled > 0)
        print(f"| {name} | {' | '.join(cells)} |")
    return int(spilled)


def cell_of(share: Share | None) -> str:
    """Return what the table says of a kernel."""
    if share is None:
        return "–"
    spilled = f", {share.spilled} bytes spilled" if share.spilled else ""
    return f"{round(100 * share.share)} % ({share.registers}, {share.held}{spilled})"
