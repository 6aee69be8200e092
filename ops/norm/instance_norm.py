"""Instance normalisation (Ulyanov and others 2016): every channel of an image by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from clprim.arrays.array import Array
from clprim.errors import DTypeError, ShapeError
from clprim.graph.repeat import repeatable
from clprim.ops.norm.batch_norm import batch_norm
from clprim.ops.norm.checks import channels_of, check_floats
from clprim.ops.norm.group_norm import check_groups, groups_backward, normalize_groups
from clprim.ops.norm.running_statistics import RunningStatistics
from clprim.ops.reduction.reduce import mean as mean_of
from clprim.ops.shared.checks import real
from clprim.ops.shared.ranks import of_rank

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Saved(TypedDict, total=False):
    """Options of a result, and of statistics behind it."""

    return_stats: bool
    out: Any


@repeatable
def _instance_norm(
    what: str,
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    **saved: Unpack[Saved],
) -> Array:
    """Returns (x - mean) / √(variance + eps) · weight + bias, statistics a channel of an image.

    Args:
        x: (N, C, …) of floating-point numbers.
        running_mean: (C,), or None; updated in place by the images' average statistics.
        running_var: Likewise, with the unbiased variance.
        weight: A factor a channel, (C,), or None.
        bias: A summand a channel, (C,), or None.
        use_input_stats: Whether statistics are those of ``x``; else the running ones are used, and
            stay as they are.
        momentum: Weight of this batch in the running statistics.
        eps: Added to the biased variance.
        return_stats: Whether to return (y, mean, rstd), for `instance_norm_backward`; (N, C) each.
        out: Where y goes; may be ``x``.

    Raises:
        ShapeError: One pixel a channel, which has no variance; wrong shapes.
        DTypeError, DeviceError: With what was given and what was expected.

    Example:
        >>> import numpy as np, clprim as cp
        >>> from clprim import ops
        >>> x = cp.asarray(np.float32([[[1, 3], [10, 30]]]))
        >>> ops.instance_norm(x, eps=0).get()
        array([[[-1.,  1.],
                [-1.,  1.]]], dtype=float32)
    """
    return_stats, out = saved["return_stats"], saved["out"]
    if not use_input_stats:
        if return_stats:
            raise DTypeError(f"{what}: return_stats= needs use_input_stats=True")
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps, out=out)
    check_floats(what, "x", x)
    channels = channels_of(what, x)
    check_groups(what, x, max(1, channels), {"weight": weight, "bias": bias})
    pixels = math.prod(x.shape[2:])
    if pixels == 1:
        raise ShapeError(f"{what}: expected more than one pixel a channel, got x of {x.shape}")
    given = [x, *(a for a in (weight, bias) if a is not None)]
    running = RunningStatistics(
        what, running_mean, running_var, channels, real(what, "momentum", momentum), None, given
    )
    groups = max(1, channels)
    y, mean, var, rstd = normalize_groups(what, x, groups, weight, bias, eps, out, running.arrays)
    if running.arrays and x.size:
        running.update(mean_of(mean, 0), mean_of(var, 0), pixels / (pixels - 1))
    result: Any = (y, mean, rstd) if return_stats else y
    return result


instance_norm = of_rank(
    _instance_norm,
    "instance_norm",
    usual={"return_stats": False},
    onnx="InstanceNormalization(x, weight, bias) epsilon:eps=1e-05",
    wrt="x weight bias",
    saves="return_stats: mean rstd",
)


@repeatable
def instance_norm_backward(
    grad: Any,
    x: Any,
    weight: Any = None,
    mean: Any = None,
    rstd: Any = None,
    *,
    eps: float = 1e-5,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Array | None, Array | None, Array | None]:
    """Returns the gradients (dx, dweight, dbias) of an instance normalisation of ``x``.

    See `group_norm_backward`: every channel is a group of its own.
    """
    what = "instance_norm_backward"
    check_floats(what, "x", x)
    groups = check_groups(what, x, max(1, channels_of(what, x)), {"weight": weight})
    return groups_backward(what, grad, x, groups, weight, mean, rstd, eps, output_mask)
