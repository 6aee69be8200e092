"""Lets the site's reference read the docstrings' examples as code."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names sections as Griffe knows them: it takes ``Example:`` for a remark."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the sections of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
