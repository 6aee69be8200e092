"""How kernels store sums: the code of an `Epilogue`, and the parameters that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from clprim.dtypes import AnyDType, stored_type
from clprim.plan.epilogue import Epilogue, Named, is_position, is_result
from clprim.plan.kernel import (
    KernelCode,
    OperandCode,
    inner_step,
)
from clprim.plan.parameters import Arguments
from clprim.plan.snippets import Printed, own_names, unified_functions
from clprim.traits import DeviceTraits


@dataclass(frozen=True)
class StoredCode(OperandCode):
    """One array that a sum is stored to, or that its epilogue reads or writes."""

    # A position is ``load``-ed as ``place``: it is its own address.

    moves: bool = True  # Whether its place depends on the lane
    # Whether the values of a tile's outputs are read once, before its sums are added up
    kept: bool = False

    @property
    def written(self) -> bool:
        """Whether it is a result."""
        return is_result(self.name)

    @staticmethod
    def at(
        name: str,
        dtype: AnyDType,
        value: AnyDType,
        column: int,
        *,
        moves: bool = True,
        kept: bool = False,
    ) -> StoredCode:
        """Describes an array whose neighbouring columns lie ``column`` elements apart."""
        if is_position(name):
            return StoredCode(name, "long", "long", "place", inner_step(column), moves)
        code = OperandCode.of(name, dtype, value, column)
        return StoredCode(code.name, code.storage, code.value, code.load, code.inner, moves, kept)


@dataclass(frozen=True)
class StoringCode(KernelCode):
    """What the macros that store print: see _store.cl.jinja."""

    value: str  # Type that sums are added up in
    width: int
    y: StoredCode
    extras: tuple[StoredCode, ...]  # What the epilogue reads, and a second result
    bias: bool  # Whether one of them is the bias
    epilogue: str
    scalars: tuple[str, ...]  # Names of its run-time numbers
    # Dimensions that it asks for, as (dimension as written, axis)
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    vector_epilogue: bool  # Whether it computes the same on vectors
    vector_store: bool  # Whether neighbouring columns may lie side by side in the result
    streaming: bool  # Whether stores are streaming (non-temporal)
    beta: bool  # Whether the old result takes part

    @property
    def outputs(self) -> tuple[StoredCode, ...]:
        """Whatever has a place for every lane and output."""
        return (self.y, *self.extras)


P_co = TypeVar("P_co", bound=Named, covariant=True)


class Stored(Protocol[P_co]):
    """A problem whose sums are stored through an epilogue."""

    @property
    def name(self) -> str:
        """For kernels and messages."""

    @property
    def value(self) -> AnyDType:
        """Dtype that sums are added up in."""

    @property
    def y(self) -> P_co:
        """The result."""

    @property
    def epilogue(self) -> Epilogue[Any]:
        """What becomes of a sum."""


def storing(
    what: Stored[Named],
    width: int,
    code: Callable[[Any], StoredCode],
    traits: DeviceTraits,
    *,
    whole: bool = True,
    streaming: bool = False,
) -> dict[str, Any]:
    """Returns the fields of a `StoringCode`, but for its parameters and index type."""
    epilogue = what.epilogue
    y, *extras = (code(place) for place in (what.y, *epilogue.arrays))
    value = stored_type(what.value).value
    snippets = [] if epilogue.snippet is None else [epilogue.snippet]
    printed = Printed()
    text = printed.text(
        epilogue.snippet, {"y": value, "w": value} | {e.name: e.value for e in extras}
    )
    alike = vectors_alike(what, (y, *extras))
    steps = [("one",) if e.written else ("one", "zero") for e in extras]
    beside = all(e.inner in known for e, known in zip(extras, steps, strict=True))
    near = width > 1 and y.inner == "one" and beside
    vectors = whole and near and alike
    return {
        "name": what.name,
        "unified": unified_functions(snippets, "", traits),
        "doubles": "double" in {value, y.value, *(e.value for e in extras)},
        "own": own_names(snippets, ""),
        "value": value,
        "width": width,
        "y": y,
        "extras": tuple(extras),
        "bias": epilogue.has_bias,
        "epilogue": text,
        "guards": printed.guards,
        "scalars": tuple(f"w{n}" for n in range(epilogue.numbers)),
        "coords": epilogue.coords,
        "sizes": epilogue.sizes,
        "vector_epilogue": epilogue.on_vectors(what.value),
        "vector_store": vectors,
        # Streaming stores are of whole vectors, which must be those of memory, and not in a cache.
        "streaming": streaming
        and vectors
        and y.load == "direct"
        and y.storage == value
        and not (epilogue.beta or epilogue.in_place),
        "beta": epilogue.beta,
    }


def vectors_alike(what: Stored[Named], stored: Sequence[StoredCode]) -> bool:
    """Whether vectors of every array are vectors of the sums' type, for the epilogue too."""
    value = stored_type(what.value).value
    alike = all(o.value == value and o.load != "bool" for o in stored)
    return alike and what.epilogue.on_vectors(what.value)


def add_store(found: Arguments, what: Stored[Named], code: StoringCode | dict[str, Any]) -> None:
    """Adds what a kernel that stores needs, but for where arrays lie."""
    fields = code if isinstance(code, dict) else vars(code)
    found.memory(fields["y"].storage, "y0_memory", read_only=False)
    for e in fields["extras"]:
        if e.load != "place":
            found.memory(e.storage, f"{e.name}_memory", read_only=not e.written)
    if fields["beta"]:
        found.scalar(fields["value"], "beta", 0)
    for n, name in enumerate(fields["scalars"]):
        found.scalar(fields["value"], name, n + 1)
    axes = sorted({axis for _, axis in fields["sizes"]})
    found.numbers(**{f"size_{axis}": what.epilogue.shape[axis] for axis in axes})
