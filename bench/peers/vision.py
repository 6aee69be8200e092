"""Networks of torchvision's, and a small one of our own, as both devices get them."""

from __future__ import annotations

import importlib.util
from typing import Any

#: A network for quick runs, which needs PyTorch alone.
SMALL = "small"
_libraries: list[Any] = []


def missing(names: tuple[str, ...]) -> str:
    """Return what must be installed to make networks; nothing where all of it is there."""
    needed = ["torch", *(["torchvision"] if any(name != SMALL for name in names) else [])]
    absent = [package for package in needed if importlib.util.find_spec(package) is None]
    return f"bench torch needs {' and '.join(absent)}: pip install {' '.join(absent)}" * bool(
        absent
    )


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
    """Return a network with weights out of a fixed seed.

    Nothing in it is random: dropout and stochastic depth leave everything in, so that its losses
    can be compared.

    Args:
        name: Of a function of ``torchvision.models``, or `SMALL`.
    """
    import torch

    torch.manual_seed(0)
    made = _small() if name == SMALL else getattr(torchvision().models, name)(weights=None)
    for module in made.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
    return made


def _small() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
