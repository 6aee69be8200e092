"""Inverted residuals, the blocks of mobile networks: 1 × 1, depthwise, 1 × 1 convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.formats import order_like
from clprim.call.call import Call, bind
from clprim.call.packed import PackedWeight, matrix_of
from clprim.call.signature import Calls
from clprim.dtypes import AnyDType
from clprim.errors import DefinitionError, ShapeError, quoted
from clprim.ops.conv.arguments import (
    Shape4,
    bias_place,
    check_shapes,
    place_of,
    placed,
    result_of,
)
from clprim.ops.conv.forward import conv2d
from clprim.ops.conv.windows import Pair, Windows, keys, windows
from clprim.ops.product.arguments import check_operands, check_result, product_dtypes
from clprim.ops.shared.epilogue import check_epilogue
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.problem import Convolution
from clprim.plan.depthwise.problem import depthwise_of
from clprim.plan.epilogue import Epilogue, Read
from clprim.plan.fused.inverted_residual import InvertedResidual, plan_inverted_residual
from clprim.plan.place import Place
from clprim.plan.strides import Operand, dense_strides
from clprim.runtime.device import Device, current_device

__all__ = ["inverted_residual"]

_WHAT = "inverted_residual"
_ADD = "y0 = y0 + x0;"
_CLIP = "y0 = clamp(y0, 0, 6);"
_ALGORITHMS = ("fused", "separate")


@dataclass(frozen=True, slots=True)
class _Planned:
    """A planned call: of one kernel, or, where ``fused`` is None, of three convolutions."""

    fused: Call | None
    residual: bool


_calls: Calls[_Planned] = Calls()


def inverted_residual(
    x: Any,
    w_expand: Any,
    b_expand: Any,
    w_depthwise: Any,
    b_depthwise: Any,
    w_project: Any,
    b_project: Any,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    activation: str | None = _CLIP,
    residual: bool | None = None,
    out: Any = None,
    algorithm: str = "auto",
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
            wherever some rows fit into local memory, but contiguous blocks without an expansion.

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
    device = current_device()
    weights = (w_expand, w_depthwise, w_project)
    biases = (b_expand, b_depthwise, b_project)
    given = [matrix_of(w) for w in weights]
    arrays = [a for a in (x, *given, *biases) if a is not None]
    options = (
        *(a is None for a in (w_expand, *biases)),
        keys(stride, padding, dilation),
        activation,
        residual,
        algorithm,
    )
    outs = () if out is None else (out,)
    call, signature = _calls.look_up(device, arrays, outs, (), options)
    if call is None:
        call = _prepare(
            device,
            x,
            given,
            biases,
            stride=stride,
            padding=padding,
            dilation=dilation,
            activation=activation,
            residual=residual,
            out=out,
            algorithm=algorithm,
        )
        _calls.remember(signature, call)
    if call.fused is not None:
        result = call.fused.allocate(device)[0] if out is None else out
        names = ("w_expand", "w_depthwise", "w_project")
        pairs = zip(names, weights, strict=True)
        kept = {name: w for name, w in pairs if isinstance(w, PackedWeight)}
        again = (x,) if call.residual else ()
        call.fused.run(device, (result, *arrays, *again), (), kept)
        return result
    y = x
    if w_expand is not None:
        y = conv2d(y, w_expand, b_expand, epilogue=activation)
    y = conv2d(
        y,
        w_depthwise,
        b_depthwise,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=given[1].shape[0],
        epilogue=activation,
    )
    added: dict[str, Any] = {"epilogue": _ADD, "epilogue_args": (x,)} if call.residual else {}
    return conv2d(y, w_project, b_project, out=out, **added)


def _prepare(
    device: Device,
    x: Any,
    weights: list[Any],
    biases: tuple[Any, ...],
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    activation: str | None,
    residual: bool | None,
    out: Any,
    algorithm: str,
) -> _Planned:
    """Checks everything and plans the call."""
    if algorithm not in ("auto", *_ALGORITHMS):
        raise DefinitionError(
            f"{_WHAT}: algorithm={quoted(algorithm)}: expected 'auto' or one of "
            f"{', '.join(_ALGORITHMS)}"
        )
    expand, taps, project = weights
    named = {"w_expand": expand, "w_depthwise": taps, "w_project": project}
    if expand is None:
        del named["w_expand"]
        if biases[0] is not None:
            raise ShapeError(f"{_WHAT}: b_expand= without w_expand, which it is added to")
    check_operands(_WHAT, device, x=x, **named)
    for name, w in named.items():
        if w.ndim != 4 or (name != "w_depthwise" and w.shape[2:] != (1, 1)):
            form = "(M, 1, KH, KW)" if name == "w_depthwise" else "(O, C, 1, 1)"
            raise ShapeError(f"{_WHAT}: {name} has shape {w.shape}, expected {form}")
    if expand is not None:
        check_shapes(f"{_WHAT}, w_expand", x.shape, expand.shape, 1)
    middle = (x.shape[0], x.shape[1] if expand is None else expand.shape[0], *x.shape[2:])
    check_shapes(f"{_WHAT}, w_depthwise", middle, taps.shape, middle[1])
    if taps.shape[0] != middle[1]:
        raise ShapeError(
            f"{_WHAT}: w_depthwise of shape {taps.shape}, expected one kernel for each of "
            f"{middle[1]} channels"
        )
    found = windows(
        _WHAT, x.shape[2:], taps.shape[2:], stride=stride, padding=padding, dilation=dilation
    )
    after = (*middle[:2], found.y.windows, found.x.windows)
    check_shapes(f"{_WHAT}, w_project", after, project.shape, 1)
    shape = (after[0], project.shape[0], *after[2:])
    same = shape == x.shape and (found.y.stride, found.x.stride) == (1, 1)
    if residual and not same:
        raise ShapeError(
            f"{_WHAT}: residual=True adds x of shape {x.shape} to a result of shape {shape} with "
            f"stride={quoted(stride)}; expected the same shape, and a stride of 1"
        )
    added = same if residual is None else bool(residual)

    plan = _Plan(device, activation)
    dtype = x.dtype
    if expand is not None:
        dtype = plan.stage("b_expand", dtype, expand, biases[0], middle)
    dtype = plan.stage("b_depthwise", dtype, taps, biases[1], after)
    dtype = plan.stage("b_project", dtype, project, biases[2], shape, last=True)
    read = check_epilogue(
        _WHAT, device, _ADD if added else None, (x,) if added else (), shape, plan.values[-1]
    )
    kept = [a for a in (x, *weights, *biases) if a is not None]
    check_result(_WHAT, out, device, shape, dtype, inputs=kept, extras=(), beta=0)
    y, described = result_of("y", out, shape, dtype, order_like(x))
    if algorithm == "separate" or not math.prod(shape) or not math.prod(middle):
        return _Planned(None, added)
    # Without an expansion the kernel copies its input, which pays by vectors of channels only.
    copies = expand is None and x.strides[1] != x.dtype.itemsize
    if algorithm == "auto" and (copies or not device.traits.is_cpu):
        return _Planned(None, added)

    value = plan.values[-1]
    wide, narrow = (_never_there(size, value) for size in (middle, after))
    pixels = windows(_WHAT, x.shape[2:], (1, 1), stride=1, padding=0, dilation=1)
    last = windows(_WHAT, after[2:], (1, 1), stride=1, padding=0, dilation=1)

    def product(source: Place, w: Any, axes: Windows, result: Place, n: int) -> Convolution:
        """The convolution number ``n``, from the last one: -1."""
        inner = n != -1
        images, channels, outputs = x.shape[0], w.shape[1], w.shape[0]
        return Convolution(
            name="conv2d",
            direction="forward",
            images=images,
            channels=outputs if n == -2 else channels,
            outputs=outputs,
            groups=outputs if n == -2 else 1,
            rows=axes.y,
            columns=axes.x,
            value=value,
            x=source,
            w=place_of("w", w),
            y=result,
            epilogue=placed(plan.activation if inner else read, plan.biases[n], shape),
        )

    first = place_of("x", x)
    planes = depthwise_of(product(first if expand is None else wide, taps, found, narrow, -2))
    assert planes is not None  # a channel each
    what = InvertedResidual(
        None if expand is None else forward(product(first, expand, pixels, wide, -3)),
        planes,
        forward(product(narrow, project, last, y, -1)),
    )
    fused = None
    somewhere = plan.activation.arrays or plan.activation.sizes  # of the middle, which is nowhere
    if len(set(plan.values)) == 1 and not somewhere:
        fused = plan_inverted_residual(what, device.traits)
    if fused is None:
        if algorithm == "fused":
            raise DefinitionError(
                f"{_WHAT}: algorithm='fused' needs rows of x without gaps between them, one dtype "
                f"of sums, and {device.traits.local_memory:,} bytes of local memory to hold some "
                f"rows of {middle[1]} channels; got x of shape {x.shape}, strides {x.strides}, and "
                f"sums of {', '.join(map(str, plan.values))}"
            )
        return _Planned(None, added)
    names = ["y0", "x", *named]
    parts = ("expand_bias", "taps_bias", "bias")
    names += [n for n, bias in zip(parts, biases, strict=True) if bias is not None]
    names += ["x0"] if added else []
    call = bind(device, _WHAT, fused, names, (described,), plan.activation.texts)
    return _Planned(call, added)


class _Plan:
    """Collects what the three convolutions calculate with.

    Attributes:
        values: dtypes that each adds up in.
        biases: The bias of each, if it has one.
        activation: What follows the first ones.
    """

    def __init__(self, device: Device, activation: str | None) -> None:
        self._device = device
        self._text = activation
        self.values: list[AnyDType] = []
        self.biases: list[list[Place]] = []
        self.activation: Epilogue[Read] = Epilogue()

    def stage(
        self,
        bias_name: str,
        dtype: AnyDType,
        w: Any,
        bias: Any,
        shape: Shape4,
        *,
        last: bool = False,
    ) -> AnyDType:
        """Checks one convolution, whose input has a dtype, and returns its result's dtype."""
        result, value = product_dtypes(_WHAT, self._device, dtype, w.dtype)
        self.values.append(value)
        self.biases.append(bias_place(f"{_WHAT}, {bias_name}", self._device, bias, shape, value))
        if not last:
            self.activation = check_epilogue(
                f"{_WHAT}, activation", self._device, self._text, (), shape, value
            )
        return result


def _never_there(shape: Shape4, dtype: AnyDType) -> Place:
    """A tensor of channels-last images between two convolutions."""
    strides = dense_strides(shape, dtype.itemsize, (0, 2, 3, 1))
    return Place.of("y", Operand(shape, strides, 0, dtype), shape)
