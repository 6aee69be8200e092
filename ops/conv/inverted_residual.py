"""Inverted residuals, the blocks of mobile networks: 1 × 1, depthwise, 1 × 1 convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clprim.arrays.array import Array
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.primitive import NoPlanError, run
from clprim.ops.conv.forward import conv2d
from clprim.ops.conv.fused_residual import ADD, BLOCK, adds
from clprim.ops.conv.settings import keys
from clprim.ops.shared.ranks import Steps, of_rank
from clprim.primitives.block import Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

_CLIP = "y0 = clamp(y0, 0, 6);"


class Blocked(Steps, total=False):
    """Options of a block."""

    activation: str | None
    residual: bool | None
    out: Any
    algorithm: str


def _inverted_residual(
    what: str,
    x: Any,
    w_expand: Any,
    b_expand: Any,
    w_depthwise: Any,
    b_depthwise: Any,
    w_project: Any,
    b_project: Any,
    **how: Unpack[Blocked],
) -> Array:
    """Returns a depthwise convolution between two 1 × 1 ones, as one operator.

    With ``f`` the activation, that is ``f(x ∗ w_expand + b_expand)``, then likewise with
    ``w_depthwise``, then ``∗ w_project + b_project`` without it, and ``+ x`` where that is wanted.
    Between the three are several times as many channels as in ``x``: ``"fused"`` is one kernel,
    which keeps a few of their rows in a near cache and writes neither tensor to memory.

    Args:
        x: (N, C, H, W), of any strides.
        w_expand: (M, C, 1, 1), or None for a block without it, where M = C; like the other weights,
            also what `pack_weight` made of it.
        b_expand: (M,), or None.
        w_depthwise: (M, 1, KH, KW).
        b_depthwise: (M,), or None.
        w_project: (O, M, 1, 1).
        b_project: (O,), or None.
        stride: Of the depthwise convolution, as in `conv2d`.
        padding: Likewise.
        dilation: Likewise.
        activation: A snippet on ``y0``, without arrays; None for none. It clips to 0 … 6 where
            left out, as MobileNetV2 does.
        residual: Whether ``x`` is added; where left out, if the stride is 1 and the result has its
            shape.
        out: (N, O, OH, OW), where the result goes.
        algorithm: ``"fused"``, ``"separate"`` (three convolutions), or ``"auto"``: fused on CPUs
            where ``x`` is channels-last and expanded, some rows fit into local memory, and all
            weights into a core's cache.

    Returns:
        (N, O, OH, OW) in the memory format of ``x``. Of half precision, ``"fused"`` does not round
        what lies between the convolutions, and ``"separate"`` does.

    Raises:
        ShapeError: Shapes that do not fit, ``residual=True`` where they differ.
        DTypeError: No device array, or dtypes that have no product.
        DefinitionError: A wrong snippet, an unknown algorithm, or one that cannot do the job.
        DeviceError: An array of another context.

    Example:
        >>> import clprim as cp
        >>> from clprim import ops
        >>> x = cp.full((1, 2, 4, 4), 1.0)
        >>> expand, project = cp.full((8, 2, 1, 1), 1.0), cp.full((2, 8, 1, 1), 0.25)
        >>> depthwise = cp.full((8, 1, 3, 3), 0.25)
        >>> y = ops.inverted_residual(x, expand, None, depthwise, None, project, None, padding=1)
        >>> y.get()[0, 0, :2]
        array([[ 5.,  7.,  7.,  5.],
               [ 7., 10., 10.,  7.]], dtype=float32)

    The block is that of Sandler and others: MobileNetV2, 2018.
    """
    weights = (w_expand, w_depthwise, w_project)
    steps = Steps(stride=how["stride"], padding=how["padding"], dilation=how["dilation"])
    activation, residual, out = how["activation"], how["residual"], how["out"]
    told = Settings(
        w_expand is not None,
        b_expand is not None,
        b_depthwise is not None,
        b_project is not None,
        **steps,
        activations=(activation, activation),
        residual=residual,
        algorithm=how["algorithm"],
    )
    names = ("w_expand", "w_depthwise", "w_project")
    pairs = zip(names, weights, strict=True)
    kept = {name: w for name, w in pairs if isinstance(w, PackedWeight)}
    # Once more at the end, as what the last kernel adds.
    expand = [] if w_expand is None else [matrix_of(w_expand)]
    added = [b for b in (b_expand, b_depthwise, b_project) if b is not None]
    arrays = [x, *expand, matrix_of(w_depthwise), matrix_of(w_project), *added, x]
    outs = () if out is None else (out,)
    # Equal only where settings mean the same.
    key = (*told[:4], keys(*told[4:7]), *told[7:])
    try:
        return run(BLOCK, arrays, (), outs, told, key, kept)[0]
    except NoPlanError:
        pass
    y = x
    if w_expand is not None:
        y = conv2d(y, w_expand, b_expand, epilogue=activation)
    groups = w_depthwise.shape[0]
    y = conv2d(y, w_depthwise, b_depthwise, **steps, groups=groups, epilogue=activation)
    same = adds(x.shape, (x.shape[0], w_project.shape[0], *y.shape[2:]), how["stride"])
    wanted = same if residual is None else residual
    after: dict[str, Any] = {"epilogue": ADD, "epilogue_args": (x,)} if wanted else {}
    return conv2d(y, w_project, b_project, out=out, **after)


inverted_residual = of_rank(
    _inverted_residual, "inverted_residual", usual={"activation": _CLIP, "residual": None}
)
