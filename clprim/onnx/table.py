"""Handlers of ONNX's operators, by domain and name; one serves all versions.

A handler is ``f(context, attributes, *inputs)`` and returns a value, or a tuple of them. Attributes
hold the defaults of the model's version of the operator. Inputs are device arrays, but for those
that it wants on the host; one that is left out is None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from clprim.ops.registry import of_onnx

Handler = Callable[..., Any]


@dataclass(frozen=True)
class Entry:
    """A handler.

    Attributes:
        function: It.
        host: Numbers of inputs that it reads on the host.
        raw: Whether it takes values as they are.
    """

    function: Handler
    host: frozenset[int] = frozenset()
    raw: bool = False


_TABLE: dict[tuple[str, str], Entry] = {}
_HOST: dict[str, Handler] = {}

_MODULES = """
    attention border classic contrib control conv elementwise index norm pool quantized recurrent
    reduction resize roi shape signal training
""".split()


def handler(
    *names: str, domain: str = "", host: Collection[int] = (), raw: bool = False
) -> Callable[[Handler], Handler]:
    """Registers a handler under names of a domain; see `Entry`."""

    def register(function: Handler) -> Handler:
        for name in names:
            _TABLE[domain, name] = Entry(function, frozenset(host), raw)
        return function

    return register


def on_host(*names: str) -> Callable[[Handler], Handler]:
    """Registers what computes operators by NumPy where all inputs are on the host."""

    def register(function: Handler) -> Handler:
        for name in names:
            _HOST[name] = function
        return function

    return register


@lru_cache(maxsize=1)
def _loaded() -> None:
    import_module("clprim.onnx.host")
    for name in _MODULES:
        import_module(f"clprim.onnx.operators.{name}")


def entry(domain: str, name: str) -> Entry | None:
    """Returns the handler of an operator: one of the table, or of the operators' registry."""
    _loaded()
    found = _TABLE.get((domain, name))
    if found is None:
        known = of_onnx(name, domain)
        if known is not None:
            found = _TABLE[domain, name] = Entry(_one_line(known))
    return found


def host_entry(domain: str, name: str) -> Handler | None:
    """Returns what computes an operator of ONNX's own domain by NumPy."""
    _loaded()
    return None if domain else _HOST.get(name)


def names() -> list[tuple[str, str]]:
    """Returns domain and name of all handlers, in order."""
    _loaded()
    return sorted(_TABLE)


def _one_line(known: Any) -> Handler:
    def run(context: Any, attributes: dict[str, Any], *inputs: Any) -> Any:
        del context
        return known.function(*inputs, **known.arguments(attributes))

    return run
