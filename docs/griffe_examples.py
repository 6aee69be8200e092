"""Lets the site's reference read the docstrings' examples as code, and those of stubs at all.

Of modules of operators it shows these and their gradients, not what other modules find there.
"""

import inspect
from typing import Any

import griffe

_STUB = "ops.elementwise.operators."


def _is_helper(obj: griffe.Object) -> bool:
    """Whether a module of operators defines it for other modules."""
    path = obj.path.split(".")
    if path[0] != "ops" or path[1:2] == ["optim"] or len(path) != 4 or obj.path.startswith(_STUB):
        return False
    decorators = obj.decorators if obj.is_function else []
    marked = any(str(d.value).startswith("operator(") for d in decorators)
    return not (marked or obj.name.endswith("_backward"))


class Examples(griffe.Extension):
    """Names sections as Griffe knows them: it takes ``Example:`` for a remark."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the sections of one docstring; that of a stub's function is the function's."""
        if _is_helper(obj):
            obj.public = False
        if obj.docstring is None and obj.is_function and obj.path.startswith(_STUB):
            from clprim import ops

            text = inspect.getdoc(getattr(ops, obj.name)) or ""
            obj.docstring = griffe.Docstring(text, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
