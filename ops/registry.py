"""Operators by name, with what is said of each once: where it stands, by `operator`.

From it follow `clprim.ops` and the checks of its arguments, the page of operators, NumPy's
functions that pass on to one, PyTorch's overloads whose arguments agree, and ONNX's operators.
"""

from __future__ import annotations

import inspect
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from clprim.errors import DefinitionError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Facts:
    """What is said of an operator.

    ``NAME_backward``, or ``backward``, returns gradients in the arguments ``wrt``; it takes what
    the operator returns behind its result, ``saves``, there always or where a flag before a colon
    asks for it.
    ``torch`` are PyTorch's overloads, with ``;`` between records: names, and words that hold for
    each: ``argument:parameter`` where names differ, ``parameter=value`` of what no argument says,
    ``-argument`` of what changes nothing, ``@word`` of how results lie, of a given array (``out``)
    or of a family in `clprim.torch.kernels`. ``onnx`` is as of `add_onnx`. ``autocast`` is what
    PyTorch's autocast casts arguments to, ``lower``, ``float32`` or the ``widest`` of theirs, of
    the overload of the operator's name or those that follow.
    """

    function: Callable[..., Any]
    gradient: str = ""
    wrt: str = ""
    saves: str = ""
    backward: str = ""
    numpy: str = ""
    torch: str = ""
    autocast: str = ""
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


# --- docstrings ----------------------------------------------------------------------------------

# What every operator means by a parameter of such a name.
_MEANINGS = {
    "x": "An array.",
    "out": "Where the result goes.",
    "dim": "Along which axis.",
    "keepdim": "Whether the axis stays, with size 1.",
    "axis": "The same as ``dim``, by NumPy's name.",
    "reduction": '``"mean"``, ``"sum"`` or ``"none"``.',
}
_RAISES = """Raises:
    ShapeError, DTypeError, DefinitionError: With what was given and what was expected, before
        anything is written."""


def document(name: str, function: Callable[..., Any]) -> None:
    """Completes an operator's docstring by what holds for all operators and is not said there."""
    if not inspect.isfunction(function):
        return
    head, *parts = re.split(
        r"\n\n(?=(?:Args|Returns|Raises|Example):\n)", inspect.getdoc(function) or ""
    )
    sections = {part.partition(":")[0]: part for part in parts}
    forward = name.removesuffix("_backward")
    if "Args" in sections or forward != name:
        entries = re.split(r"\n    (?=\*{0,2}\w+:)", sections.get("Args", "Args:"))[1:]
        said = {entry.partition(":")[0].strip("*"): entry for entry in entries}
        meanings = dict(_MEANINGS)
        taken = inspect.signature(function).parameters
        if forward != name:
            meanings = dict.fromkeys(taken, f"As in `{forward}`.") | {"grad": "Of the result."}
        told = {n: f"{n}: {meanings[n]}" for n in taken if n in meanings}
        lines = [said.pop(n, None) or told.get(n) for n in taken]
        sections["Args"] = "\n    ".join(["Args:", *filter(None, lines), *said.values()])
    sections.setdefault("Raises", _RAISES)
    order = ("Args", "Returns", "Raises", "Example")
    function.__doc__ = "\n\n".join([head, *(sections[n] for n in order if n in sections)]) + "\n"


# --- ONNX ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnnxOperator:
    """What computes an operator of ONNX's: inputs and attributes, as parameters of a function.

    ``inputs`` are parameters and how each comes (see `clprim.onnx.table`); none are arrays in the
    function's order. ``only`` are attributes that may have one value alone.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[str, str], ...]
    parameters: Mapping[str, str]
    defaults: Mapping[str, Any]
    fixed: Mapping[str, Any]
    only: Mapping[str, Any]
    idle: tuple[str, ...]
    flags: tuple[str, ...]

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a node's attributes as arguments of the function."""
        values = {**self.defaults, **given}
        for name in self.parameters.keys() ^ values.keys():
            problem = "is not supported" if name in values else "is missing"
            raise DefinitionError(f"{self.name}: the attribute {name} {problem}")
        told = {p: self._said(p, values[name]) for name, p in self.parameters.items()}
        return {**self.fixed, **told}

    def _said(self, parameter: str, value: Any) -> Any:
        """Truth values are numbers in ONNX, and lists no tuples."""
        if isinstance(value, list):
            return tuple(value)
        return bool(value) if parameter in self._truths and value in (0, 1) else value

    @cached_property
    def _truths(self) -> set[str]:
        told = inspect.signature(inspect.unwrap(self.function)).parameters.values()
        truths = {p.name for p in told if "bool" in str(p.annotation)}
        defaults = ((p, self.defaults.get(n)) for n, p in self.parameters.items())
        return truths | {p for p, value in defaults if isinstance(value, bool)}


_onnx: dict[tuple[str, str], OnnxOperator] = {}
_RECORD = re.compile(r"(?:([\w.]+)::)?(\w+)(?:\(([^)]*)\))?(.*)", re.DOTALL)


def add_onnx(text: str, function: Callable[..., Any]) -> None:
    """Registers what computes operators of ONNX's, as `onnx_operators` reads it."""
    for domain, found in onnx_operators(text, function):
        if (domain, found.name) in _onnx:
            raise DefinitionError(f"ONNX's {domain or 'ai.onnx'} {found.name} has two records")
        _onnx[domain, found.name] = found


def onnx_operators(text: str, function: Callable[..., Any]) -> Iterator[tuple[str, OnnxOperator]]:
    """Yields domains and operators that records say, with ``;`` between them.

    A record is a name, behind a domain and ``::`` where that is not ONNX's own, its inputs in
    parentheses (``Name(x, dim: Number)``, ``*`` for as many as there are, two at a time, and
    ``[]`` for a list), and words: ``attribute:parameter=default``, where one name holds for both;
    ``=parameter=value``, whatever a node says; ``-attribute``, which changes nothing;
    ``!attribute=value``, which has no other value; ``@2`` of two results, ``@moves`` of what may
    run on codes, and names of `clprim.onnx.table.family`, the outermost first.
    """
    for record in filter(str.strip, text.split(";")):
        found = _RECORD.match(record.strip())
        assert found is not None, record
        domain, name, inputs, words = found.groups(default="")
        parameters: dict[str, str] = {}
        values: dict[str, dict[str, Any]] = {"=": {}, "!": {}, "": {}}
        signs: dict[str, list[str]] = {"-": [], "@": []}
        for part in words.split():
            if part[0] in signs:
                signs[part[0]].append(part[1:])
                continue
            sign = part[0] if part[0] in values else ""
            word, equals, value = part.removeprefix(sign).partition("=")
            attribute, _, parameter = word.partition(":")
            if not sign:
                parameters[attribute] = parameter or attribute
            if equals:
                values[sign][attribute] = literal_eval(value)
        given = [part.partition(":") for part in inputs.split(",") if part.strip()]
        kinds = tuple((label.strip(), kind.strip() or "Any") for label, _, kind in given)
        how: Any = values[""], values["="], values["!"], *map(tuple, signs.values())
        yield domain, OnnxOperator(name, function, kinds, parameters, *how)


def recorded() -> set[tuple[str, str]]:
    """Returns domain and name of every operator of ONNX's that has a record."""
    return {*_onnx}


def of_onnx(name: str, domain: str = "") -> OnnxOperator | None:
    """Returns what computes an operator of ONNX's; None where one line does not."""
    return _onnx.get(("" if domain == "ai.onnx" else domain, name))
