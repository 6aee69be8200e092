"""What users say of outputs that become pixels: ``depth_to_space=`` and ``mode=``."""

from __future__ import annotations

from typing import Any

from clprim.dtypes import is_integer
from clprim.errors import DefinitionError, DTypeError, ShapeError, quoted
from clprim.plan.conv.pixels import Shuffle


def check_shuffle(what: str, block: Any, mode: Any) -> None:
    """Raises unless the block size and the order of channels are known ones."""
    if mode not in ("DCR", "CRD"):
        raise DefinitionError(f"{what}: mode={quoted(mode)} is unknown; expected 'DCR' or 'CRD'")
    if block is None:
        return
    if not is_integer(block):
        raise DTypeError(f"{what}: depth_to_space={quoted(block)}: expected an integer")
    if block < 1:
        raise ShapeError(f"{what}: depth_to_space={quoted(block)}: expected at least 1")


def shuffle_of(
    what: str, block: Any, mode: Any, outputs: int, groups: int, *, last: bool
) -> Shuffle | None:
    """Returns how outputs become pixels, or None where they stay what they are."""
    check_shuffle(what, block, mode)
    if block is None:
        return None
    if outputs % block**2:
        raise ShapeError(
            f"{what}: {outputs} outputs are not a multiple of depth_to_space² = {block**2}"
        )
    if block == 1:
        return None
    order = "cij" if mode == "CRD" else "ijc"
    if groups == 1:
        order = "ijc" if last else "cij"
    return Shuffle(int(block), mode, outputs // block**2, order)
