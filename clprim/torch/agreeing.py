"""Overloads that an operator's record names, by the words of `clprim.ops.registry.Facts.torch`.

PyTorch's schema says what each argument is: the operator's parameter of that name, or else the one
at its place.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.ops.registry import OPERATORS
from clprim.torch.copying import check_target, copy_into
from clprim.torch.layout import (
    Rule,
    contiguous,
    elementwise,
    format_of,
    like,
    of_two,
    seldom,
    turned,
)
from clprim.torch.table import kernel, overload
from clprim.torch.tensors import Number, counted, kind_of, numpy_dtype

F = TypeVar("F", bound=Callable[..., Any])
#: PyTorch's numbers for what becomes of the losses of elements.
REDUCTIONS = ("none", "mean", "sum")
# Words that PyTorch has numbers for, by the parameter.
_WORDS = {
    "reduction": REDUCTIONS,
    "mode": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
    "compute_mode": tuple(
        f"{word}use_mm_for_euclid_dist{end}"
        for word, end in (("", "_if_necessary"), ("", ""), ("donot_", ""))
    ),
}
# What is indexed: PyTorch refuses negative indices there, but not in the elements of `take`.
_ALONG = {"dim", "weight", "num_weights"}
_WINDOWS = ("Numbers", "Numbers | None", "Pair", "Padding")
# How results lie, by the words of records.
_RULES: dict[str, Rule | None] = {
    "contiguous": contiguous,
    "elementwise": elementwise,
    "format0": format_of(0),
    "format1": format_of(1),
    "like": like(0),
    "of_two": of_two,
    "seldom": seldom,
    "turned": turned,
    "none": None,
}
_FAMILIES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {}


def family(word: str) -> Callable[[F], F]:
    """Registers what makes PyTorch's form of an operator, for records that say the word."""

    def register(make: F) -> F:
        _FAMILIES[word] = make
        return make

    return register


def numbers(values: Any) -> Any:
    """A list of PyTorch's as `clprim.ops` takes it: one number holds for all, none is None."""
    given = tuple(values)
    return None if not given else given[0] if len(given) == 1 else given


def axes_of(x: Array, dim: Any) -> tuple[int, ...] | None:
    """Returns axes as `clprim.ops` takes them: none or an empty list are all."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    found = (dim,) if isinstance(dim, int) else tuple(dim)
    if not x.ndim:  # a number's one axis is 0 or -1
        return None
    return found


def _of_windows(_: Any, value: Any) -> Any:
    return numbers(value)


def _array(_: Any, value: Any) -> Any:
    """A tensor of the host without dimensions as one of the device."""
    return full((), value, numpy_dtype(value.kind)) if isinstance(value, Number) else value


def _converter(name: str, annotation: str, kind: str) -> Callable[[Any, Any], Any] | None:
    """Returns what makes a parameter of the first argument and of PyTorch's value."""
    if name in _WORDS and "int" in kind:
        return lambda _, value: _WORDS[name][value]
    if name == "dtype":
        return lambda _, value: numpy_dtype(value)
    if annotation == "Axis":
        return axes_of
    if annotation in _WINDOWS:
        return _of_windows
    return _array if kind in ("Tensor", "Optional[Tensor]") else None


def _same(name: str, default: Any, parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether an operator's default of a parameter is PyTorch's."""
    own = parameters[name].default
    if isinstance(default, list):  # one number holds for all
        return {*default} <= {own}
    return default is None or own == (_WORDS[name][default] if name in _WORDS else default)


def line(value: Any) -> Any:
    """An array without dimensions as a line of one."""
    return value.reshape(-1) if isinstance(value, Array) and not value.ndim else value


class _Call:
    """What an overload's arguments are to an operator: parameters, and what makes their values."""

    def __init__(
        self,
        overload: Any,
        operator: Callable[..., Any],
        without: Sequence[str],
        names: Mapping[str, str],
    ) -> None:
        self.operator, self.arguments = operator, overload._schema.arguments
        self.parameters = parameters = inspect.signature(inspect.unwrap(operator)).parameters
        places, given = list(parameters), [a.name for a in self.arguments]
        # What a function takes behind two stars has PyTorch's names.
        others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        own = {n: names.get(n, n) for n in given if n not in without}
        self.targets = {
            n: p if p in parameters or (others and given.index(n)) else places[given.index(n)]
            for n, p in own.items()
        }
        kinds = {a.name: str(a.type) for a in self.arguments}
        self.converters = {
            n: _converter(p, str(parameters[p].annotation) if p in parameters else "", kinds[n])
            for n, p in self.targets.items()
        }
        if _ALONG & {*self.targets.values()}:
            along: dict[str, Any] = {
                "index": lambda _, index: counted(line(index)),
                "indices": lambda _, indices: counted(indices),
            }
            self.converters |= {n: c for n, c in along.items() if n in self.targets}

    def of_number(self, **values: Any) -> Any:
        """Calls the operator with arrays without dimensions, of which an axis is 0 or -1."""
        found = self.operator(**{n: line(v) for n, v in values.items()})
        return tuple(f.reshape(()) for f in found) if type(found) is tuple else found.reshape(())

    def bound(self, constants: Mapping[str, Any], writes: bool) -> Any:
        """Returns a function of PyTorch's arguments, compiled, so that a call has no step more."""
        space = {"constants": constants, "operator": self.operator, "of_number": self.of_number}
        first, signature, text = self.arguments[0].name, [], ["values = constants.copy()"]
        for n, argument in enumerate(self.arguments):
            if argument.kwarg_only and "*" not in signature:
                signature.append("*")
            name, target = argument.name, self.targets.get(argument.name)
            signature.append(name)
            optional = str(argument.type).startswith("Optional")
            if argument.has_default_value():
                # PyTorch drops what equals its default, which may be another than the operator's.
                default, optional = argument.default_value, True
                known = target in self.parameters and not _same(
                    str(target), default, self.parameters
                )
                space[f"default{n}"] = default if known else None
                signature[-1] += f"=default{n}"
            if target is None or target in constants:
                continue
            convert, value = self.converters[name], name
            if convert is not None:
                space[f"convert{n}"] = convert
                value = f"convert{n}({first}, {name})"
            # What is not given is the operator's default.
            text.append(f"{f'if {name} is not None: ' * optional}values[{target!r}] = {value}")
            if convert in (axes_of, _of_windows):
                text.append(f"if values.get({target!r}) is None: values.pop({target!r}, None)")
        if writes:
            signature += ["out=None"] if "*" in signature else ["*", "out=None"]
            text.append("if out is not None: values['out'] = out")
        if self.targets.get("dim") == "dim" and self.parameters["dim"].annotation != "Axis":
            text.append(f"if not {first}.ndim: return of_number(**values)")
        lines = "\n    ".join([*text, "return operator(**values)"])
        exec(f"def run({', '.join(signature)}):\n    {lines}\n", space)
        return space["run"]


def agrees(
    name: str,
    operator: Callable[..., Any],
    *,
    lies: Rule | tuple[Rule, ...] | None = contiguous,
    without: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    writes: bool = False,
    record: str = "",
    **constants: Any,
) -> None:
    """Registers an overload that an operator computes, ``writes`` if to a given array too."""
    found = overload(name)
    if found is None:
        return  # of another version of PyTorch
    call = _Call(found, operator, without, names or {})
    run = call.bound(constants, writes)

    def to_out(x: Array, *args: Any, out: Array | None = None, **options: Any) -> Any:
        if out is None or out.dtype == x.dtype:
            return run(x, *args, **options, out=out)
        made = run(x, *args, **options)
        check_target(kind_of(made.dtype), out)
        copy_into(out, made)
        return out

    chosen: Any = to_out if writes else run
    chosen.ignored = [a.name for a in call.arguments if a.name not in call.targets]
    kernel(name, lies=lies, out=writes, record=record)(chosen)


def _said(name: str, text: str) -> None:
    """Registers the overloads of one record."""
    overloads, names = [], {}
    without: list[str] = []
    flags: list[str] = []
    constants: dict[str, Any] = {}
    for word in text.split():
        before, sign, after = word.partition("=" if "=" in word else ":")
        if word[0] in "-@":
            (without if word[0] == "-" else flags).append(word[1:])
        elif sign == "=":
            constants[before] = literal_eval(after)
        elif sign:
            names[before] = after
        else:
            overloads.append(word)
    back = "_backward" in overloads[0].partition(".")[0]
    operator = getattr(ops, f"{name}_backward" if back else name)
    lies: Any = contiguous
    for flag in flags:
        rules = [_RULES[word] for word in flag.split(",") if word in _RULES]
        if flag in _FAMILIES:
            operator = _FAMILIES[flag](operator)
        elif rules:
            lies = rules[0] if len(rules) == 1 else tuple(rules)
        elif flag != "out":
            raise KeyError(f"{name}: no word of records is {flag!r}")
    how: dict[str, Any] = {"lies": lies, "without": without, "names": names, "record": name}
    for each in overloads:
        agrees(each, operator, writes="out" in flags, **how, **constants)


def register() -> None:
    """Puts the overloads that operators name in the table."""
    for name, facts in OPERATORS.items():
        for text in filter(str.strip, facts.torch.split(";")):
            _said(name, text)
