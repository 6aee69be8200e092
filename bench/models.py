"""Whole networks by name, as every contender gets them: of packages, and `bench.models_own`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, NamedTuple

#: A network for quick runs, which needs PyTorch alone.
SMALL = "small"
_libraries: list[Any] = []


class Model(NamedTuple):
    """A network of images of a size, or of tokens where that is 0.

    ``own`` is what makes it of `bench.models_own`; empty where a package has its name.
    """

    title: str
    size: int = 224
    tokens: int = 0
    own: str = ""
    package: str = "torchvision"

    @property
    def label(self) -> str:
        return f"{self.title}, {f'{self.tokens} tokens' if self.tokens else f'{self.size}²'}"


#: By the name that ``--net`` takes.
MODELS = {
    "resnet18": Model("ResNet-18"),
    "resnet50": Model("ResNet-50"),
    "mobilenet_v2": Model("MobileNetV2"),
    "mobilenet_v3_large": Model("MobileNetV3-L"),
    "efficientnet_b0": Model("EfficientNet-B0"),
    "densenet121": Model("DenseNet-121"),
    "shufflenet_v2_x1_0": Model("ShuffleNetV2"),
    "googlenet": Model("GoogLeNet"),
    "vgg16": Model("VGG-16"),
    "unet": Model("U-Net", 256, own="UNet"),
    "yolo": Model("YOLO-like", 320, own="Yolo"),
    "convnext_tiny": Model("ConvNeXt-T"),
    "vit_b_16": Model("ViT-B/16"),
    "swin_t": Model("Swin-T"),
    "bert": Model("BERT-base", 0, tokens=128, own="Bert"),
    "squeezenet1_0": Model("SqueezeNet"),
    "resnet34": Model("ResNet-34"),
    "mnasnet1_0": Model("MNASNet"),
    "regnet_y_400mf": Model("RegNet-Y-400MF"),
    "ghostnet_100": Model("GhostNet", package="timm"),
    "repvgg_a0": Model("RepVGG-A0", package="timm"),
    SMALL: Model("a small network", 8, own="small"),
}


def missing_for(names: Sequence[str]) -> str:
    """Return what must be installed to make networks; nothing where all of it is there."""
    foreign = {MODELS[name].package for name in names if not MODELS[name].own}
    # What timm has of layers is torchvision's.
    needed = ["torch", *(["torchvision"] if foreign else []), *sorted(foreign - {"torchvision"})]
    needed = needed if names else []
    absent = [package for package in needed if importlib.util.find_spec(package) is None]
    if not absent:
        return ""
    return f"these networks need {' and '.join(absent)}: pip install {' '.join(absent)}"


def torchvision() -> Any:
    """Import torchvision, whose own operators are there only beside the build it was made for."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        _libraries.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            _libraries[-1].define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        import torchvision
    return torchvision


def network(name: str) -> Any:
    """Return a network with weights out of a fixed seed, of which nothing is random."""
    import torch

    torch.manual_seed(0)
    return shown(_made(name))


def shown(model: Any) -> Any:
    """Take what is random out of a network, and give it weights of which all parts show.

    Dropout and stochastic depth leave everything in, so that losses can be compared.
    """
    import torch

    for module in model.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("layer_scale"):
                weight.fill_(0.1)
            elif weight.ndim > 1 and not weight.any():
                weight.normal_(std=weight.shape[1] ** -0.5)
    return model


def settled(model: Any) -> Any:
    """Give batch normalisations statistics that keep a network's numbers about 1."""
    import torch

    if any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules()):
        model.train()
        with torch.no_grad():
            model(torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(2)))
    return model.eval()


def inputs_of(name: str, batch: int, size: int = 0) -> Any:
    """Return what a network takes, on the CPU: channels-last images (of a size), or tokens."""
    import torch

    model, generator = MODELS[name], torch.Generator().manual_seed(1)
    if model.tokens:
        return torch.randint(0, 1000, (batch, model.tokens), generator=generator)
    size = size or model.size
    images = torch.randn(batch, 3, size, size, generator=generator)
    return images.contiguous(memory_format=torch.channels_last)


def _made(name: str) -> Any:
    if MODELS[name].own:
        from bench import models_own

        return getattr(models_own, MODELS[name].own)()
    if MODELS[name].package == "timm":
        torchvision()
        return importlib.import_module("timm").create_model(name, pretrained=False)
    # GoogLeNet would draw its weights for half a minute, and train two heads beside its own.
    options = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    return getattr(torchvision().models, name)(weights=None, **options)
