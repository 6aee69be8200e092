"""``where=`` and ``initial=`` of NumPy's reductions, which operators lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clprim import ops
from clprim.arrays.array import Array
from clprim.arrays.creation import full
from clprim.errors import DefinitionError, ShapeError
from clprim.functions.shape import broadcast_to
from clprim.ops.shared.checks import dtype_of
from clprim.plan.strides import broadcasts_to
from clprim.primitives.arithmetic import copy

#: Of operators: what stands for an element that is not taken, and what joins ``initial``; neither
#: a greatest nor a least element has one of the first.
MASKED: dict[str, tuple[Any, Callable[..., Any] | None]] = {
    "sum": (0, lambda a, b: a + b),
    "prod": (1, lambda a, b: a * b),
    "amax": (None, ops.maximum),
    "amin": (None, ops.minimum),
    "mean": (0, None),
    "any": (False, None),
    "all": (True, None),
}


def reduced(
    operator: Callable[..., Any], x: Any, where: Any, initial: Any, out: Any, **options: Any
) -> Array:
    """Returns a reduction of the elements where a mask holds, and of a number."""
    name = operator.__name__
    nothing, join = MASKED[name]
    dtype_of(name, "x", x)
    if where is not None:
        if dtype_of(name, "where", where).kind != "b" or not broadcasts_to(where.shape, x.shape):
            raise ShapeError(
                f"{name}: where is {where.dtype} of shape {where.shape}, expected bool that "
                f"broadcasts to {x.shape}"
            )
        if nothing is None and initial is None:
            raise DefinitionError(f"{name}: where= needs initial=, for where it holds nowhere")
        filled = initial if nothing is None else nothing
        if name == "mean":
            dtype = options.pop("dtype", None)
            total = ops.sum(ops.where(where, x, 0), dtype=dtype, **options)
            found = total / ops.sum(broadcast_to(where, x.shape), **options)
            found = found if total.dtype.kind in "biu" else found.astype(total.dtype)
        else:
            found = operator(ops.where(where, x, filled), **options)
    elif nothing is None and not x.size:
        found = full(ops.sum(x, **options).shape, initial, x.dtype)
    else:
        found = operator(x, **options)
    if initial is not None and join is not None:
        found = join(found, initial)
    return found if out is None else copy(found, out=out)
