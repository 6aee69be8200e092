"""The functions that follow from the table of elementwise operators."""

from __future__ import annotations

from clprim.ops.elementwise.calls import computed, functions
from clprim.ops.elementwise.table import ROWS
from clprim.ops.registry import add, add_onnx

# What a type checker reads stands in operators.pyi, which is made from the table as well.
_FUNCTIONS = functions(ROWS.values(), __name__)
globals().update(_FUNCTIONS)
for _row in ROWS.values():
    if _row.shown:
        _facts = {
            "onnx": _row.onnx,
            "sample": _row.sample,
            "gradient": _row.slope,
            "autocast": _row.autocast,
        }
        add(_row.name, _FUNCTIONS[_row.name], **_facts)
    elif _row.onnx:
        add_onnx(_row.onnx, computed(_row))
