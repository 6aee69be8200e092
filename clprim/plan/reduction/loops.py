"""The loops of a reduction or of a scan, and the numbers that kernels are given of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from clprim.plan.kernel import PositionCode
from clprim.plan.reduction.stage import Folding
from clprim.plan.snippets import refuse_byte_choices, resolve_positions
from clprim.plan.strides import Dim, Space, broadcast_strides, collapse, memory_order
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class FoldLoops:
    """The loops of one call, sorted as its inputs lie in memory, and collapsed."""

    folding: Folding
    shape: tuple[int, ...]  # What is broadcast to, before collapsing
    space: Space  # The loops; their operands are inputs, results and positions
    positions: tuple[PositionCode, ...]  # Operands without memory, which count
    coords: tuple[tuple[int, int], ...]  # See `FoldCode`
    sizes: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls,
        folding: Folding,
        shape: tuple[int, ...],
        axes: Sequence[int],
        used: Collection[str],
        item: str,
        *,
        flip: bool,
    ) -> FoldLoops:
        """Finds the loops."""
        definition = folding.definition
        refuse_byte_choices(definition.snippets, folding.inputs, folding.traits)
        counted: dict[str, Sequence[int] | None] = {}
        if "index" in used or definition.draws:
            counted["index"] = None
        if item in used:
            counted[item] = axes
        names, steps, coords, sizes = resolve_positions(
            definition.name, definition.snippets, shape, counted
        )
        arrays = [*folding.inputs, *folding.results]
        strides = [broadcast_strides(a, shape) for a in arrays]
        everything = [*strides, *steps]
        order = list(memory_order(shape, strides))
        if definition.positions:
            # Of equal elements the step keeps the first it meets: they must come in their order.
            slots = [at for at, axis in enumerate(order) if axis in axes]
            for at, axis in zip(slots, axes, strict=True):
                order[at] = axis
        dims = tuple(Dim(shape[d], tuple(s[d] for s in everything), d in axes) for d in order)
        offsets = (*(a.in_elements(a.offset) for a in arrays), *(0 for _ in names))
        space = collapse(Space(dims, offsets), flip=flip)
        if not math.prod(d.size for d in space.select(True)):
            # One empty loop: kernels divide by the lengths of several.
            empty = Dim(0, (0,) * len(everything), True)
            space = Space((*space.select(False), empty), space.offsets)
        positions = tuple(PositionCode(name) for name in names)
        return cls(folding, shape, space, positions, coords, sizes)

    @property
    def counts(self) -> DeviceTraits | None:
        """The device whose compiler sees positions or sizes, if snippets have any."""
        return self.folding.traits if self.positions or self.sizes else None

    @property
    def kept(self) -> int:
        """Iterations of the loops that are not reduced."""
        return math.prod(d.size for d in self.space.select(False))

    @property
    def reduced(self) -> int:
        """Iterations of the others."""
        return math.prod(d.size for d in self.space.select(True))

    def single(self, *, reduced: bool = False) -> Dim:
        """A loop of one iteration."""
        return Dim(1, (0,) * len(self.space.offsets), reduced)

    def size_numbers(self) -> list[tuple[str, int]]:
        """Sizes that snippets ask for, by name."""
        return [(f"size_{axis}", self.shape[axis]) for axis in sorted({a for _, a in self.sizes})]


def operand_numbers(
    name: str,
    k: int,
    start: int,
    kept: Sequence[Dim],
    *,
    step: Dim | None = None,
    column: Dim | None = None,
    reduced: Sequence[Dim] = (),
) -> list[tuple[str, int]]:
    """Returns where an operand begins and how it steps, by name."""
    found = [(f"{name}_start", start)]
    found += [(f"{name}_step", step.strides[k])] if step is not None else []
    found += [(f"{name}_column", column.strides[k])] if column is not None else []
    found += [(f"{name}_k{d}", dim.strides[k]) for d, dim in enumerate(kept)]
    return found + [(f"{name}_r{d}", dim.strides[k]) for d, dim in enumerate(reduced)]
