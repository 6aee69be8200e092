"""Operators by name, with what is said of each once: where it stands, by `operator`.

From it follow `clprim.ops` and the checks of its arguments, the page of operators, NumPy's
functions that pass on to one, PyTorch's overloads whose arguments agree, and ONNX's operators.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from clprim.errors import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Facts:
    """What is said of an operator.

    Attributes:
        function: It.
        gradient: What computes its gradient, where that is not ``NAME_backward``.
        numpy: NumPy's names and arguments, ``"tril(x, /, k=0)"``, which are the operator's: in its
            order before the star, by its names behind.
        torch: PyTorch's overloads whose arguments agree; of ``…_backward`` it is the gradient's.
        onnx: ONNX's name of an operator of the same meaning, then its attributes: ``alpha=1.0``, or
            ``axis:dim=-1`` where the parameter has another name, each with ONNX's default if it
            has one; ``fmod==0`` is an attribute that has to be so.
        sample: Arguments with which it takes an array ``x`` of shape (0, 3, 4, 4).
    """

    function: Callable[..., Any]
    gradient: str = ""
    numpy: str = ""
    torch: str = ""
    onnx: str = ""
    sample: str = ""


#: Every operator but gradients, by name.
OPERATORS: dict[str, Facts] = {}


def operator(**facts: str) -> Callable[[F], F]:
    """Makes a function one of `clprim.ops`; ``NAME_backward`` beside it or elsewhere is as well.

    Args:
        facts: See `Facts`.
    """

    def register(function: F) -> F:
        add(getattr(function, "__name__", ""), function, **facts)
        return function

    return register


def add(name: str, function: Callable[..., Any], **facts: str) -> None:
    """Registers a function, as `operator` does, under a name."""
    OPERATORS[name] = Facts(function, **facts)
    if facts.get("onnx"):
        add_onnx(facts["onnx"], function)


def public(namespace: Mapping[str, Any], module: str) -> dict[str, Callable[..., Any]]:
    """Returns the operators that a module defines, and the gradients."""
    return {
        name: value
        for name, value in namespace.items()
        if getattr(value, "__module__", None) == module
        and ((name in OPERATORS and OPERATORS[name].function is value) or _is_gradient(name))
    }


def _is_gradient(name: str) -> bool:
    return name.endswith("_backward") and name.removesuffix("_backward") in OPERATORS


# --- ONNX ----------------------------------------------------------------------------------------

_UNSET: Any = object()


@dataclass(frozen=True)
class Attribute:
    """An attribute: the parameter that it is, or a value that it has to have."""

    parameter: str
    default: Any = _UNSET
    fixed: bool = False


@dataclass(frozen=True)
class OnnxOperator:
    """What computes an operator of ONNX's of its inputs, in their order, and its attributes."""

    name: str
    function: Callable[..., Any]
    attributes: Mapping[str, Attribute]

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a node's attributes as arguments of the function.

        Raises:
            DefinitionError: An attribute that is not known, is missing, or asks for something else.
        """
        for name in given.keys() - self.attributes.keys():
            raise DefinitionError(f"{self.name}: attribute {name}={given[name]!r} is not supported")
        found = {}
        for name, attribute in self.attributes.items():
            value = given.get(name, attribute.default)
            if value is _UNSET:
                raise DefinitionError(f"{self.name}: expected the attribute {name}")
            if not attribute.fixed:
                found[attribute.parameter] = value
            elif value != attribute.default:
                wanted = f"expected {attribute.default!r}"
                raise DefinitionError(f"{self.name}: attribute {name}={value!r}: {wanted}")
        return found


_onnx: dict[tuple[str, str], OnnxOperator] = {}


def add_onnx(text: str, function: Callable[..., Any]) -> None:
    """Registers what computes an operator of ONNX's; see `Facts.onnx`."""
    name, *rest = text.split()
    attributes = {}
    for part in rest:
        words, equals, default = part.partition("==" if "==" in part else "=")
        attribute, _, parameter = words.partition(":")
        value = literal_eval(default) if equals else _UNSET
        attributes[attribute] = Attribute(parameter or attribute, value, equals == "==")
    _onnx["", name] = OnnxOperator(name, function, attributes)


def of_onnx(name: str, domain: str = "") -> OnnxOperator | None:
    """Returns what computes an operator of ONNX's; None where one line does not.

    Args:
        name: As ``"Relu"``.
        domain: ONNX's own is empty, also called ``"ai.onnx"``.
    """
    import clprim.ops  # noqa: F401 - which registers them

    return _onnx.get(("" if domain == "ai.onnx" else domain, name))
