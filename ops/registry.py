"""Operators by name, with what is said of each once: where it stands, by `operator`.

From it follow `clprim.ops` and the checks of its arguments, the page of operators, NumPy's
functions that pass on to one, PyTorch's overloads whose arguments agree, and ONNX's operators.
"""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from clprim.errors import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Facts:
    """What is said of an operator."""

    function: Callable[..., Any]
    gradient: str = ""
    numpy: str = ""
    torch: str = ""
    onnx: str = ""
    sample: str = ""


#: Every operator but gradients, by name.
OPERATORS: dict[str, Facts] = {}


def operator(**facts: str) -> Callable[[F], F]:
    """Makes a function one of `clprim.ops`; ``NAME_backward`` beside it or elsewhere is as well."""

    def register(function: F) -> F:
        add(getattr(function, "__name__", ""), function, **facts)
        return function

    return register


def add(name: str, function: Callable[..., Any], **facts: str) -> None:
    """Registers a function, as `operator` does, under a name."""
    OPERATORS[name] = Facts(function, **facts)
    if facts.get("onnx"):
        add_onnx(facts["onnx"], function)


def public() -> dict[str, Callable[..., Any]]:
    """Returns the operators and their gradients, of all modules that are loaded."""
    found = {name: facts.function for name, facts in OPERATORS.items()}
    for module in [m for n, m in sys.modules.items() if n.startswith("clprim.ops.")]:
        for name, value in vars(module).items():
            gradient = name.endswith("_backward") and name.removesuffix("_backward") in OPERATORS
            if gradient and value.__module__ == module.__name__:
                found[name] = value
    return found


# --- ONNX ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnnxOperator:
    """What computes an operator of ONNX's of its inputs, in their order, and its attributes."""

    name: str
    function: Callable[..., Any]
    parameters: Mapping[str, str]
    defaults: Mapping[str, Any]

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a node's attributes as arguments of the function."""
        values = {**self.defaults, **given}
        for name in self.parameters.keys() ^ values.keys():
            problem = "is not supported" if name in values else "is missing"
            raise DefinitionError(f"{self.name}: the attribute {name} {problem}")
        for name, value in values.items():
            if not self.parameters[name] and value != self.defaults[name]:
                wanted = f"expected {self.defaults[name]!r}"
                raise DefinitionError(f"{self.name}: attribute {name}={value!r}: {wanted}")
        return {p: values[name] for name, p in self.parameters.items() if p}


_onnx: dict[tuple[str, str], OnnxOperator] = {}


def add_onnx(text: str, function: Callable[..., Any]) -> None:
    """Registers what computes an operator of ONNX's; see `Facts.onnx`."""
    name, *rest = text.split()
    parameters, defaults = {}, {}
    for part in rest:
        words, equals, default = part.partition("==" if "==" in part else "=")
        attribute, _, parameter = words.partition(":")
        parameters[attribute] = "" if equals == "==" else parameter or attribute
        if equals:
            defaults[attribute] = literal_eval(default)
    _onnx["", name] = OnnxOperator(name, function, parameters, defaults)


def of_onnx(name: str, domain: str = "") -> OnnxOperator | None:
    """Returns what computes an operator of ONNX's; None where one line does not."""
    import clprim.ops  # noqa: F401 - which registers them

    return _onnx.get(("" if domain == "ai.onnx" else domain, name))
