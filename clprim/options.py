"""What users may allow beyond the defaults, for the whole process or for a block of code.

A setting holds from the call on, in every thread; as a context manager it holds in the block, for
what that thread (or task) does there.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields, replace
from numbers import Real
from types import TracebackType
from typing import Any

from clprim.errors import DefinitionError, quoted

# Admits F(4 × 4, 3 × 3) of as many channels as networks have, and no larger tile that pays.
_CONVOLUTION_ERROR = 5e-6
#: How a compiled function may launch its kernels: as costs say, as few launches as can be, apart.
LAUNCHES = ("auto", "one", "each")
#: How exact products of float32 are, in PyTorch's words.
PRECISIONS = ("highest", "high", "medium")
_WORDS = {"launches": LAUNCHES, "matmul_precision": PRECISIONS}


@dataclass(frozen=True)
class Options:
    """Everything that can be set; planned calls are kept by it."""

    convolution_error: float = _CONVOLUTION_ERROR
    tune: bool = False
    launches: str = "auto"
    matmul_precision: str = "highest"


_process: Options | None = None
_local: ContextVar[Options | None] = ContextVar("clprim_options", default=None)


def current_options() -> Options:
    """Returns what holds here.

    Raises:
        DefinitionError: An environment variable that is no such value.
    """
    return _local.get() or _process or _read_environment()


class options:  # noqa: N801 # a statement, as `with cp.options(...)`, as contextlib's are
    """Sets options from now on, or in the block of a ``with``.

    Args:
        convolution_error: Relative root mean square error that the algorithm of a convolution may
            have. The default, 5e-6, admits Winograd's F(2 × 2) and F(4 × 4); 0 admits none. The
            environment variable ``CLPRIM_CONVOLUTION_ERROR`` sets it for a process.
        tune: Whether the first call of a new class of products, convolutions or reductions times
            a dozen tiles at most, in memory of its own and for about a second beside builds, and
            keeps what wins in the user's table of the device, where every process finds it. The
            environment variable ``CLPRIM_TUNE=1`` sets it for a process.
        launches: How compiled functions launch: ``"one"`` kernel for as many of a graph's as can
            be one, ``"each"`` by itself; ``"auto"``: apart at first, and in one launch where a
            graph that is called often takes less time so, by cost. The environment variable
            ``CLPRIM_LAUNCHES`` sets it for a process.
        matmul_precision: How exact products of float32 in matrix products and convolutions are, in
            PyTorch's words: ``"highest"``, with float32's own error; ``"high"`` admits factors of
            11 bits (TF32, or three products of bfloat16), ``"medium"`` of 8 (bfloat16), both with
            sums in float32, or beside weights of 4 bits in whole numbers. A device that gains
            nothing computes float32. The environment variable ``CLPRIM_MATMUL_PRECISION`` sets it
            for a process.

    Raises:
        DefinitionError: An option that there is not, or a value that it cannot have.

    Example:
        >>> import clprim as cp
        >>> with cp.options(convolution_error=0):
        ...     cp.options.current().convolution_error
        0.0
    """

    current = staticmethod(current_options)

    def __init__(self, **changes: Any) -> None:
        global _process  # noqa: PLW0603 # the process's settings
        checked = {name: _checked(name, value, "cp.options") for name, value in changes.items()}
        self._before = current_options()
        self._inside = replace(self._before, **checked)
        self._in_block = _local.get() is not None
        self._token: Token[Options | None] | None = None
        if self._in_block:  # it ends with the block
            _local.set(self._inside)
        else:
            _process = self._inside

    def __enter__(self) -> Options:
        """Makes it hold in this block only."""
        global _process  # noqa: PLW0603 # likewise
        if self._in_block:
            _local.set(self._before)
        elif _process is self._inside:
            _process = self._before
        self._token = _local.set(self._inside)
        return self._inside

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restores what held before."""
        assert self._token is not None
        _local.reset(self._token)
        self._token = None


def word_of(where: str, name: str, value: Any) -> str:
    """Returns the word that an option is set to by somebody who is named."""
    if isinstance(value, str) and value in _WORDS[name]:
        return value
    listed = ", ".join(map(repr, _WORDS[name]))
    raise DefinitionError(f"{where}: {name}={quoted(value)}: expected one of {listed}")


def _read_environment() -> Options:
    global _process  # noqa: PLW0603 # read once: every convolution asks
    given = {}
    for field in fields(Options):
        variable = f"CLPRIM_{field.name.upper()}"
        text = os.environ.get(variable)
        if text is not None:
            given[field.name] = _checked(field.name, _value(field.name, text), variable)
    _process = Options(**given)
    return _process


def _value(name: str, text: str) -> Any:
    """Returns what an environment variable says."""
    if name == "tune":
        return {"0": False, "1": True}.get(text, text)
    if name in _WORDS:
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _checked(name: str, value: Any, where: str) -> Any:
    """Returns a value that the option can have."""
    known = [field.name for field in fields(Options)]
    if name not in known:
        raise DefinitionError(f"{where}: {name} is unknown; expected {', '.join(known)}")
    if name == "tune":
        if isinstance(value, bool):
            return value
        expected = "1 or 0" if where.startswith("CLPRIM") else "True or False"
        raise DefinitionError(f"{where}: tune={quoted(value)}: expected {expected}")
    if name in _WORDS:
        return word_of(where, name, value)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and value >= 0):
        raise DefinitionError(f"{where}: {name}={quoted(value)}: expected a number of at least 0")
    return float(value)
