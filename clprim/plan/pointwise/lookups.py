"""Arrays that a snippet reads at coordinates: what of them is printed, and what is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clprim.dtypes import AnyDType, stored_type, value_dtype
from clprim.errors import ShapeError
from clprim.language.definition import PointwiseDefinition
from clprim.language.vector_lookups import Lanes, vector_lookups
from clprim.plan.kernel import LookupCode, OperandCode
from clprim.plan.strides import Operand


def plan_lookups(
    definition: PointwiseDefinition, inputs: Sequence[Operand], dtypes: Sequence[AnyDType]
) -> tuple[tuple[LookupCode, ...], list[tuple[str, int]]]:
    """Returns the arrays as a template sees them, and their sizes and strides by name."""
    codes: list[LookupCode] = []
    numbers: list[tuple[str, int]] = []
    for n in sorted({lookup.array for lookup in definition.expr.lookups}):
        lookups = sorted(k for k in definition.expr.lookups if k.array == n)
        array, name = inputs[n], f"x{n}"
        ndim = len(array.shape)
        functions = {k.function for k in lookups}
        for lookup in lookups:
            if lookup.function != "size" and lookup.number != ndim:
                raise ShapeError(
                    f"{definition.name}: {lookup.function}_{name} has {lookup.number} coordinates "
                    f"for {name} of shape {array.shape}; expected one for every dimension"
                )
            if lookup.function == "size" and not -ndim <= lookup.number < ndim:
                raise ShapeError(
                    f"{definition.name}: size_{name}({lookup.number}) is out of bounds for {name} "
                    f"of shape {array.shape}"
                )
        strides = [array.in_elements(s) for s in array.strides]
        steps = tuple(
            "one" if stride == 1 and size > 1 else "any"
            for stride, size in zip(strides, array.shape, strict=True)
        )
        sizes = tuple((k.number, k.number % ndim) for k in lookups if k.function == "size")
        stored = stored_type(array.dtype)
        codes.append(
            LookupCode(
                name=name,
                storage=stored.storage,
                value=stored_type(value_dtype(array.dtype, dtypes)).value,
                load=stored.load,
                at="at" in functions,
                inside="inside" in functions,
                steps=steps,
                sizes=sizes,
                named=n in definition.broadcast,
            )
        )
        if "at" in functions:
            numbers.append((f"{name}_from", array.in_elements(array.offset)))
            numbers += [(f"{name}_d{d}", strides[d]) for d in range(ndim) if steps[d] == "any"]
        asked = range(ndim) if "inside" in functions else sorted({axis for _, axis in sizes})
        numbers += [(f"{name}_n{axis}", array.shape[axis]) for axis in asked]
    return tuple(codes), numbers


def vector_lanes(
    definition: PointwiseDefinition,
    operands: Sequence[OperandCode],
    lookups: Sequence[LookupCode],
    results: int,
    axis: int,
    ndim: int,
) -> tuple[str, list[OperandCode], tuple[LookupCode, ...]] | None:
    """Returns how neighbours along a dimension become vectors, or None where they cannot."""
    # Operands that have one element for all lanes are ``uniform``.
    value = operands[0].value
    if value not in ("float", "double") or any(k.named for k in lookups):
        return None
    if any(o.inner != "one" for o in operands[:results]):
        return None
    inputs = operands[results:]
    if any(o.inner not in ("one", "zero") for o in inputs):
        return None
    if any(o.inner == "one" and o.value != value for o in operands):
        return None
    neighbours: dict[int, int | None] = {}
    for k in lookups:
        side = [d for d, step in enumerate(k.steps) if step == "one"]
        neighbours[int(k.name[1:])] = side[0] if side and k.value == value else None
    uniform = frozenset(int(o.name[1:]) for o in inputs if o.inner == "zero")
    read = vector_lookups(definition.expr, Lanes(axis, ndim, uniform, neighbours))
    if read is None:
        return None
    return (
        value,
        [replace(o, inner="uniform") if o.inner == "zero" else o for o in operands],
        tuple(
            replace(k, lane=neighbours[int(k.name[1:])]) if int(k.name[1:]) in read else k
            for k in lookups
        ),
    )
