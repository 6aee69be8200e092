"""Lets the site's reference read the docstrings' examples as code, and those of stubs at all.

Of modules of operators it shows these and their gradients, not what other modules find there.
"""

import inspect
from typing import Any

import griffe

_STUBS = ("ops.elementwise.operators.", "ops.loss.losses.")
_KINDS = {
    kind: getattr(griffe.ParameterKind, name)
    for kind, name in (
        (inspect.Parameter.POSITIONAL_ONLY, "positional_only"),
        (inspect.Parameter.POSITIONAL_OR_KEYWORD, "positional_or_keyword"),
        (inspect.Parameter.VAR_POSITIONAL, "var_positional"),
        (inspect.Parameter.KEYWORD_ONLY, "keyword_only"),
        (inspect.Parameter.VAR_KEYWORD, "var_keyword"),
    )
}


def _is_helper(obj: griffe.Object) -> bool:
    """Whether a module of operators defines it for other modules."""
    path = obj.path.split(".")
    if path[0] != "ops" or path[1:2] == ["optim"] or len(path) != 4:
        return False
    from clprim.ops.registry import OPERATORS

    facts = OPERATORS.get(obj.name)
    here = facts is not None and facts.function.__module__ == f"clprim.{'.'.join(path[:3])}"
    return not (here or obj.name.endswith("_backward"))


def _parameters(function: Any) -> griffe.Parameters:
    """What a function takes when it is called."""
    return griffe.Parameters(
        *(
            griffe.Parameter(
                p.name,
                annotation=p.annotation,
                kind=_KINDS[p.kind],
                default=None if p.default is p.empty else repr(p.default),
            )
            for p in inspect.signature(function).parameters.values()
        )
    )


class Examples(griffe.Extension):
    """Names sections as Griffe knows them: it takes ``Example:`` for a remark."""

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Shows operators that are made, those of ranks, as the functions that they are."""
        from clprim import ops

        for name, obj in [*mod.members.items()]:
            made = inspect.unwrap(getattr(ops, name, None))
            if isinstance(obj, griffe.Attribute) and inspect.isfunction(made):
                function = griffe.Function(
                    name,
                    lineno=obj.lineno,
                    parameters=_parameters(made),
                    returns=made.__annotations__.get("return"),
                )
                function.docstring = griffe.Docstring(
                    inspect.getdoc(made) or "", parent=function, parser="google"
                )
                mod.set_member(name, function)
                self.on_object(obj=function)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the sections of one docstring; that of a stub's function is the function's."""
        if _is_helper(obj):
            obj.public = False
        if obj.docstring is None and not obj.name.startswith("_") and obj.path.startswith(_STUBS):
            from clprim import ops

            text = inspect.getdoc(getattr(ops, obj.name)) or ""
            obj.docstring = griffe.Docstring(text, parent=obj, parser="google")
        if obj.docstring is not None and obj.is_function and obj.path.startswith("ops."):
            from clprim import ops

            # What all operators share is said when they are registered.
            shown = getattr(ops, obj.name, getattr(ops.optim, obj.name, None))
            if getattr(shown, "__module__", "") == f"clprim.{obj.path.rpartition('.')[0]}":
                obj.docstring.value = inspect.getdoc(shown) or obj.docstring.value
                if inspect.isfunction(shown):  # a decorator may take more, as `dim` for `axis`
                    obj.parameters = _parameters(shown)
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
