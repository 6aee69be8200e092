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

What a handler does not know is refused before anything runs: an input behind its last, an output
that it does not make, an attribute that is neither a parameter, nor listed, nor the default.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, TypeVar

from clprim.errors import DefinitionError
from clprim.onnx.schema import defaults_of
from clprim.ops.registry import OnnxOperator, of_onnx, recorded

Value: TypeAlias = Any
Known: TypeAlias = Any
Numbers: TypeAlias = Any
Number: TypeAlias = Any
Handler = Callable[..., Any]
F = TypeVar("F", bound=Callable[[OnnxOperator], Handler])

_HOST: dict[str, Callable[[Any], Any]] = {
    "Known": lambda v: v,
    "Numbers": lambda v: v.reshape(-1).tolist(),
    "Number": lambda v: v.reshape(-1)[0].item() if v.size else None,
}
_NOTHING: Mapping[str, Any] = {}
_MODULES = """
    attention classic contrib contrib_attention contrib_quantized control conv elementwise host
    index norm pool quantized recurrent reduction resize shape signal training
""".split()


class _Form(NamedTuple):
    """A handler's parameters: names and annotations."""

    context: bool
    inputs: list[tuple[str, str]]
    many: str
    attributes: dict[str, str]
    others: bool


class Entry:
    """A handler."""

    def __init__(
        self, function: Handler, *, both: bool = False, moves: bool = False, takes: str = "",
        idle: str = "", only: Mapping[str, Any] = _NOTHING, makes: int | None = 1,
        most: int | None = None,
    ) -> None:  # fmt: skip
        self._function, self.both, self.moves = function, both, both or moves
        self._takes, self._only, self.makes, self._most = {*takes.split()}, only, makes, most
        self._idle = {"consumed_inputs", *idle.split()}

    @cached_property
    def form(self) -> _Form:
        """Its parameters, as it is written."""
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

    def attributes(self) -> set[str]:
        """Returns the names of the attributes that it knows."""
        found = {*self._takes, *self._idle, *self.form.attributes, *self._only}
        return found | {name for name, kind in self.form.inputs if kind in _HOST}

    def most(self, given: int) -> int:
        """Returns how many inputs it takes, of as many as are given."""
        return self._most or (given if self.form.many else len(self.form.inputs))

    def refused(self, step: Any) -> str:
        """Returns what of a `clprim.onnx.model.Step` it does not know; nothing if it knows all."""
        told, known = step.attributes, self.attributes()
        if "broadcast" in told:  # before opset 7, where the step is run
            known |= {"broadcast", "axis"}
        usual = defaults_of(step.domain, step.name, step.version)
        for name, value in told.items():
            if name in self._only:
                fits = self._only[name]
                if value not in (fits if isinstance(fits, tuple) else (fits,)):
                    return f"attribute {name}={value!r}: only {fits} is supported"
            elif name not in known and repr(value) != repr(usual.get(name)):
                return f"the attribute {name}={value!r} is not supported"
        most = self.most(len(step.inputs))
        if any(step.inputs[most:]):
            return f"{len(step.inputs)} inputs, of which it takes {most}"
        if self.makes is not None and any(step.outputs[self.makes :]):
            return f"{len(step.outputs)} outputs, of which it makes {self.makes}"
        return ""

    def run(
        self, context: Any, told: Mapping[str, Any], values: Sequence[Any], *, host: bool = False
    ) -> Any:
        """Calls it."""
        form = self.form
        options = {n: v for n, v in told.items() if n in self._takes} if form.others else {}
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
        names = [name for name, _ in form.inputs]
        options |= {n: v for n, v in zip(names, given, strict=False) if v is not None}
        for name, kind in form.inputs:
            if kind in _HOST and told.get(name) is not None:
                options.setdefault(name, told[name])
        return self._function(*first, **options)


_TABLE: dict[tuple[str, str], Entry] = {}
_NUMPY: dict[str, Entry] = {}


def handler(*names: str, domain: str = "", **told: Any) -> Callable[[Handler], Handler]:
    """Registers a handler under names of a domain; ``told`` are arguments of `Entry`."""

    def register(function: Handler) -> Handler:
        for name in names:
            if of_onnx(name, domain) is not None or (domain, name) in _TABLE:
                raise DefinitionError(f"ONNX's {domain or 'ai.onnx'} {name} is said twice")
            _TABLE[domain, name] = Entry(function, **told)
        return function

    return register


def on_host(*names: str, **told: Any) -> Callable[[Handler], Handler]:
    """Registers what computes operators by NumPy where all inputs are on the host."""

    def register(function: Handler) -> Handler:
        for name in names:
            _NUMPY[name] = Entry(function, both=True, **told)
        return function

    return register


def entry(domain: str, name: str) -> Entry | None:
    """Returns the handler of an operator: one of the table, or of the operators' registry."""
    found = _TABLE.get((domain, name))
    if found is None:
        known = of_onnx(name, domain)
        if known is not None:
            found = _TABLE[domain, name] = _recorded(known)
    return found


#: What makes a handler of a record, by a flag that the record has.
_FAMILIES: dict[str, tuple[Callable[[OnnxOperator], Handler], dict[str, Any]]] = {}


def family(flag: str, **told: Any) -> Callable[[F], F]:
    """Registers what makes handlers of the records with a flag; ``told`` is as of `handler`."""

    def register(make: F) -> F:
        _FAMILIES[flag] = make, told
        return make

    return register


# What `clprim.ops` has another word for, by the parameter.
_WORDS: dict[str, dict[Any, Any]] = {
    "reduce": {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"},
    "mode": {"linear": "bilinear", "cubic": "bicubic"},
}


def _recorded(known: OnnxOperator) -> Entry:
    """The handler that follows from a record."""
    for flag in known.flags:
        if flag in _FAMILIES:
            make, told = _FAMILIES[flag]
            return Entry(make(known), **told)
    form = [label for label, _ in known.inputs]
    several = form[0] if form in (["*"], ["[]"]) else ""

    def run(*inputs: Any, **told: Any) -> Any:
        if several == "*":
            return functools.reduce(known.function, inputs)
        arrays = {label: told.pop(label) for label in form if label in told}
        options = known.arguments(told)
        for name in _WORDS.keys() & options.keys():
            options[name] = _WORDS[name].get(options[name], options[name])
        given = (list(inputs),) if several else inputs
        return known.function(*given, **arrays, **options)

    made = Entry(
        run, takes=" ".join(known.parameters), idle=" ".join(known.idle),
        makes=2 if "2" in known.flags else 1, moves="moves" in known.flags,
    )  # fmt: skip
    inputs = [] if several else list(known.inputs)
    made.form = _Form(False, inputs, "" if inputs else "Any", {}, True)
    return made


def host_entry(domain: str, name: str) -> Entry | None:
    """Returns what computes an operator of ONNX's own domain with arrays of the host."""
    known = _TABLE.get((domain, name))
    return known if known is not None and known.both else None if domain else _NUMPY.get(name)


def names() -> list[tuple[str, str]]:
    """Returns domain and name of all handlers, in order."""
    return sorted({*_TABLE, *recorded()})


def load() -> None:
    """Imports the handlers."""
    for name in _MODULES:
        import_module(f"clprim.onnx.operators.{name}")
