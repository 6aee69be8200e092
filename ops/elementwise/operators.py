"""The functions that follow from the table of elementwise operators."""

from __future__ import annotations

from clprim.ops.elementwise.calls import functions
from clprim.ops.elementwise.table import ROWS

# What a type checker reads stands in operators.pyi, which is made from the table as well.
_FUNCTIONS = functions(ROWS.values(), __name__)
globals().update(_FUNCTIONS)
__all__ = sorted(_FUNCTIONS)  # noqa: PLE0605
