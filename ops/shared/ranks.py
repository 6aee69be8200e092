"""Operators of a body that is told their names: of several ranks, or with options as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar

from clprim.ops.registry import add
from clprim.ops.shared.window import Numbers, Padding

P = ParamSpec("P")
R = TypeVar("R")

#: The first parameter of gradients.
GRAD = inspect.Parameter("grad", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any")
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


class Shuffled(Convolved, total=False):
    """Those of images, whose outputs may become pixels."""

    depth_to_space: int | None
    mode: str


class Steps(TypedDict, total=False):
    """Options of where windows lie."""

    stride: Numbers
    padding: Padding
    dilation: Numbers


class Windowed(Steps, total=False):
    """Options of a convolution's gradient."""

    groups: int
    out: Any
    beta: float
    algorithm: str


class ShuffledBack(Windowed, total=False):
    """Those of images, whose outputs became pixels."""

    depth_to_space: int | None
    mode: str


_USUAL = {
    "epilogue": None, "epilogue_args": (), "out": None, "beta": 0, "algorithm": "auto",
    "bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1, "depth_to_space": None,
    "mode": "CRD",
}  # fmt: skip


@cache
def rank_of(name: str) -> int:
    """Returns the rank that an operator's name says, or 2."""
    return next((int(letter) for letter in name if letter.isdigit()), 2)


def of_rank(
    body: Callable[Concatenate[str, P], R],
    name: str,
    forward: Callable[..., Any] | None = None,
    usual: Mapping[str, Any] | None = None,
    **facts: str,
) -> Callable[P, R]:
    """Returns the operator of one rank, registered, as if it were written where its body is.

    Options that a body takes as one are listed, with these defaults or the ``usual`` ones; behind a
    gradient it takes what its ``forward`` does. Its docstring is the body's at rank 2, or of none;
    those of other ranks refer to that, and keep what the body says beside arguments.
    """
    own: Any = inspect.unwrap(body)
    rank = rank_of(name)
    _, *found = inspect.signature(inspect.unwrap(forward or own)).parameters.values()
    if forward is not None:
        found = [GRAD, *found[:-1]]
    elif found[-1].kind is inspect.Parameter.VAR_KEYWORD:
        kind = own.__globals__[found.pop().annotation.removeprefix("Unpack[").removesuffix("]")]
        defaults = {**_USUAL, **(usual or {})}
        found += [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=defaults[n],
                              annotation=getattr(told, "__forward_arg__", told))
            for n, told in kind.__annotations__.items()
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
    free = [p for p in found if p.default is not p.empty]
    made.__defaults__ = tuple(p.default for p in free if p.kind is not p.KEYWORD_ONLY) or None
    made.__kwdefaults__ = {p.name: p.default for p in free if p.kind is p.KEYWORD_ONLY} or None
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
