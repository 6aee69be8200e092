"""Networks that torchvision has not, out of their papers, as plain modules of PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class UNet(nn.Module):
    """A U-Net with batch norms and padded convolutions."""

    def __init__(self, channels: int = 64, classes: int = 2) -> None:
        super().__init__()
        sizes = [channels << n for n in range(5)]
        self.down = nn.ModuleList(
            _twice(a, b) for a, b in zip((3, *sizes[:-1]), sizes, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, stride=2) for c in sizes[-2::-1])
        self.joined = nn.ModuleList(_twice(2 * c, c) for c in sizes[-2::-1])
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Conv2d(channels, classes, 1)

    def forward(self, x: Any) -> Any:
        """Return a map of classes as large as the images."""
        kept = []
        for level in self.down[:-1]:
            kept.append(level(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for up, joined, other in zip(self.up, self.joined, kept[::-1], strict=True):
            x = joined(torch.cat((other, up(x)), 1))
        return self.last(x)


class Yolo(nn.Module):
    """A detector of the YOLO family: C2f stages with SiLU, pooling pyramid, two-way neck, heads."""

    def __init__(self, channels: int = 16, outputs: int = 144) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (channels << n for n in range(5))
        self.stem = nn.Sequential(_unit(3, c1, 3, 2), _unit(c1, c2, 3, 2), _Stage(c2, c2, 1))
        self.eighth = nn.Sequential(_unit(c2, c3, 3, 2), _Stage(c3, c3, 2))
        self.sixteenth = nn.Sequential(_unit(c3, c4, 3, 2), _Stage(c4, c4, 2))
        self.last = nn.Sequential(_unit(c4, c5, 3, 2), _Stage(c5, c5, 1), _Pyramid(c5))
        self.up = nn.Upsample(scale_factor=2.0)
        self.to16, self.to8 = _Stage(c4 + c5, c4, 1, adds=False), _Stage(c3 + c4, c3, 1, adds=False)
        self.down8, self.from8 = _unit(c3, c3, 3, 2), _Stage(c3 + c4, c4, 1, adds=False)
        self.down16, self.from16 = _unit(c4, c4, 3, 2), _Stage(c4 + c5, c5, 1, adds=False)
        self.heads = nn.ModuleList(
            nn.Sequential(_unit(c, c3, 3), _unit(c3, c3, 3), nn.Conv2d(c3, outputs, 1))
            for c in (c3, c4, c5)
        )

    def forward(self, x: Any) -> Any:
        """Return ``outputs`` numbers of each place of all three sizes."""
        p8 = self.eighth(self.stem(x))
        p16 = self.sixteenth(p8)
        p32 = self.last(p16)
        n16 = self.to16(torch.cat((self.up(p32), p16), 1))
        n8 = self.to8(torch.cat((self.up(n16), p8), 1))
        n16 = self.from8(torch.cat((self.down8(n8), n16), 1))
        n32 = self.from16(torch.cat((self.down16(n16), p32), 1))
        found = [
            head(part).flatten(2) for head, part in zip(self.heads, (n8, n16, n32), strict=True)
        ]
        return torch.cat(found, 2)


class Bert(nn.Module):
    """The encoder of BERT-base, without its pooled result."""

    def __init__(
        self, width: int = 768, layers: int = 12, heads: int = 12, words: int = 30522
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.Sequential(*(_Encoder(width, heads) for _ in range(layers)))

    def forward(self, tokens: Any) -> Any:
        """Return (N, L, width) of (N, L) tokens."""
        places = self.places.weight[: tokens.shape[1]]
        return self.layers(self.norm(self.words(tokens) + places + self.kinds.weight[0]))


class _Encoder(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mixed = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, x: Any) -> Any:
        q, k, v = (
            part(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.first(x + self.mixed(found))
        return self.second(x + self.narrow(nn.functional.gelu(self.wide(x))))


class _Stage(nn.Module):
    """Half of the channels through bottlenecks, each of whose results is kept (C2f)."""

    def __init__(self, channels: int, filters: int, blocks: int, *, adds: bool = True) -> None:
        super().__init__()
        half = filters // 2
        self.adds = adds
        self.first = _unit(channels, filters, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(_unit(half, half, 3), _unit(half, half, 3)) for _ in range(blocks)
        )
        self.last = _unit((2 + blocks) * half, filters, 1)

    def forward(self, x: Any) -> Any:
        halves = self.first(x).chunk(2, 1)
        parts = [halves[0], halves[1]]
        for block in self.blocks:
            made = block(parts[-1])
            parts.append(parts[-1] + made if self.adds else made)
        return self.last(torch.cat(parts, 1))


class _Pyramid(nn.Module):
    """Maxima of 5×5, of maxima (SPPF)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = _unit(channels, channels // 2, 1), _unit(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Any) -> Any:
        a = self.first(x)
        b = self.pool(a)
        c = self.pool(b)
        return self.last(torch.cat((a, b, c, self.pool(c)), 1))


def _unit(channels: int, filters: int, kernel: int, stride: int = 1) -> Any:
    conv = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(filters), nn.SiLU())


def _twice(channels: int, filters: int) -> Any:
    parts: list[nn.Module] = []
    for given in (channels, filters):
        conv = nn.Conv2d(given, filters, 3, padding=1, bias=False)
        parts += [conv, nn.BatchNorm2d(filters), nn.ReLU()]
    return nn.Sequential(*parts)


def small() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
