"""Handlers of ONNX's operators, by domain and name; one serves all versions.

A handler's parameters are the node's inputs, in order, and behind a star its attributes, by their
names; what is left out has the parameter's default. An annotation says how an input comes:

    Any      as an array of the device
    Value    as it is, on the device or on the host
    Known    as an array of the host; Numbers: as a list of these; Number: as the only one
    bool     of an attribute: as a truth value

Of the three that the host knows, one that is left out may be an attribute, as it was before some
version. A first parameter ``context`` is the `clprim.onnx.context.Context`. What is returned is a
value, or a tuple of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from clprim.ops.registry import of_onnx

Value: TypeAlias = Any
Known: TypeAlias = Any
Numbers: TypeAlias = Any
Number: TypeAlias = Any
Handler = Callable[..., Any]

_HOST: dict[str, Callable[[Any], Any]] = {
    "Known": lambda v: v,
    "Numbers": lambda v: v.reshape(-1).tolist(),
    "Number": lambda v: v.reshape(-1)[0].item() if v.size else None,
}
_MODULES = """
    attention classic contrib control conv elementwise host index norm pool quantized recurrent
    reduction resize shape signal training
""".split()


class _Form(NamedTuple):
    """A handler's parameters: names and annotations."""

    context: bool
    inputs: list[tuple[str, str]]
    many: str
    attributes: dict[str, str]
    others: bool


class Entry:
    """A handler.

    Args:
        function: It.
        both: Whether it computes with arrays of the host as with the device's.
        moves: Whether it moves elements, whatever they are.
    """

    def __init__(self, function: Handler, *, both: bool = False, moves: bool = False) -> None:
        self._function, self.both, self.moves = function, both, both or moves

    @cached_property
    def _form(self) -> _Form:
        context, inputs, many, attributes, others = False, [], "", {}, False
        for p in inspect.signature(self._function).parameters.values():
            kind = p.annotation if isinstance(p.annotation, str) else "Any"
            if p.name == "context":
                context = True
            elif p.kind is p.VAR_POSITIONAL:
                many = kind
            elif p.kind is p.KEYWORD_ONLY:
                attributes[p.name] = kind
            elif p.kind is p.VAR_KEYWORD:
                others = True
            else:
                inputs.append((p.name, kind))
        return _Form(context, inputs, many, attributes, others)

    def run(
        self, context: Any, told: Mapping[str, Any], values: Sequence[Any], *, host: bool = False
    ) -> Any:
        """Calls it.

        Args:
            context: What runs.
            told: The node's attributes, defaults included.
            values: Its inputs.
            host: Whether they are all to stay on the host.
        """
        form = self._form
        options = dict(told) if form.others else {}
        for name, kind in form.attributes.items():
            if told.get(name) is not None:
                options[name] = bool(told[name]) if kind == "bool" else told[name]
        kinds = [kind for _, kind in form.inputs]
        kinds += [form.many or "Any"] * (len(values) - len(kinds))

        def placed(kind: str, value: Any) -> Any:
            if value is None or kind == "Value":
                return value
            if kind in _HOST:
                return _HOST[kind](context.host(value))
            return value if host else context.device(value)

        given = list(map(placed, kinds, values))
        first = (context,) if form.context else ()
        if form.many:
            return self._function(*first, *given, **options)
        if len(given) > len(form.inputs):
            raise TypeError(f"{len(given)} inputs")
        names = [name for name, _ in form.inputs]
        options |= {n: v for n, v in zip(names, given, strict=False) if v is not None}
        for name, kind in form.inputs:
            if kind in _HOST and told.get(name) is not None:
                options.setdefault(name, told[name])
        return self._function(*first, **options)


_TABLE: dict[tuple[str, str], Entry] = {}
_NUMPY: dict[str, Entry] = {}


def handler(
    *names: str, domain: str = "", both: bool = False, moves: bool = False
) -> Callable[[Handler], Handler]:
    """Registers a handler under names of a domain; see `Entry`."""

    def register(function: Handler) -> Handler:
        for name in names:
            _TABLE[domain, name] = Entry(function, both=both, moves=moves)
        return function

    return register


def on_host(*names: str) -> Callable[[Handler], Handler]:
    """Registers what computes operators by NumPy where all inputs are on the host."""

    def register(function: Handler) -> Handler:
        for name in names:
            _NUMPY[name] = Entry(function, both=True)
        return function

    return register


def entry(domain: str, name: str) -> Entry | None:
    """Returns the handler of an operator: one of the table, or of the operators' registry."""
    found = _TABLE.get((domain, name))
    if found is None:
        known = of_onnx(name, domain)
        if known is not None:

            def run(*inputs: Any, **attributes: Any) -> Any:
                return known.function(*inputs, **known.arguments(attributes))

            found = _TABLE[domain, name] = Entry(run)
    return found


def host_entry(domain: str, name: str) -> Entry | None:
    """Returns what computes an operator of ONNX's own domain with arrays of the host."""
    known = _TABLE.get((domain, name))
    return known if known is not None and known.both else None if domain else _NUMPY.get(name)


def names() -> list[tuple[str, str]]:
    """Returns domain and name of all handlers, in order."""
    return sorted(_TABLE)


def load() -> None:
    """Imports the handlers."""
    for name in _MODULES:
        import_module(f"clprim.onnx.operators.{name}")
