"""Overloads whose arguments are an operator's: PyTorch's schema says what each of them is.

An argument is the operator's parameter of that name, or else the one at its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.ops.registry import OPERATORS
from clprim.torch.layout import Rule, contiguous
from clprim.torch.memory import Number, counted, numpy_dtype
from clprim.torch.table import kernel, overload

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


def agrees(
    name: str,
    operator: Callable[..., Any],
    *,
    lies: Rule | tuple[Rule, ...] | None = contiguous,
    without: str = "",
    names: dict[str, str] | None = None,
    **constants: Any,
) -> None:
    """Registers an overload that an operator computes."""
    found = overload(name)
    if found is None:
        return  # of another version of PyTorch
    parameters = inspect.signature(inspect.unwrap(operator)).parameters
    places = list(parameters)
    given = [a.name for a in found._schema.arguments]
    own = {n: (names or {}).get(n, n) for n in given if n not in without.split()}
    targets = {n: p if p in parameters else places[given.index(n)] for n, p in own.items()}
    kinds = {a.name: str(a.type) for a in found._schema.arguments}
    converters = {
        n: _converter(p, str(parameters[p].annotation), kinds[n]) for n, p in targets.items()
    }
    if _ALONG & {*targets.values()}:
        along: dict[str, Any] = {
            "index": lambda _, index: counted(line(index)),
            "indices": lambda _, indices: counted(indices),
        }
        converters |= {n: convert for n, convert in along.items() if n in targets}
    # PyTorch drops an argument that equals its default, which may be another than the operator's.
    dropped = {
        a.name: a.default_value
        for a in found._schema.arguments
        if a.name in targets and not _same(targets[a.name], a.default_value, parameters)
    }
    # An axis of a number is 0 or -1.
    axis = targets.get("dim") == "dim" and str(parameters["dim"].annotation) != "Axis"

    def run(*args: Any, **options: Any) -> Any:
        values = {}
        for n, value in (*dropped.items(), *zip(given, args, strict=False), *options.items()):
            # What is not given is the operator's default.
            if n in targets and value is not None:
                convert = converters[n]
                found = value if convert is None else convert(args[0], value)
                if found is not None:
                    values[targets[n]] = found
        values.update(constants)
        if not axis or args[0].ndim:
            return operator(**values)
        found = operator(**{n: line(v) for n, v in values.items()})
        return tuple(f.reshape(()) for f in found) if type(found) is tuple else found.reshape(())

    kernel(name, lies=lies)(run)


def register() -> None:
    """Puts the overloads that operators name in the table."""
    for name, facts in OPERATORS.items():
        for text in facts.torch.split():
            back = text.partition(".")[0].endswith("_backward")
            agrees(text, getattr(ops, f"{name}_backward" if back else name))
