"""Operators that differ by a rank alone: one body, which takes a name and the rank first."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from clprim.ops.registry import add

P = ParamSpec("P")
R = TypeVar("R")

_ARRAYS = {1: "(N, C, L) or (C, L)", 3: "(N, C, D, H, W) or (C, D, H, W)"}


def of_rank(body: Callable[Concatenate[str, int, P], R], name: str, **facts: str) -> Callable[P, R]:
    """Returns the operator of one rank, registered, as if it were written where its body is.

    Its docstring is the body's at rank 2; those of other ranks
    refer to that, and keep what the body says beside arguments.
    """
    own: Any = inspect.unwrap(body)
    rank = next(int(letter) for letter in name if letter.isdigit())
    taken, given = [], [repr(name), str(rank)]
    for parameter in [*inspect.signature(own).parameters.values()][2:]:
        named = parameter.kind is parameter.KEYWORD_ONLY
        taken += ["*"] if named and "*" not in taken else []
        taken.append(parameter.name)
        given.append(f"{parameter.name}={parameter.name}" if named else parameter.name)
    space: dict[str, Any] = {"__name__": own.__module__, "body": body}
    exec(f"def {name}({', '.join(taken)}):\n    return body({', '.join(given)})\n", space)
    found: Any = space[name]
    found.__defaults__, found.__kwdefaults__ = own.__defaults__, own.__kwdefaults__
    found.__annotations__ = {
        n: a for n, a in own.__annotations__.items() if n in {*taken, "return"}
    }
    found.__doc__ = own.__doc__
    if rank != 2:
        first = own.__doc__.partition("\n")[0].rstrip(".").replace("2d", f"{rank}d")
        rest = own.__doc__.partition("\n")[2]
        found.__doc__ = f"{first}, of {_ARRAYS[rank]}; see `{name.replace(str(rank), '2')}`."
        found.__doc__ += "" if "Args:" in rest else f"\n{rest}"
    if not name.endswith("_backward"):
        add(name, found, **facts)
    done: Callable[P, R] = found
    return done
