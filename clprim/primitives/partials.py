"""Which dtypes the results and the partials of a `Reduction` or a `Scan` have by default."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clprim.dtypes import (
    AnyDType,
    paired_dtype,
    promote,
    stored_type,
    value_dtype,
)
from clprim.language.complex_numbers import ComplexOperands, complex_operands
from clprim.language.definition import PointwiseDefinition, ReductionDefinition

_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def default_results(
    definition: ReductionDefinition, given: Sequence[AnyDType]
) -> tuple[AnyDType, ...]:
    """NumPy's promotion; sums and products of short integers widen, positions are int64."""
    common, pairs = promote(given), _complex(definition, given).results
    if definition.finalize is not None:
        return tuple(paired_dtype(common, n in pairs) for n in range(definition.results))
    return tuple(_natural(definition, n, common, pairs) for n in range(definition.results))


def default_partials(
    definition: ReductionDefinition, given: Sequence[AnyDType], results: Sequence[AnyDType]
) -> tuple[AnyDType, ...]:
    """The dtypes to accumulate in: float32 at least, and no less than the results."""
    found = list(results)
    if definition.finalize is not None:
        common, pairs = promote([*given, *results]), _complex(definition, given).partials
        found = [_natural(definition, n, common, pairs) for n in range(definition.partials)]
    return tuple(value_dtype(d, [d]) for d in found)


def default_types(
    definition: PointwiseDefinition, given: Sequence[AnyDType], common: AnyDType
) -> tuple[AnyDType, ...]:
    """The common dtype of arrays and numbers, of complex results and of real ones."""
    pairs = _complex(definition, given).results
    return tuple(paired_dtype(common, n in pairs) for n in range(definition.results))


def _complex(
    definition: PointwiseDefinition | ReductionDefinition, given: Sequence[AnyDType]
) -> ComplexOperands:
    return complex_operands(definition, tuple(stored_type(d).value for d in given))


def _natural(
    definition: ReductionDefinition, n: int, common: AnyDType, pairs: frozenset[int]
) -> AnyDType:
    """The dtype of partial number ``n`` where operands have a common one."""
    if n in definition.positions:
        return _INT64
    common = paired_dtype(common, n in pairs)
    return _widened(common) if n in definition.summed else common


def _widened(dtype: AnyDType) -> AnyDType:
    """What NumPy adds up integers in."""
    if dtype.kind in "bi":
        return _INT64
    return _UINT64 if dtype.kind == "u" else dtype
