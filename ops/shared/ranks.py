"""Operators that differ by a rank alone: one body, whose first argument is the name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar

from clprim.ops.registry import add

P = ParamSpec("P")
R = TypeVar("R")

_ARRAYS = {1: "(N, C, L) or (C, L)", 3: "(N, C, D, H, W) or (C, D, H, W)"}


class Store(TypedDict, total=False):
    """Options of what is stored."""

    epilogue: str | None
    epilogue_args: Any
    out: Any


class Convolved(Store, total=False):
    """Options of a convolution's result."""

    beta: float
    algorithm: str


class Windowed(TypedDict, total=False):
    """Options of a convolution's gradient."""

    stride: int | Sequence[int]
    padding: int | Sequence[int] | str
    dilation: int | Sequence[int]
    groups: int
    out: Any
    beta: float
    algorithm: str


_OPTIONS = {f"Unpack[{kind.__name__}]": kind for kind in (Store, Convolved, Windowed)}
_USUAL = {
    "epilogue": None, "epilogue_args": (), "out": None, "beta": 0, "algorithm": "auto",
    "stride": 1, "padding": 0, "dilation": 1, "groups": 1,
}  # fmt: skip


def rank_of(name: str) -> int:
    """Returns the rank that an operator's name says."""
    return next(int(letter) for letter in name if letter.isdigit())


def of_rank(body: Callable[Concatenate[str, P], R], name: str, **facts: str) -> Callable[P, R]:
    """Returns the operator of one rank, registered, as if it were written where its body is.

    Options that a body takes as one are listed. Its docstring is the body's at rank 2; those of
    other ranks refer to that, and keep what the body says beside arguments.
    """
    own: Any = inspect.unwrap(body)
    rank = rank_of(name)
    _, *found = inspect.signature(own).parameters.values()
    if found[-1].kind is inspect.Parameter.VAR_KEYWORD:
        options = _OPTIONS[found.pop().annotation].__annotations__
        found += [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=_USUAL[n],
                              annotation=getattr(kind, "__forward_arg__", kind))
            for n, kind in options.items()
        ]  # fmt: skip
    taken, given = [], [repr(name)]
    for parameter in found:
        named = parameter.kind is parameter.KEYWORD_ONLY
        taken += ["*"] if named and "*" not in taken else []
        taken.append(parameter.name)
        given.append(f"{parameter.name}={parameter.name}" if named else parameter.name)
    space: dict[str, Any] = {"__name__": own.__module__, "body": body}
    exec(f"def {name}({', '.join(taken)}):\n    return body({', '.join(given)})\n", space)
    made: Any = space[name]
    made.__defaults__ = own.__defaults__
    made.__kwdefaults__ = {
        p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    } or None
    made.__annotations__ = {p.name: p.annotation for p in found if p.annotation is not p.empty}
    made.__annotations__ |= {n: a for n, a in own.__annotations__.items() if n == "return"}
    made.__doc__ = own.__doc__
    if rank != 2:
        first = own.__doc__.partition("\n")[0].rstrip(".").replace("2d", f"{rank}d")
        rest = own.__doc__.partition("\n")[2]
        made.__doc__ = f"{first}, of {_ARRAYS[rank]}; see `{name.replace(str(rank), '2')}`."
        made.__doc__ += "" if "Args:" in rest else f"\n{rest}"
    if not name.endswith("_backward"):
        add(name, made, **facts)
    done: Callable[P, R] = made
    return done
