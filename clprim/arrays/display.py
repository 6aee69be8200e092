"""How arrays print: NumPy's text, with the device and the memory format; HTML in notebooks."""

from __future__ import annotations

import html
import itertools
from typing import Any

import numpy as np

from clprim.arrays.host import host_view
from clprim.plan.strides import is_channels_last

# What is at most downloaded to be printed whole; of more, the corners that are shown.
_DOWNLOADED = 16 << 20
_LINE = 75
# What an array has of pyopencl's, beside NumPy's names, that completion shows.
_OF_PYOPENCL = (
    "base_data context dtype events flags nbytes ndim offset queue shape size strides".split()
)


class Display:
    """An array as text."""

    def __repr__(self: Any) -> str:
        shown = _shown(self)
        prefix = "Array("
        text = np.array2string(shown, separator=", ", prefix=prefix, suffix=",")
        facts = [f"shape={self.shape}"] if not self.size and self.shape != (0,) else []
        facts += _facts(self)
        last = text.rsplit("\n", 1)[-1]
        extra = ", ".join(facts)
        wide = len(last) + (len(prefix) if "\n" not in text else 0) + len(extra) > _LINE
        between = ",\n" + " " * len(prefix) if wide else ", "
        return f"{prefix}{text}{between}{extra})"

    def __str__(self: Any) -> str:
        return str(np.array2string(_shown(self)))

    def __format__(self: Any, spec: str) -> str:
        if not spec:
            return str(self) if self.ndim else format(self.item(), "")
        if self.size == 1:
            return format(self.item(), spec)
        raise TypeError(
            f"format {spec!r} is for one element, this array has shape {self.shape}; "
            "np.array2string(x.get(), ...) formats several"
        )

    def _repr_html_(self: Any) -> str:
        facts = [f"shape={self.shape}", *_facts(self)]
        text = np.array2string(_shown(self), separator=", ")
        return (
            f"<div><code>Array {html.escape(', '.join(facts))}</code>"
            f"<pre style='line-height:1.2'>{html.escape(text)}</pre></div>"
        )

    def __dir__(self: Any) -> list[str]:
        listed = {*dir(type(self))}
        own = {
            name
            for kind in type(self).__mro__
            if kind.__module__.startswith("clprim.")
            for name in vars(kind)
            if name in listed and (not name.startswith("_") or name.startswith("__"))
        }
        return sorted(own | {*_OF_PYOPENCL, *dir(object)})


def _facts(array: Any) -> list[str]:
    device = array.device
    named = f"{device.index}: {device.platform}" if device else "another context"
    facts = [f"dtype={array.dtype.name}", f"device={named!r}"]
    if array.ndim == 4 and is_channels_last(array.shape, array.strides):
        facts.append("memory_format='channels_last'")
    return facts


def _shown(array: Any) -> np.ndarray[Any, Any]:
    """Returns what is printed of an array: all, or an array whose corners alone are downloaded."""
    view = host_view(array)
    if view is not None:
        return view
    if array.nbytes <= _DOWNLOADED:
        found: np.ndarray[Any, Any] = array.get()
        return found
    edge = np.get_printoptions()["edgeitems"]
    # Pages that nobody touches take no memory.
    sparse = np.empty(array.shape, array.dtype)
    ends = [
        (slice(None),) if n <= 2 * edge else (slice(0, edge), slice(n - edge, n))
        for n in array.shape
    ]
    for corner in itertools.product(*ends):
        sparse[corner] = array[corner].get()
    return sparse
