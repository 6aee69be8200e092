"""Networks on the device: outputs and every parameter's gradient against the CPU in float64.

``python tests/torch_networks.py`` runs all of them in both memory formats and prints a table;
``--write`` puts it into docs/torch.md. ``--double`` runs them in float64 as well, which compiles
every kernel once more. It takes the package torchvision for most.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import clprim.torch as ct
from clprim.torch import on_cpu

FORMATS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}
PAGE = Path(__file__).parents[1] / "docs" / "torch.md"
# The device's error may be this many times PyTorch's own in float32 (sums are in another order),
# or this large where both are about float32's rounding; gradients' may be larger.
TIMES, FLOOR, FLIPS = 8, 2e-5, 5e-2
# What float64 may differ by.
EXACT = 1e-9


class UNet(nn.Module):
    """Two levels down and up again, with skips."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()

        def block(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            )  # fmt: skip

        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.right2 = block(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear")
        self.right1 = block(3 * width, width)
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        middle = self.middle(nn.functional.max_pool2d(second, 2))
        up = self.right2(torch.cat([self.up2(middle), second], 1))
        return self.last(self.right1(torch.cat([self.up1(up), first], 1)))


class Sequence(nn.Module):
    """A recurrent network of two layers in both directions, and a linear one."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.memory = kind(10, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.memory(x)[0])


class Translation(nn.Module):
    """An encoder and a decoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(
            d_model=32, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=48,
            batch_first=True,
        )  # fmt: skip

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=x.dtype, device=x.device)
        return self.net(x, x[:, :5], tgt_mask=mask)


@dataclass(frozen=True)
class Network:
    """How a network is made, and the shape of its input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


def vision(name: str) -> Callable[[], nn.Module]:
    """A network of torchvision's, with random weights and ten classes."""

    def make():
        models = torchvision().models
        options = {"weights": None, "num_classes": 10}
        if name in ("googlenet", "inception_v3"):
            options |= {"aux_logits": name == "googlenet", "init_weights": True}
        if name.startswith("deeplab"):
            return models.segmentation.deeplabv3_resnet50(weights_backbone=None, **options)
        if name == "vit_b_16":
            options["image_size"] = 48
        if name == "maxvit_t":  # with windows for a small image
            return models.maxvit.MaxVit(
                input_size=(64, 64), stem_channels=64, partition_size=2, head_dim=32,
                block_channels=[64, 128, 256, 512], block_layers=[2, 2, 5, 2],
                stochastic_depth_prob=0.0, num_classes=10,
            )  # fmt: skip
        return getattr(models, name)(**options)

    return make


def torchvision():
    """Imports torchvision, which has kernels of its own only beside the build it was made for."""
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


_libraries = []

SIZES = {
    "alexnet": 64, "resnet18": 64, "resnet50": 96, "convnext_tiny": 48, "convnext_small": 48,
    "vgg16": 32, "squeezenet1_0": 48, "googlenet": 96, "densenet161": 96, "inception_v3": 160,
    "shufflenet_v2_x1_0": 64, "mobilenet_v2": 64, "mobilenet_v3_large": 64,
    "mobilenet_v3_small": 64, "resnext50_32x4d": 96, "wide_resnet50_2": 96, "mnasnet1_0": 96,
    "efficientnet_b0": 64, "efficientnet_b4": 64, "regnet_y_400mf": 64, "vit_b_16": 48,
    "swin_t": 64, "maxvit_t": 64, "deeplabv3_resnet50": 64,
}  # fmt: skip
NETWORKS = {name: Network(vision(name), (2, 3, size, size)) for name, size in SIZES.items()}
NETWORKS |= {
    "U-Net": Network(UNet, (2, 3, 20, 24)),
    "nn.LSTM": Network(lambda: Sequence(nn.LSTM), (2, 7, 10)),
    "nn.GRU": Network(lambda: Sequence(nn.GRU), (2, 7, 10)),
    "nn.Transformer": Network(Translation, (2, 6, 32)),
}


def prepared(model: nn.Module) -> nn.Module:
    """The model without dropout, whose random numbers differ, and without parameters of zeros."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.02)
    for module in model.modules():
        if "Dropout" in type(module).__name__ or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def results(model, x, seed):
    """A model's outputs, and the gradients of all its parameters and of the input."""
    x = x.requires_grad_()
    found = model(x)
    if isinstance(found, dict):
        found = tuple(found.values())
    outputs = found if isinstance(found, tuple) else (found,)
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(t.shape, generator=generator).to(t) for t in outputs]
    loss = sum((t * w).sum() for t, w in zip(outputs, weights, strict=True))
    loss.backward()
    slopes = {name: p.grad for name, p in model.named_parameters()} | {"input": x.grad}
    host = lambda t: None if t is None else t.detach().cpu().double()  # noqa: E731
    return [host(t) for t in outputs], {name: host(t) for name, t in slopes.items()}


def distance(found, expected):
    """The difference's norm over the norm, of several tensors as of one."""
    norm = torch.cat([e.flatten() for e in expected]).norm()
    return (
        (
            torch.cat([f.flatten() for f in found]) - torch.cat([e.flatten() for e in expected])
        ).norm()
        / norm
    ).item()


def errors(found, expected):
    """Errors of outputs and of the gradient as a whole, and the worst of a parameter's gradient.

    A parameter's is relative to its own norm or to a thousandth of the largest parameter's,
    whichever is larger: a gradient that is zero but for rounding says nothing.
    """
    (outputs, slopes), (right, exact) = found, expected
    assert {k for k, v in slopes.items() if v is None} == {k for k, v in exact.items() if v is None}
    names = [k for k, v in exact.items() if v is not None]
    least = 1e-3 * max(exact[k].norm().item() for k in names)
    each = {
        k: (slopes[k] - exact[k]).norm().item() / max(exact[k].norm().item(), least) for k in names
    }
    worst = max(each, key=each.get)
    return (
        distance(outputs, right),
        distance([slopes[k] for k in names], [exact[k] for k in names]),
        each[worst],
        worst,
    )


@dataclass(frozen=True)
class Outcome:
    """What came of a network in a memory format: errors as `errors` returns them."""

    float32: tuple[Any, ...]
    usual: tuple[Any, ...]
    float64: tuple[Any, ...] | None
    on_cpu: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the errors are those of rounding, and nothing ran on the CPU.

        In float32 a ReLU's or a maximum's input may round to the other side, which moves gradients
        by far more than rounding does; in float64 it does not happen.
        """
        pairs = zip(self.float32[:3], self.usual[:3], (FLOOR, FLIPS, FLIPS), strict=True)
        exact = self.float64 is None or max(self.float64[:3]) < EXACT
        return exact and not self.on_cpu and all(a <= max(c, TIMES * b) for a, b, c in pairs)


def compare(network: Network, formats=tuple(FORMATS), double=False):
    """Yields the outcome in each format, in float32 and, if asked for, in float64."""
    torch.manual_seed(0)
    model = prepared(network.make()).train()
    x = torch.randn(network.shape)
    formats = formats if len(network.shape) == 4 else formats[-1:]
    exact = results(copy.deepcopy(model).double(), x.double(), 1)
    usual = errors(results(copy.deepcopy(model), x.clone(), 1), exact)
    for name in formats:
        how = {"memory_format": FORMATS[name]} if x.ndim == 4 else {}
        on_cpu.counts.clear()
        began = time.perf_counter()
        found = []
        for kind in (torch.float32, torch.float64)[: 1 + double]:
            ours, data = copy.deepcopy(model).to(kind), x.detach().to(kind)
            found.append(
                errors(results(ours.to("opencl", **how), data.to("opencl", **how), 1), exact)
            )
        seconds = time.perf_counter() - began
        torch.opencl.empty_cache()
        fallbacks = tuple(sorted(on_cpu.counts))
        yield name, Outcome(found[0], usual, found[1] if double else None, fallbacks, seconds)


def write(page: Path, name: str, rows: list[str]) -> None:
    """Replaces what stands between a page's two marks of a name."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.read_text().partition(first)
    _, _, after = rest.partition(last)
    page.write_text(before + first + "\n".join(rows) + "\n" + last + after)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--format", choices=tuple(FORMATS), help="one instead of both")
    parser.add_argument("--write", action="store_true", help="put the table into docs/torch.md")
    parser.add_argument("--double", action="store_true", help="in float64 on the device too")
    given = parser.parse_args()
    ct.fallback("silent")
    names = given.only.split(",") if given.only else list(NETWORKS)
    formats = (given.format,) if given.format else tuple(FORMATS)
    head = ["network", "input", "format", "outputs", "gradient", "worst parameter"]
    head += [*(["float64"] if given.double else []), "on the CPU"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    bad = 0
    for n, name in enumerate(names):
        print(f"[{n + 1}/{len(names)}] {name}", file=sys.stderr, flush=True)
        shape = "×".join(map(str, NETWORKS[name].shape))
        try:
            for which, outcome in compare(NETWORKS[name], formats, given.double):
                bad += not outcome.right
                cells = [
                    f"{a:.0e} ({b:.0e})"
                    for a, b in zip(outcome.float32[:3], outcome.usual[:3], strict=True)
                ]
                if outcome.float64 is not None:
                    cells.append(f"{max(outcome.float64[:3]):.0e}")
                cells.append(", ".join(outcome.on_cpu) or "nothing")
                rows.append(f"| {name} | {shape} | {which} | {' | '.join(cells)} |")
                note = f"{outcome.seconds:.1f} s" + ("" if outcome.right else "  <-- WRONG")
                print(rows[-1], note, file=sys.stderr, flush=True)
        except Exception as error:
            bad += 1
            rows.append(f"| {name} | {shape} | | {type(error).__name__}" + " |" * (len(head) - 3))
            print(f"{name}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)
    print("\n".join(rows))
    if given.write:
        write(PAGE, "networks", rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
