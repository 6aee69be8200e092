"""ncnn, which has Winograd's algorithm on processors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.case import Call, Data

# Options by which it would calculate with fewer bits, or elsewhere.
_OFF = (
    "use_fp16_packed use_fp16_storage use_fp16_arithmetic use_bf16_packed use_bf16_storage "
    "use_vulkan_compute"
).split()


def conv_forward(job: Any, data: Data) -> Call | None:
    """NCHW only; images are given one by one, as it has no batches."""
    if job.memory_format == "channels_last":
        return None
    import ncnn

    (x, w), layer = data.host, job.layer
    kind = "Convolution" if layer.groups == 1 else "ConvolutionDepthWise"
    numbers = (layer.filters, layer.kernel, layer.dilation, layer.stride, layer.padding, 0, w.size)
    words = [f"{key}={number}" for key, number in enumerate(numbers)]  # the sixth: no bias
    words += [f"7={layer.groups}"] if layer.groups > 1 else []
    net = ncnn.Net()
    net.opt.num_threads = os.cpu_count() or 1
    net.opt.openmp_blocktime = 0  # its threads would spin, and slow down the next contender
    for name in _OFF:
        setattr(net.opt, name, False)
    with tempfile.TemporaryDirectory() as folder:
        model, weights = Path(folder, "param"), Path(folder, "bin")
        model.write_text(f"7767517\n2 2\nInput in 0 1 x\n{kind} conv 1 1 x y {' '.join(words)}\n")
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
        return np.stack([np.array(image) for image in self.images])
