"""Which dtypes the results and the partials of a `Reduction` or a `Scan` have by default."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clprim.dtypes import AnyDType, promote, value_dtype
from clprim.language.definition import ReductionDefinition

_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def default_results(
    definition: ReductionDefinition, given: Sequence[AnyDType]
) -> tuple[AnyDType, ...]:
    """NumPy's promotion; sums and products of short integers widen, positions are int64."""
    common = promote(given)
    if definition.finalize is not None:
        return (common,) * definition.results
    return tuple(_natural(definition, n, common) for n in range(definition.results))


def default_partials(
    definition: ReductionDefinition, given: Sequence[AnyDType], results: Sequence[AnyDType]
) -> tuple[AnyDType, ...]:
    """The dtypes to accumulate in: float32 at least, and no less than the results."""
    found = list(results)
    if definition.finalize is not None:
        common = promote([*given, *results])
        found = [_natural(definition, n, common) for n in range(definition.partials)]
    return tuple(value_dtype(d, [d]) for d in found)


def _natural(definition: ReductionDefinition, n: int, common: AnyDType) -> AnyDType:
    """The dtype of partial number ``n`` where operands have a common one."""
    if n in definition.positions:
        return _INT64
    return _widened(common) if n in definition.summed else common


def _widened(dtype: AnyDType) -> AnyDType:
    """What NumPy adds up integers in."""
    if dtype.kind in "bi":
        return _INT64
    return _UINT64 if dtype.kind == "u" else dtype
