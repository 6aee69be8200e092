"""The network of `bench.work.subpixel` in other libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Call, Peer
from clprim.runtime.device import Device

Weights = Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


class NetworkPeer(Protocol):
    """A library that runs the network."""

    name: str
    missing: str

    def network(self, weights: Weights, x: np.ndarray[Any, Any]) -> Call:
        """Return what runs the network once."""


class Torch(Peer):
    """PyTorch, whose convolutions are oneDNN's, on all threads of the CPU."""

    layout = "NHWC"
    missing = "" if importlib.util.find_spec("torch") else "torch is not installed"

    def __init__(self, device: Device, layout: str) -> None:
        super().__init__(device)
        self.layout = layout
        self.name = f"PyTorch, {layout}"

    def note(self, ops: Any = ()) -> str:
        """Say what the numbers are of."""
        del ops
        return f"{self.name}: {self.missing or 'eager, in inference mode'}"

    def network(self, weights: Weights, x: np.ndarray[Any, Any]) -> Call:
        """Images and weights are in this layout; everything that can be done in place is."""
        import torch

        last = self.layout == "NHWC"
        kind = torch.channels_last if last else torch.contiguous_format
        layers = [
            (torch.from_numpy(w).contiguous(memory_format=kind), torch.from_numpy(b))
            for w, b in weights
        ]
        image = torch.from_numpy(x).contiguous(memory_format=kind)
        functional = torch.nn.functional

        def conv(y: Any, layer: tuple[Any, Any]) -> Any:
            return functional.conv2d(y, *layer, padding=1)

        @torch.inference_mode()
        def run() -> Any:
            first, *body, large, larger, end = layers
            h = t = conv(image, first)
            for one, other in (body[0:2], body[2:4]):
                r = functional.leaky_relu_(conv(t, one), 0.1)
                t = conv(r, other).add_(t)
            t = conv(t, body[4]).add_(h)
            for layer in (large, larger):
                t = functional.pixel_shuffle(conv(t, layer), 2)
            return conv(t, end)

        return run


class Onnx(OnnxRuntime):
    """Its CPU provider: NCHW, inside blocked as it likes."""

    name = "onnxruntime, NCHW"

    def note(self, ops: Any = ()) -> str:
        """Say what the numbers are of."""
        del ops
        remark = "a model of the network, input and output bound, optimised as it likes"
        return f"{self.name}: {self.missing or remark}"

    def network(self, weights: Weights, x: np.ndarray[Any, Any]) -> Call:
        """The network as a model."""
        from onnx import helper

        constants, nodes = {}, []
        for n, (w, b) in enumerate(weights):
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
        n, _, height, width = x.shape
        return self.session(nodes, {"x": x}, constants, n, 3, 4 * height, 4 * width)


def subpixel_peers(device: Device) -> list[Torch | Onnx]:
    """Return the libraries, installed or not."""
    return [Torch(device, "NHWC"), Torch(device, "NCHW"), Onnx(device)]
