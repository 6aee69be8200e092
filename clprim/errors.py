"""The one family of errors that clprim raises on purpose."""

from __future__ import annotations

from numpy.linalg import LinAlgError


class ClprimError(Exception):
    """Base of every error that clprim raises on purpose.

    An error says what was given and what was expected, and is raised before any result is written.
    """


class DefinitionError(ClprimError, ValueError):
    """A snippet or an option of an operator is wrong; found when the operator is defined."""


class ShapeError(ClprimError, ValueError):
    """Shapes, axes, strides, overlap or the number of arguments do not fit the operation."""


class OverlapError(ShapeError):
    """A result lies over a part of an input, so that some elements would be read too late."""


class OutOfBoundsError(ShapeError, IndexError):
    """An index past the end; also an IndexError, which ends Python's loops."""


class MissingNameError(ClprimError, AttributeError):
    """A name that arrays or the package lack; the message says what to write instead."""


class MissingPackageError(ClprimError, ImportError):
    """A package that a part of clprim needs is not installed; the message says how to."""


class DTypeError(ClprimError, TypeError):
    """A dtype is not supported, not by this device, or cannot hold what was given."""


class ComplexError(DTypeError):
    """Complex numbers where none are taken.

    Attributes:
        snippet: The string that has no meaning of them, if it is one that says so.
    """

    def __init__(self, message: str, *, snippet: str = "") -> None:
        super().__init__(message)
        self.snippet = snippet


class DeviceError(ClprimError, RuntimeError):
    """No device, an unknown device, an array of another context, or a device that failed."""


class ExchangeError(DeviceError, BufferError):
    """Memory that another library cannot see where it is; also a BufferError, as DLPack asks."""


class SingularError(ClprimError, LinAlgError):
    """A matrix is singular, not positive definite, or not finite; also NumPy's LinAlgError."""


class BuildError(ClprimError, RuntimeError):
    """The OpenCL compiler refused the generated kernel; the message quotes the snippet's line.

    Attributes:
        log: Everything the compiler said.
        source: The OpenCL C that it read.
    """

    log: str = ""
    source: str = ""


def quoted(value: object) -> str:
    """Returns what was given for a message that stays readable, whatever it was."""
    try:
        shape = getattr(value, "shape", ())
        if isinstance(shape, tuple) and shape:
            return f"an array of shape {shorten(str(shape))}"
        return shorten(repr(value))
    except Exception:  # Python writes no integers of thousands of digits, nor lists as deep
        return f"{type(value).__name__} that cannot be printed"


def shorten(text: str) -> str:
    """Returns a snippet on one line of at most 60 characters, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."


def titled(text: str, name: str | None) -> str:
    """Returns how messages call an operator: by its name, else by its strings.

    OpenCL C has a function `exp`, so the kernel of the operator of that name is ``exp_of``.
    """
    return text if name is None else str(name).removesuffix("_of")


def upload_hint(value: object) -> str:
    """Returns how what was given becomes a device array, or nothing for what has no elements."""
    data = isinstance(value, list | tuple | range)
    return ": upload it with cp.asarray" if data or hasattr(type(value), "__array__") else ""
