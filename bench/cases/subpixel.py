"""A super-resolution network whose convolutions store pixels, beside forms of it that move memory.

The network is the one of a report to a compiler, which spent a quarter of its time in transposes on
it (apache/tvm, issue 4523), with fewer pixels: 3 × 3 convolutions with a bias, residual blocks, and
two enlargements by 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

import clprim as cp
from bench.case import FORMATS, Call, Case, Data, Host, Make, Options, Page, into, last
from bench.peers.onnx_runtime import bound, model_of
from clprim import ops

# (channels, outputs, block of the depth_to_space after it, times as many pixels a side as the
# input): a first convolution, two residual blocks, one more before the long shortcut, two
# enlargements, a last one.
LAYERS = (
    *((3, 64, 1, 1), *(((64, 64, 1, 1),) * 5)),
    *((64, 128, 2, 1), (32, 64, 2, 2), (16, 3, 1, 4)),
)
_SIZES = ((90, 160), (180, 320))
LEAKY, ADD = "y0 = max(y0, 0.1f * y0);", "y0 = y0 + x0;"


class Network(Data):
    """The network, with weights drawn at random, and a picture."""

    def __init__(self, size: tuple[int, int], memory_format: str) -> None:
        picture = np.random.default_rng(1).random((1, 3, *size), np.float32)
        super().__init__(last(picture) if memory_format == "channels_last" else picture)
        random = np.random.default_rng(0)
        self.memory_format = memory_format
        self.weights = [
            ((random.standard_normal((o, c, 3, 3)) * (2 / (9 * c)) ** 0.5).astype(np.float32),
             random.standard_normal(o).astype(np.float32) / 8)
            for c, o, _, _ in LAYERS
        ]  # fmt: skip

    @cached_property
    def packed(self) -> list[tuple[Any, Any]]:
        return [(ops.pack_weight(cp.asarray(w)), cp.asarray(b)) for w, b in self.weights]


def run(network: Network, x: cp.Array, how: str) -> cp.Array:
    """Return pictures (N, 3, 4H, 4W), given (N, 3, H, W).

    ``fused``: convolutions store the pixels. ``separate``: `ops.depth_to_space` does.
    ``transposing``: it does so in NCHW, and what it reads and writes is converted, as where an
    operator has no other layout. ``converted``: fused, in NHWC, between conversions.
    """
    if how == "converted":
        y = run(network, ops.contiguous(x, memory_format="channels_last"), "fused")
        return ops.contiguous(y, memory_format="contiguous")
    first, *body, large, larger, end = network.packed
    h = t = ops.conv2d(x, *first, padding=1)
    for one, other in (body[0:2], body[2:4]):
        r = ops.conv2d(t, *one, padding=1, epilogue=LEAKY)
        t = ops.conv2d(r, *other, padding=1, epilogue=ADD, epilogue_args=(t,))
    t = ops.conv2d(t, *body[4], padding=1, epilogue=ADD, epilogue_args=(h,))
    t = _enlarged(_enlarged(t, large, how), larger, how)
    return ops.conv2d(t, *end, padding=1)


def _enlarged(x: cp.Array, weight: tuple[Any, Any], how: str) -> cp.Array:
    """A convolution whose outputs become squares of 2 × 2 pixels."""
    if how == "fused":
        return ops.conv2d(x, *weight, padding=1, depth_to_space=2, mode="CRD")
    y = ops.conv2d(x, *weight, padding=1)
    if how == "transposing":
        y = ops.depth_to_space(ops.contiguous(y, memory_format="contiguous"), 2, "CRD")
        return ops.contiguous(y, memory_format="channels_last")
    return ops.depth_to_space(y, 2, "CRD")


def _form(how: str, network: Network) -> Call:
    return partial(run, network, network.device[0], how)


def launches(call: Call) -> tuple[int, int, int, float]:
    """Return a run's kernels of convolutions, of depth_to_space, others, and the firsts' time."""
    with cp.profile() as profile:
        call()
    events = profile.events
    convolutions = [event.seconds for event in events if event.name.startswith("conv2d")]
    shuffles = sum(event.name == "depth_to_space" for event in events)
    others = len(events) - len(convolutions) - shuffles
    return len(convolutions), shuffles, others, sum(convolutions)


def _counted(network: Network, call: Call) -> dict[str, str]:
    outside = []
    for _ in range(5):
        start = time.perf_counter()
        with cp.profile():
            call()
            cp.synchronize()
        outside.append(time.perf_counter() - start)
    convolutions, shuffles, others, seconds = launches(call)
    part = max(0.0, 1 - seconds / float(np.median(outside)))
    found = {"convolutions": f"{convolutions}", "depth_to_space": f"{shuffles}"}
    return {**found, "other launches": f"{others}", "outside of convolutions": f"{part:.1%}"}


def _torch(network: Network) -> Call:
    """Everything that can be done in place is, in the picture's format, in inference mode."""
    import torch

    kind = torch.channels_last
    kind = kind if network.memory_format == "channels_last" else torch.contiguous_format
    layers = [
        (torch.from_numpy(w).contiguous(memory_format=kind), torch.from_numpy(b))
        for w, b in network.weights
    ]
    functional, (image,) = torch.nn.functional, network.torch

    def conv(y: Any, layer: tuple[Any, Any]) -> Any:
        return functional.conv2d(y, *layer, padding=1)

    @torch.inference_mode()
    def call() -> Any:
        first, *body, large, larger, end = layers
        h = t = conv(image, first)
        for one, other in (body[0:2], body[2:4]):
            t = conv(functional.leaky_relu_(conv(t, one), 0.1), other).add_(t)
        t = conv(t, body[4]).add_(h)
        for layer in (large, larger):
            t = functional.pixel_shuffle(conv(t, layer), 2)
        return conv(t, end)

    return call  # type: ignore[no-any-return]


def _onnx(network: Network) -> Call:
    """The network as a model, NCHW, inside blocked as it likes."""
    from onnx import helper

    constants: dict[str, Host] = {}
    nodes: list[Any] = []
    for n, (w, b) in enumerate(network.weights):
        constants |= {f"w{n}": w, f"b{n}": b}

    def node(kind: str, inputs: list[str], result: str, **options: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [result], **options))
        return result

    def conv(y: str, n: int, result: str) -> str:
        square = {"kernel_shape": [3, 3], "pads": [1] * 4}
        return node("Conv", [y, f"w{n}", f"b{n}"], result, **square)

    h = t = conv("x", 0, "h")
    for n in (1, 3):
        r = node("LeakyRelu", [conv(t, n, f"c{n}")], f"r{n}", alpha=0.1)
        t = node("Add", [conv(r, n + 1, f"c{n + 1}"), t], f"t{n}")
    t = node("Add", [conv(t, 5, "c5"), h], "t5")
    for n in (6, 7):
        t = node("DepthToSpace", [conv(t, n, f"c{n}")], f"t{n}", blocksize=2, mode="CRD")
    conv(t, 8, "y")
    inputs = {"x": np.ascontiguousarray(network.host[0])}
    images, _, height, width = inputs["x"].shape
    shape = images, 3, 4 * height, 4 * width
    return bound(model_of(nodes, inputs, constants, *shape), inputs, *shape)


def flops(height: int, width: int) -> int:
    return sum(2 * 9 * c * o * height * width * side**2 for c, o, _, side in LAYERS)


def _store(shuffles: bool, block: int, data: Data) -> Call:
    """A convolution that stores squares, or the same one that does not."""
    x, w, b = data.device
    told: dict[str, Any] = {"padding": 1, "depth_to_space": block if shuffles else None}
    return into(ops.conv2d, x, ops.pack_weight(w), b, **told)


def _stores(size: tuple[int, int], memory_format: str) -> list[Case]:
    found = []
    for layer, (channels, outputs, block, side) in enumerate(LAYERS):
        if block == 1:
            continue
        height, width = (length * side for length in size)

        def data(layer: int = layer, shape: Sequence[int] = (1, channels, height, width)) -> Data:
            network = Network(size, memory_format)
            x = np.random.default_rng(1).random(tuple(shape), np.float32)
            x = last(x) if memory_format == "channels_last" else x
            return Data(x, *network.weights[layer])

        makers: dict[str, Make] = {
            "clprim": partial(_store, True, block),
            "clprim, plain stores": partial(_store, False, block),
        }
        title = f"{channels}→{outputs} of {height} × {width}, {FORMATS[memory_format]}"
        work = 2 * 9 * channels * outputs * height * width
        found.append(
            Case("Convolutions that store squares of pixels", title, work, data, makers,
                 tolerance=None)
        )  # fmt: skip
    return found


def subpixel_cases(args: Options) -> list[Case]:
    found: list[Case] = []
    forms: dict[str, tuple[str, ...]] = {
        "channels_last": ("separate", "transposing"),
        "contiguous": ("separate", "converted"),
    }
    for size in ((6, 10),) if args.quick else _SIZES:
        for memory, others in forms.items():
            makers: dict[str, Callable[[Any], Call]] = {"clprim": partial(_form, "fused")}
            makers |= {f"clprim, {how}": partial(_form, how) for how in others}
            makers["PyTorch"] = _torch
            if memory == "contiguous":
                makers["onnxruntime"] = _onnx
            found.append(
                Case(f"Pictures of {size[0]} × {size[1]}", FORMATS[memory], flops(*size),
                     partial(Network, size, memory), makers, tolerance=1e-4, extra=_counted)
            )  # fmt: skip
    for size in ((6, 10),) if args.quick else _SIZES:
        found += [case for memory in forms for case in _stores(size, memory)]
    return found


PAGES = {
    "subpixel": Page(
        "A sub-pixel network without a transpose", "GFLOP/s", subpixel_cases, (),
        "`clprim`: convolutions store to the shuffled address; `separate`: `ops.depth_to_space` "
        "after them; `transposing`: that one in NCHW between conversions; `converted`: fused, in "
        "NHWC, between conversions of input and result. `outside of convolutions`: what their "
        "kernels leave over of a profiled run.",
    )
}  # fmt: skip
