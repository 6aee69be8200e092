"""Products of elements with those of another array: `cross` and `kron`, and their gradients."""

from __future__ import annotations

from typing import Any

from clprim.arrays.array import Array
from clprim.dtypes import promote
from clprim.errors import ShapeError
from clprim.ops.gradients.vjp import vjp
from clprim.ops.registry import operator
from clprim.ops.shared.checks import conjugate, dtype_of
from clprim.ops.shared.dims import one_dim
from clprim.ops.shared.strings import kernel, places
from clprim.ops.shared.sums import SUM
from clprim.plan.strides import broadcast_shapes


@operator(autocast="widest cross dot vdot tensordot", sample="x, x, 1", wrt="x y")
def cross(
    x: Any, y: Any, dim: int | None = None, *, axis: int | None = None, out: Any = None
) -> Array:
    """Returns the cross products of vectors of three elements, as `torch.linalg.cross`.

    Args:
        x: A device array.
        y: Likewise; the two broadcast.
        dim: The dimension that the vectors lie along, the last one by default.
        axis: The same, by NumPy's name.
        out: Where the result goes; no operand.

    Raises:
        ShapeError: Vectors of another length, shapes that do not broadcast.
        DTypeError: No device arrays.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.cross(cp.asarray(np.array([1, 0, 0])), cp.asarray(np.array([0, 1, 0]))).get()
        array([0, 0, 1])
    """
    what = "cross"
    dtypes = [dtype_of(what, label, a) for label, a in (("x", x), ("y", y))]
    shape = broadcast_shapes(what, [x.shape, y.shape])
    at = one_dim(what, len(shape), dim, axis, -1) - len(shape)
    if any(a.ndim < -at or a.shape[at] != 3 for a in (x, y)):
        raise ShapeError(
            f"{what}: x has shape {x.shape}, y {y.shape}; expected 3 elements along dim {at}"
        )
    # Lengths of 1 are read again and again, as broadcasting would.
    reads = []
    for n, a in enumerate((x, y)):
        first = len(shape) - a.ndim
        other = {d: "0" for d in range(a.ndim) if a.shape[d] == 1}
        for turn in (1, 2):
            found = {d: f"coord({first + d})" for d in range(a.ndim)} | other
            found[a.ndim + at] = f"(coord({len(shape) + at}) + {turn}) % 3"
            reads.append(f"(typeof_y0)at_x{n}({places(a.ndim, found)})")
    a1, a2, b1, b2 = reads
    operator = kernel(f"y0 = {a1} * {b2} - {a2} * {b1};", "cross_of", promote(dtypes))
    result: Array = operator(x, y, shape=shape, out=out)
    return result


def cross_backward(
    grad: Any, x: Any, y: Any, dim: int | None = None, *, axis: int | None = None
) -> tuple[Array, Array]:
    """Returns the gradients of `cross` in x and y; of what was broadcast they are summed.

    Raises:
        ShapeError, DTypeError: As there.
    """
    dtype_of("cross_backward", "grad", grad)
    at = one_dim("cross_backward", grad.ndim, dim, axis, -1) - grad.ndim
    dx, dy = cross(conjugate(y), grad, at), cross(grad, conjugate(x), at)
    return _summed(dx, x), _summed(dy, y)


def _summed(grad: Array, like: Any) -> Array:
    """The gradient of an array that was broadcast."""
    if grad.shape == like.shape:
        return grad
    missing = grad.ndim - like.ndim
    axes = [d for d, n in enumerate(grad.shape) if d < missing or like.shape[d - missing] != n]
    found: Array = SUM(grad, axis=tuple(axes)).reshape(like.shape)
    return found


@operator()
def kron(x: Any, y: Any, *, out: Any = None) -> Array:
    """Returns the products of each element of x with all of y in its place, as `numpy.kron`.

    Args:
        x: A device array.
        y: Likewise; the one of fewer dimensions has ones of length 1 in front.
        out: Where the result goes.

    Returns:
        In each dimension as long as the product of both lengths.

    Raises:
        ShapeError: An ``out`` of another shape.
        DTypeError: No device arrays.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> ops.kron(cp.asarray(np.array([1, 10])), cp.asarray(np.array([1, 2, 3]))).get()
        array([ 1,  2,  3, 10, 20, 30])
    """
    what = "kron"
    dtypes = [dtype_of(what, label, a) for label, a in (("x", x), ("y", y))]
    outer, inner, shape = _pairs(x, y)
    found: Array = kernel("y0 = (typeof_y0)x0 * (typeof_y0)x1;", what, promote(dtypes))(
        outer, inner
    )
    found = found.reshape(shape)
    if out is None:
        return found
    return kernel("y0 = x0;", what, dtype_of(what, "out", out))(found, out=out)


kron_backward = vjp(kron, "x y")


def _pairs(x: Any, y: Any) -> tuple[Array, Array, tuple[int, ...]]:
    """Views whose dimensions take turns, and the shape of the result."""
    ndim = max(x.ndim, y.ndim)
    a, b = ((*(1,) * (ndim - v.ndim), *v.shape) for v in (x, y))
    outer = x.reshape([n for size in a for n in (size, 1)])
    inner = y.reshape([n for size in b for n in (1, size)])
    return outer, inner, tuple(m * n for m, n in zip(a, b, strict=True))
