"""Lets the site's reference read the docstrings' examples as code, and those of stubs at all."""

import inspect
from typing import Any

import griffe

_STUB = "ops.elementwise.operators."


class Examples(griffe.Extension):
    """Names sections as Griffe knows them: it takes ``Example:`` for a remark."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the sections of one docstring; that of a stub's function is the function's."""
        if obj.docstring is None and obj.is_function and obj.path.startswith(_STUB):
            from clprim import ops

            text = inspect.getdoc(getattr(ops, obj.name)) or ""
            obj.docstring = griffe.Docstring(text, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
