"""What an inverted residual is told, by the operator and by the graph, which finds such blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

from clprim.call.forms import Form, made
from clprim.call.primitive import Primitive

NAME = "inverted_residual"


def block() -> Primitive:
    """Returns the primitive, which `clprim.ops` registers."""
    found: Primitive = made(Form(NAME, {}))
    return found


class Settings(NamedTuple):
    """What a block is told beside its arrays."""

    expands: bool
    b_expand: bool
    b_depthwise: bool
    b_project: bool
    stride: Any
    padding: Any
    dilation: Any
    activations: tuple[str | None, str | None]
    residual: bool | None
    algorithm: str
    epilogue: str | None = None
    extras: int = 1
    projects: bool = True
