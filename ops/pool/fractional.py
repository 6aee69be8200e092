"""Pooling by windows that are a fraction of an element apart (Graham 2015): after PyTorch.

Window o begins at ⌊(o + u) · α⌋ - ⌊u · α⌋ with α = (I - K) / (O - 1), where u is drawn for every
plane; the last one ends where the input does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clprim import random
from clprim.arrays.array import Array
from clprim.dtypes import AnyDType
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.pool.max_pool import greatest
from clprim.ops.pool.overloads import MAXIMA, FractionalPool, Ratio
from clprim.ops.pool.sliding import lead_of
from clprim.ops.shared.checks import check_floating, dtype_of, real
from clprim.ops.shared.epilogue import stored
from clprim.ops.shared.ranks import Store, of_rank, rank_of
from clprim.ops.shared.strings import places
from clprim.ops.shared.window import Numbers, numbers

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _pool(
    what: str,
    x: Any,
    kernel_size: Numbers,
    output_size: Numbers | None = None,
    output_ratio: Ratio | None = None,
    return_indices: bool = False,
    random_samples: Any = None,
    **store: Unpack[Store],
) -> Array | tuple[Array, Array]:
    """Returns the greatest elements of windows that are a fraction of an element apart.

    Args:
        x: (N, C, H, W) or (C, H, W) of floating-point numbers, in any memory format.
        kernel_size: Height and width of a window: a number, or one for each.
        output_size: Height and width of the result, likewise.
        output_ratio: What these are of those of x, if they are not given: between 0 and 1.
        return_indices: Whether to return (result, indices), as `max_pool2d` does.
        random_samples: (N, C, 2) of float32 from 0 to 1, for widths and heights as PyTorch has it,
            in 3-d (N, C, 3) for depths, heights and widths; by default drawn by `clprim.random`.
        epilogue: As in `max_pool2d`.
        epilogue_args: Likewise.
        out: Where the result goes; with indices a pair.

    Raises:
        ShapeError: Another number of dimensions, not one of size and ratio, windows that do not
            fit into x, samples of another shape.
        DTypeError: No device arrays of floating-point numbers.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.arange(25, dtype=np.float32).reshape(1, 5, 5))
        >>> ops.fractional_max_pool2d(x, 2, 2, random_samples=cp.zeros((1, 1, 2))).get()
        array([[[ 6.,  9.],
                [21., 24.]]], dtype=float32)
    """
    ndim = rank_of(what)
    dtype = check_floating(what, "x", x)
    lead = lead_of(what, x, ndim)
    sizes = x.shape[lead:]
    windows = numbers(what, "kernel_size", kernel_size, ndim, 1)
    outputs = _outputs(what, sizes, output_size, output_ratio)
    for n, k, o in zip(sizes, windows, outputs, strict=True):
        if o + k - 1 > n:
            raise ShapeError(
                f"{what}: {o} windows of {k} do not fit into {n} elements of x, whose shape is "
                f"{x.shape}"
            )
    random_samples = _samples(what, x, lead, random_samples)
    steps = [
        np.float32(n - k) / np.float32(o - 1) if o > 1 else np.float32(0)
        for n, k, o in zip(sizes, windows, outputs, strict=True)
    ]
    text = _greatest(lead, windows, dtype)
    dtypes: tuple[np.dtype[Any], ...] = (dtype,)
    if return_indices:
        text, dtypes = text + "\ny1 = chosen;", (dtype, np.dtype(np.int64))
    shape = (*x.shape[:lead], *outputs)
    given = [x, random_samples], [float(s) for s in steps]
    return stored(what, text, shape, dtypes, given, store)


fractional_max_pool2d = cast(
    "FractionalPool",
    of_rank(
        _pool,
        "fractional_max_pool2d",
        torch="fractional_max_pool2d @fractional @none;"
        "fractional_max_pool2d_backward -kernel_size -output_size @none",
        **MAXIMA,
        sample="image(2), 2, 2, random_samples=empty((0, 3, 2), float32)",
    ),
)
fractional_max_pool3d = cast(
    "FractionalPool",
    of_rank(
        _pool,
        "fractional_max_pool3d",
        torch="fractional_max_pool3d @fractional @none;"
        "fractional_max_pool3d_backward -kernel_size -output_size @none",
        **MAXIMA,
        sample="image(3), 2, 2, random_samples=empty((0, 3, 3), float32)",
    ),
)


def _samples(what: str, x: Any, lead: int, given: Any) -> Any:
    """Returns u for every plane and dimension: those that are given, or numbers that are drawn."""
    expected = (x.shape[0] if lead == 2 else 1, x.shape[lead - 1], x.ndim - lead)
    if given is None:
        return random.uniform(expected)
    if dtype_of(what, "random_samples", given) != np.float32:
        raise DTypeError(f"{what}: random_samples are {given.dtype}, expected float32")
    if given.shape != expected:
        raise ShapeError(f"{what}: random_samples have shape {given.shape}, expected {expected}")
    return given


def _greatest(lead: int, windows: tuple[int, ...], dtype: AnyDType) -> str:
    """Returns the string that finds the greatest element of a window, and where it is."""
    plane = "coord(0), coord(1)" if lead == 2 else "0, coord(0)"
    lines, loops, flat = [], [], "(long)i0"
    for d, size in enumerate(windows):
        sample = f"at_x1({plane}, {1 - d if len(windows) == 2 else d})"
        at = f"coord({lead + d})"
        begin = f"(int)((float)((float){at} + s{d}) * w{d}) - (int)(s{d} * w{d})"
        last = f"{at} == size({lead + d}) - 1"
        lines += [
            f"float s{d} = {sample};",
            f"int from{d} = {last} ? size_x0({lead + d}) - {size} : {begin};",
        ]
        loops.append(f"for (int i{d} = from{d}; i{d} < from{d} + {size}; ++i{d})")
        flat = f"({flat}) * size_x0({lead + d}) + i{d}" if d else flat
    element = places(lead + len(windows), {lead + d: f"i{d}" for d in range(len(windows))})
    return "\n".join([*lines, greatest(" ".join(loops), element, flat, dtype)])


def _outputs(
    what: str, sizes: tuple[int, ...], output_size: Any, output_ratio: Any
) -> tuple[int, ...]:
    if (output_size is None) == (output_ratio is None):
        raise ShapeError(f"{what}: expected one of output_size= and output_ratio=")
    count = len(sizes)
    if output_size is not None:
        return numbers(what, "output_size", output_size, count, 1)
    several = isinstance(output_ratio, Sequence)
    given = tuple(output_ratio) if several else (output_ratio,) * count
    ratios = [real(what, "output_ratio", r) for r in given]
    if len(ratios) != count or not all(0 < r < 1 for r in ratios):
        raise ShapeError(
            f"{what}: output_ratio={quoted(output_ratio)}: expected a number between 0 and 1, "
            f"or {count}"
        )
    found = tuple(int(n * r) for n, r in zip(sizes, ratios, strict=True))
    if min(found) < 1:
        raise ShapeError(f"{what}: output_ratio={quoted(output_ratio)} leaves nothing of {sizes}")
    return found
