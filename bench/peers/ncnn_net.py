"""ncnn, which has Winograd's algorithm on processors."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bench.peers.peer import Call, Inputs, Peer

if TYPE_CHECKING:
    from bench.work.conv import Conv

# Options by which it would calculate with fewer bits, or elsewhere.
_OFF = (
    "use_fp16_packed",
    "use_fp16_storage",
    "use_fp16_arithmetic",
    "use_bf16_packed",
    "use_bf16_storage",
    "use_vulkan_compute",
)


class Ncnn(Peer):
    """Its processor kernels, with as many threads as cores."""

    name = "ncnn"
    error = 1e-4  # F(6 × 6), too, with more than clprim allows itself by default
    missing = "" if importlib.util.find_spec("ncnn") else "ncnn is not installed"
    remarks: ClassVar = {
        "conv_forward": "a network of one `Convolution` in float32, Winograd's algorithm admitted "
        "with relative errors up to 1e-4, weights transformed beforehand, one image after another; "
        "it has no NHWC"
    }

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call | None:
        """NCHW only; images are given one by one, as it has no batches."""
        if workload.memory_format == "channels_last":
            return None
        import ncnn

        x, w = inputs.host
        layer = workload.layer
        kind = "Convolution" if layer.groups == 1 else "ConvolutionDepthWise"
        numbers = {
            0: layer.filters,
            1: layer.kernel,
            2: layer.dilation,
            3: layer.stride,
            4: layer.padding,
            5: 0,  # no bias
            6: w.size,
        }
        if layer.groups > 1:
            numbers[7] = layer.groups
        options = " ".join(f"{key}={number}" for key, number in numbers.items())
        net = ncnn.Net()
        net.opt.num_threads = os.cpu_count() or 1
        net.opt.openmp_blocktime = 0  # its threads would spin, and slow down the next contender
        for name in _OFF:
            setattr(net.opt, name, False)
        with tempfile.TemporaryDirectory() as folder:
            model, weights = Path(folder, "param"), Path(folder, "bin")
            model.write_text(f"7767517\n2 2\nInput in 0 1 x\n{kind} conv 1 1 x y {options}\n")
            # Four zeros say that what follows are floats as they are.
            weights.write_bytes(bytes(4) + np.ascontiguousarray(w, np.float32).tobytes())
            if net.load_param(str(model)) or net.load_model(str(weights)):
                return None
        images = [ncnn.Mat(np.ascontiguousarray(image)) for image in x]

        def call() -> _Images:
            found = []
            for image in images:
                extractor = net.create_extractor()
                extractor.input("x", image)
                found.append(extractor.extract("y")[1])
            return _Images(found)

        return call


class _Images:
    """Its results, one image each."""

    def __init__(self, images: list[Any]) -> None:
        self.images = images

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return them as one array."""
        return np.stack([np.array(image) for image in self.images])
