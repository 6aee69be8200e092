"""What the kernels of a `Pointwise` have in common: loops, operands, types and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.language.complex_numbers import PARTS
from clprim.language.definition import PointwiseDefinition
from clprim.plan.kernel import (
    BAKED_DIMS,
    KernelPlan,
    LookupCode,
    OperandCode,
    Plan,
    PositionCode,
    ScalarCode,
    inner_step,
)
from clprim.plan.parameters import Arguments
from clprim.plan.pointwise.code import PointwiseCode
from clprim.plan.pointwise.lookups import plan_lookups, vector_lanes
from clprim.plan.pointwise.schedule import (
    SIZES,
    find_period,
    in_words,
    may_stream,
    vector_width,
    widest,
)
from clprim.plan.pointwise.tiling import Tiling, find_tiling
from clprim.plan.snippets import (
    Printed,
    index_type,
    own_names,
    refuse_byte_choices,
    resolve_positions,
    unified_functions,
)
from clprim.plan.strides import (
    Dim,
    Operand,
    Space,
    broadcast_strides,
    collapse,
    memory_order,
)
from clprim.traits import DeviceTraits

# Vectors compute as their components do only where C does not promote the components first.
_VECTOR_TYPES = frozenset("int uint long ulong float double".split())


class Elements:
    """One call, and what all its kernels have in common."""

    def __init__(
        self,
        definition: PointwiseDefinition,
        shape: tuple[int, ...],
        results: tuple[Operand, ...],
        inputs: tuple[Operand, ...],
        scalars: tuple[AnyDType, ...],
        traits: DeviceTraits,
    ) -> None:
        refuse_byte_choices(definition.snippets, inputs, traits)
        self.definition, self.shape, self.results, self.traits = definition, shape, results, traits
        self.nbytes = sum(_touched(a, shape) for a in (*results, *inputs))
        self.reach = self.nbytes + sum(_reach(a) - _touched(a, shape) for a in results)
        self._collapse(inputs)
        self._name_operands(inputs, scalars)
        self._find_vectors()
        self._take_arguments(inputs)

    def _collapse(self, inputs: tuple[Operand, ...]) -> None:
        """Sorts the loops as the results lie in memory, and merges them."""
        definition, shape, results = self.definition, self.shape, self.results
        arrays = [*results, *(inputs[n] for n in definition.broadcast)]
        strides = [broadcast_strides(a, shape) for a in arrays]
        counted = {"index": None} if "index" in definition.expr.used or definition.draws else {}
        self.positions, position_strides, self.coords, self.sizes = resolve_positions(
            definition.name, definition.snippets, shape, counted
        )
        everything = [*strides, *position_strides]
        space = collapse(
            Space(
                tuple(
                    Dim(shape[d], tuple(s[d] for s in everything))
                    for d in memory_order(shape, strides)
                ),
                (*(a.in_elements(a.offset) for a in arrays), *(0 for _ in position_strides)),
            )
        )
        self.types = [a.dtype for a in arrays]
        self.copied = definition.copies and results[0].dtype == inputs[0].dtype
        if self.copied:
            space, itemsize = in_words(space, self.types[0].itemsize, self.traits)
            self.types = [np.dtype(f"u{itemsize}")] * 2
        self.space = space
        self.dims = space.dims or (Dim(1, (1,) * len(everything)),)

    def _name_operands(self, inputs: tuple[Operand, ...], scalars: tuple[AnyDType, ...]) -> None:
        """Finds in which types everything is stored and calculated."""
        definition, results, inner = self.definition, len(self.results), self.dims[-1]
        elsewhere = [a.dtype for n, a in enumerate(inputs) if n not in definition.broadcast]
        dtypes = [*self.types, *elsewhere, *scalars]
        self.lookups, self.places = plan_lookups(definition, inputs, dtypes)
        values = [
            t if t.kind in "iub" and k < results else value_dtype(t, dtypes)
            for k, t in enumerate(self.types)
        ]
        named = zip(_names(results, definition.broadcast), self.types, values, strict=True)
        self.operands = [
            OperandCode.of(name, dtype, value, inner.strides[k])
            for k, (name, dtype, value) in enumerate(named)
        ]
        # What is read backwards is read by vectors, whose lanes change places.
        self.operands = [
            replace(o, inner="back") if inner.strides[k] == -1 and k >= results else o
            for k, o in enumerate(self.operands)
        ]
        self.scalars = tuple(
            ScalarCode(f"w{n}", stored_type(value_dtype(d, dtypes)).value)
            for n, d in enumerate(scalars)
        )

    def _find_vectors(self) -> None:
        """Finds the type that vectors calculate in, where they compute as elements do."""
        definition, arrays = self.definition, len(self.types)
        of_all = _vector_type(definition, self.operands, self.scalars)
        self.value = self.operands[0].value if self.copied else of_all
        self.pair = "" if of_all else _pair_type(definition, self.operands, self.scalars)
        if not self.lookups or not self.traits.is_cpu or definition.draws:
            return
        walks = self.dims[-1].strides[arrays:]
        lane = [n for n, walk in zip(self.positions, walks, strict=True) if walk]
        if len(lane) != 1 or lane[0] == "index" or 1 not in walks:
            return
        axis, ndim = int(lane[0][6:]), len(self.shape)
        where = len(self.results), axis, ndim
        along = vector_lanes(definition, self.operands, self.lookups, *where)
        if along is not None:
            self.value, self.operands, self.lookups = along

    def _take_arguments(self, inputs: tuple[Operand, ...]) -> None:
        """Begins the kernel's arguments, and its code as far as all kernels have it."""
        definition, lookups, traits = self.definition, self.lookups, self.traits
        self.index = index_type(
            Space(self.dims, self.space.offsets),
            [inputs[int(k.name[1:])] for k in lookups],
            traits if self.positions or self.sizes or lookups else None,
        )
        given = self.given = Arguments(self.index)
        every = (*self.operands, *lookups)
        for o in every:  # a pointer for every array, also where it is read in two ways
            if not (isinstance(o, LookupCode) and o.named):
                given.memory(o.storage, f"{o.name}_memory", read_only=not o.name.startswith("y"))
        given.scalars(self.scalars)
        if definition.draws:
            given.random()
        printed = Printed()
        known = {o.name: o.value for o in every} | {w.name: w.value for w in self.scalars}
        walks = self.dims[-1].strides[len(self.types) :]
        self.common: dict[str, Any] = {
            "name": definition.name,
            "preamble": definition.preamble,
            "index": self.index,
            "unified": unified_functions(definition.snippets, definition.preamble, traits),
            "doubles": not {"double", "double2"}.isdisjoint(known.values()),
            "own": own_names(definition.snippets, definition.preamble),
            "part": definition.expr.rules.part,
            "expr": printed.text(definition.expr, known, vectors=self.vector > 1),
            "guards": printed.guards,
            "scalars": self.scalars,
            "lookups": lookups,
            "positions": tuple(
                PositionCode(name, inner_step(stride))
                for name, stride in zip(self.positions, walks, strict=True)
            ),
            "coords": self.coords,
            "sizes": self.sizes,
            "random": definition.draws,
            "walks": False,
            "prefetched": (),
            "pair": self.pair if self.vector > 1 else "",
        }

    def streams(self, vector: int) -> bool:
        """Whether results may have streaming stores."""
        stored = self.types[: len(self.results)]
        return all(may_stream(t, vector, self.reach, self.traits) for t in stored)

    def split(self, operands: Sequence[OperandCode]) -> dict[str, Any]:
        """Operands as a kernel's results and inputs."""
        count = len(self.results)
        return {"results": tuple(operands[:count]), "inputs": tuple(operands[count:])}

    def plan(
        self,
        template: str,
        code: PointwiseCode,
        given: Arguments,
        work: tuple[int, ...],
        local: tuple[int, ...],
    ) -> Plan:
        """Returns a kernel of this code and these arguments."""
        flops = self.definition.expr.flops * math.prod(self.shape)
        arguments = tuple(given.arguments)
        return Plan((KernelPlan(template, code, arguments, work, local, self.nbytes, flops),))

    @cached_property
    def tiling(self) -> Tiling | None:
        """The tile of operands that lie in different orders, if one pays."""
        value, baked = self.value, len(self.dims) > BAKED_DIMS
        if self.periodic is not None or value is None or self.lookups or baked:
            return None
        return find_tiling(
            self.dims,
            len(self.types),
            len(self.results),
            vectors=(widest(value, self.traits), self.vector),
            sizes=(self.types[0].itemsize, SIZES[value]),
            traits=self.traits,
        )

    @cached_property
    def periodic(self) -> tuple[int, int] | None:
        """The vector and the patterns of operands that repeat along memory, if any do."""
        if self.lookups:
            return None
        counts = len(self.types), len(self.results)
        return find_period(self.dims, *counts, self.value, self.traits)

    @cached_property
    def vector(self) -> int:
        """Elements that are computed at a time along the innermost loop."""
        how = len(self.results), self.dims[-1], self.traits
        return vector_width(self.value or self.pair or None, self.operands, *how)


def _names(results: int, inputs: Sequence[int]) -> list[str]:
    return [f"y{n}" for n in range(results)] + [f"x{n}" for n in inputs]


def _vector_type(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    scalars: Sequence[ScalarCode],
) -> str | None:
    """The one type that everything is calculated in, where vectors compute as elements do."""
    types = {*(o.value for o in operands), *(w.value for w in scalars)}
    value = next(iter(types))
    if len(types) > 1 or value not in _VECTOR_TYPES or not definition.componentwise:
        return None
    if definition.needs_float and value not in ("float", "double"):
        return None
    return value


def _pair_type(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    scalars: Sequence[ScalarCode],
) -> str:
    """The type of complex numbers that vectors of them compute in, where they do; else none."""
    types = {*(o.value for o in operands), *(w.value for w in scalars)}
    pair = next((t for t in types if t in PARTS), "")
    if not pair or not types <= {pair, PARTS[pair]} or not definition.pairs_componentwise:
        return ""
    plain = all(o.storage == o.value and o.inner in ("one", "zero") for o in operands)
    return pair if plain else ""


def _reach(operand: Operand) -> int:
    """Bytes from the first element to the last one."""
    steps = zip(operand.strides, operand.shape, strict=True)
    return operand.dtype.itemsize + sum(abs(s) * (n - 1) for s, n in steps)


def _touched(operand: Operand, shape: tuple[int, ...]) -> int:
    return min(operand.size, math.prod(shape)) * operand.dtype.itemsize
