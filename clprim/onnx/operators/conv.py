"""Convolutions of one to three dimensions, with ONNX's ways to say where borders are; products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clprim import ops
from clprim.errors import DefinitionError
from clprim.onnx.operators.elementwise import string
from clprim.onnx.operators.shape import padded
from clprim.onnx.table import Numbers, Run, family, handler, listed
from clprim.ops.registry import OnnxOperator

#: Attributes that `window_of` reads.
WINDOW = "auto_pad dilations kernel_shape pads strides"


class Window(NamedTuple):
    """Sizes of a window, a number a dimension, and its borders, a pair a dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[tuple[int, int]]

    @property
    def sides(self) -> tuple[int, ...]:
        """The borders one behind the other."""
        return tuple(n for pair in self.pads for n in pair)


def window_of(told: Any, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
    """Returns the window that attributes describe."""
    n, kernel = len(sizes), list(kernel)
    strides, dilations = (list(told.get(k) or [1] * n) for k in ("strides", "dilations"))
    flat = list(told.get("pads") or [0] * 2 * n)
    if not (len(kernel) == len(strides) == len(dilations) == n and len(flat) == 2 * n):
        raise DefinitionError(f"{kernel=}, {strides=}, {dilations=}, pads={flat}: expected {n}")
    if min(*kernel, *strides, *dilations) < 1 or min(flat) < 0:
        raise DefinitionError(f"{kernel=}, {strides=}, {dilations=}, pads={flat}: too small")
    pads, auto = list(zip(flat[:n], flat[n:], strict=True)), told.get("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [(0, 0)] * n
    elif auto.startswith("SAME"):
        pads = []
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            less, more = total // 2, total - total // 2
            pads.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return Window(kernel, strides, dilations, pads)


@family("windows", takes=WINDOW)
def _windows(known: OnnxOperator, inner: Run) -> Run:
    """Of images of one dimension to three, whose windows attributes describe."""
    name: str = known.function.__name__
    pools = name.endswith("_pool2d")

    def run(context: Any, arrays: Any, told: Any, **more: Any) -> Any:
        x, *others = listed(arrays)
        function = getattr(ops, name.replace("2", str(x.ndim - 2)), None)
        if function is None:
            raise DefinitionError(f"{x.ndim - 2} dimensions beside channels; 1 to 3 are supported")
        w = window_of(told, x.shape[2:], told.get("kernel_shape") or others[0].shape[2:])
        more |= {"stride": tuple(w.strides), "dilation": tuple(w.dilations), "function": function}
        more |= {"padding": tuple(w.pads) if pools else w.sides}
        more |= {"kernel_size": tuple(w.kernel)} if pools else {}
        return inner(context, arrays, told, **more)

    return run


@family("images", takes="channels_last")
def _images(known: OnnxOperator, inner: Run) -> Run:
    """Of images whose channels may be last."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        if told.get("ceil_mode") and told.get("count_include_pad"):
            # As AveragePool did before opset 19.
            raise DefinitionError(f"{known.name}: ceil_mode with count_include_pad")
        if not told.get("channels_last"):
            return inner(context, arrays, told)
        x = listed(arrays)[0]
        between = range(2, x.ndim)
        x = x.transpose((0, x.ndim - 1, *(d - 1 for d in between)))
        given = {**arrays, "x": x} if isinstance(arrays, dict) else [x]
        return inner(context, given, told).transpose((0, *between, 1))

    return run


@family("scaled", takes="alpha beta")
def _scaled(known: OnnxOperator, inner: Run) -> Run:
    """A product times alpha, with something times beta added."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        c, alpha, beta = arrays.pop("c", None), told.get("alpha", 1.0), told.get("beta", 1.0)
        y = inner(context, arrays, told)
        if c is None or not beta:
            return y if alpha == 1 else string("y0 = x0 * w0;", y.dtype, y, alpha)
        if (alpha, beta) == (1, 1):
            return ops.add(y, c)
        return string("y0 = x0 * w0 + x1 * w1;", y.dtype, y, c, alpha, beta)

    return run


@handler("ConvTranspose", takes=f"{WINDOW} group")
def _conv_transpose(
    x: Any, w: Any, bias: Any = None, *, output_shape: Any = None, output_padding: Any = None,
    **told: Any,
) -> Any:  # fmt: skip
    sizes, n = x.shape[2:], x.ndim - 2
    auto, extra = told.get("auto_pad", "NOTSET"), list(output_padding or [0] * n)
    same = auto.startswith("SAME")
    plain = {**told, "auto_pad": "VALID" if same else auto}
    v = window_of(plain, sizes, told.get("kernel_shape") or w.shape[2:])
    pads = v.pads
    if output_shape or same:
        wanted = output_shape or [m * s for m, s in zip(sizes, v.strides, strict=True)]
        pads = []
        for size, k, s, d, e, out in zip(sizes, *v[:3], extra, wanted[-n:], strict=True):
            total = s * (size - 1) + e + (k - 1) * d + 1 - out
            less, more = total // 2, total - total // 2
            pads.append((0, total) if total < 0 else (more, less) if auto == "SAME_LOWER"
                        else (less, more))  # fmt: skip
    run, rest = getattr(ops, f"conv_transpose{n}d"), (told.get("group", 1), tuple(v.dilations))
    strides, sides = tuple(v.strides), tuple(n for pair in pads for n in pair)
    limits = map(max, v.strides, v.dilations)
    if min(sides) >= 0 and all(e < most for e, most in zip(extra, limits, strict=True)):
        return run(x, w, bias, strides, sides, tuple(extra), *rest)
    # All that the kernel reaches, of which the borders are cut off, and which may grow behind.
    y = run(x, w, None, strides, 0, 0, *rest)
    cut = [(-a, e - b) for (a, b), e in zip(pads, extra, strict=True)]
    y = padded(y, [(0, 0), (0, 0), *cut])
    return y if bias is None else ops.add(y, bias.reshape((1, -1, *[1] * n)))


@handler("Col2Im", takes=WINDOW)
def _col2im(x: Any, image: Numbers, block: Numbers, **told: Any) -> Any:
    v = window_of(told, image, block)
    rest = tuple(v.dilations), tuple(v.pads), tuple(v.strides)
    return ops.fold(x, tuple(image), tuple(block), *rest)


@family("equation", takes="equation")
def _equation(known: OnnxOperator, inner: Run) -> Run:
    """Of an equation, which stands before the arrays."""

    def run(context: Any, arrays: Any, told: Any) -> Any:
        return inner(context, [told["equation"].replace(" ", ""), *arrays], {})

    return run
