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
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from clprim.errors import DefinitionError
from clprim.onnx.schema import defaults_of
from clprim.ops.registry import OnnxOperator, of_onnx, onnx_operators, recorded

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
    ) -> None:  # fmt: skip
        self._function, self.both, self.moves = function, both, both or moves
        self._takes, self._only, self.makes = {*takes.split()}, only, makes
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
        return given if self.form.many else len(self.form.inputs)

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

    def placed(
        self, context: Any, values: Sequence[Any], *, host: bool = False
    ) -> list[tuple[str, Any]]:
        """Returns inputs with their names, where they are wanted."""
        inputs, many = self.form.inputs, ("", self.form.many or "Any")

        def place(kind: str, value: Any) -> Any:
            if value is None or kind == "Value":
                return value
            if kind in _HOST:
                return _HOST[kind](context.host(value))
            return value if host else context.device(value)

        labels = [*inputs, *[many] * (len(values) - len(inputs))]
        return [(name, place(kind, v)) for (name, kind), v in zip(labels, values, strict=False)]

    def run(
        self, context: Any, told: Mapping[str, Any], values: Sequence[Any], *, host: bool = False
    ) -> Any:
        """Calls it."""
        form, given = self.form, self.placed(context, values, host=host)
        options = {n: v for n, v in told.items() if n in self._takes} if form.others else {}
        for name, kind in form.attributes.items():
            if told.get(name) is not None:
                options[name] = bool(told[name]) if kind == "bool" else told[name]
        first = (context,) if form.context else ()
        if form.many:
            return self._function(*first, *(value for _, value in given), **options)
        options |= {name: value for name, value in given if value is not None}
        return self._function(*first, **options, **_of_attributes(form.inputs, told, options))


def _of_attributes(
    inputs: Sequence[tuple[str, str]], told: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns inputs that are not given and were attributes before some version."""
    host = [name for name, kind in inputs if kind in _HOST and name not in given]
    return {name: told[name] for name in host if told.get(name) is not None}


_TABLE: dict[tuple[str, str], Entry] = {}
_NUMPY: dict[str, Entry] = {}


def handler(*names: str, domain: str = "", **told: Any) -> Callable[[Handler], Handler]:
    """Registers a handler under names of a domain; ``told`` are arguments of `Entry`."""

    def register(function: Handler) -> Handler:
        for name in names:
            _add(domain, name, Entry(function, **told))
        return function

    return register


def _add(domain: str, name: str, entry: Entry) -> None:
    if of_onnx(name, domain) is not None or (domain, name) in _TABLE:
        raise DefinitionError(f"ONNX's {domain or 'ai.onnx'} {name} is said twice")
    _TABLE[domain, name] = entry


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
            found = _TABLE[domain, name] = _Recorded(known, _called)
    return found


#: What a record runs: of the context, arrays (by parameters where the record names them, else a
#: list) and attributes; arguments of the operator follow.
Run = Callable[..., Any]
Family = Callable[[OnnxOperator, Run], Run]
_FAMILIES: dict[str, tuple[Family, str]] = {}


def family(flag: str, takes: str = "") -> Callable[[Family], Family]:
    """Registers what is done around the operator of records with a flag, with which attributes."""

    def register(make: Family) -> Family:
        _FAMILIES[flag] = make, takes
        return make

    return register


def listed(arrays: Any) -> list[Any]:
    """Returns arrays in order."""
    return [*arrays.values()] if isinstance(arrays, dict) else [*arrays]


# What `clprim.ops` has another word for, by the parameter.
_WORDS: dict[str, dict[Any, Any]] = {
    "reduce": {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"},
    "mode": {"linear": "bilinear", "cubic": "bicubic"},
}


class _Recorded(Entry):
    """What a record says, with its families around it."""

    def __init__(self, known: OnnxOperator, called: Callable[..., Any]) -> None:
        run: Run = functools.partial(called, known)
        takes = [*known.parameters]
        makes = [int(flag) for flag in known.flags if flag.isdigit()]
        for flag in reversed(known.flags):
            if flag in _FAMILIES:
                make, more = _FAMILIES[flag]
                run, takes = make(known, run), [*takes, *more.split()]
        super().__init__(
            run, takes=" ".join(takes), idle=" ".join(known.idle), only=known.only,
            makes=makes[0] if makes else 1, moves="moves" in known.flags,
        )  # fmt: skip
        several = _is_several(known)
        inputs = [] if several else list(known.inputs)
        self.form = _Form(True, inputs, "" if inputs else "Any", {}, True)

    def run(
        self, context: Any, told: Mapping[str, Any], values: Sequence[Any], *, host: bool = False
    ) -> Any:
        """Calls it."""
        given = self.placed(context, values, host=host)
        if self.form.many:
            return self._function(context, [value for _, value in given], told)
        arrays = {name: value for name, value in given if value is not None}
        return self._function(
            context, arrays | _of_attributes(self.form.inputs, told, arrays), told
        )


def node(text: str) -> Callable[[Handler], Handler]:
    """Registers a handler of the context and of a node's inputs and attributes as one value.

    They are named, with their defaults, by a record as `clprim.ops.registry.onnx_operators` reads
    it; what is left out is None.
    """

    def register(function: Handler) -> Handler:
        for domain, known in onnx_operators(text, function):
            _add(domain, known.name, _Recorded(known, _given))
        return function

    return register


def _given(known: OnnxOperator, context: Any, arrays: Any, told: Mapping[str, Any]) -> Any:
    values = dict.fromkeys(name for name, _ in known.inputs) | arrays
    options = known.arguments({n: v for n, v in told.items() if n in known.parameters})
    return known.function(context, SimpleNamespace(**values, **options))


def _is_several(known: OnnxOperator) -> bool:
    return [label for label, _ in known.inputs] in (["*"], ["[]"])


def _called(
    known: OnnxOperator, context: Any, arrays: Any, told: Mapping[str, Any],
    function: Callable[..., Any] | None = None, **more: Any,
) -> Any:  # fmt: skip
    """Calls the operator of a record, or another one of its kind."""
    options = known.arguments({n: v for n, v in told.items() if n in known.parameters}) | more
    for name in _WORDS.keys() & options.keys():
        options[name] = _WORDS[name].get(options[name], options[name])
    run = function or known.function
    if isinstance(arrays, dict):
        return run(**{**options, **arrays})
    if not _is_several(known):
        return run(*arrays, **options)
    return (
        run([*arrays], **options) if known.inputs[0][0] == "[]" else functools.reduce(run, arrays)
    )


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
