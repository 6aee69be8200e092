"""Normalisations: batch norms of two networks, and layer norms, beside PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.case import (
    Call,
    Case,
    Data,
    Options,
    Page,
    Shape,
    elements,
    normal,
    times,
    whole,
)
from clprim import ops

_BATCH = 32
# (channels, height and width, how often) of every distinct batch normalisation.
# He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2015, table 1; strides at the
# 3×3 layers ("v1.5"). Sandler and others: MobileNetV2, 2018, table 2.
NETWORKS = {
    "ResNet-50": (
        (64, 112, 1), (64, 56, 6), (256, 56, 4), (128, 56, 1), (128, 28, 7), (512, 28, 5),
        (256, 28, 1), (256, 14, 11), (1024, 14, 7), (512, 14, 1), (512, 7, 5), (2048, 7, 4),
    ),
    "MobileNetV2": (
        (32, 112, 2), (16, 112, 1), (96, 112, 1), (96, 56, 1), (24, 56, 2), (144, 56, 3),
        (144, 28, 1), (32, 28, 3), (192, 28, 5), (192, 14, 1), (64, 14, 4), (384, 14, 8),
        (96, 14, 3), (576, 14, 5), (576, 7, 1), (160, 7, 3), (960, 7, 6), (320, 7, 1),
        (1280, 7, 1),
    ),
}  # fmt: skip
# (rows, width): a batch of 32 images in ViT-B/16 (Dosovitskiy and others 2020), in the first and
# last stage of ConvNeXt-T (Liu and others 2022), and a wide one.
_LAYERS = ((32 * 197, 768), (32 * 56 * 56, 96), (32 * 7 * 7, 768), (8192, 4096))
KINDS = ("statistics", "training forward", "backward", "inference")


def _data(shape: Shape, memory_format: str) -> Data:
    """Images and gradients, and four vectors: weight, bias, mean, variance."""
    vectors = normal((4, shape[1]))
    vectors[3] = vectors[3] ** 2 + 1
    return Data(*(whole(shape, memory_format, seed, 8) for seed in (0, 1)), *vectors)


def _own(kind: str, data: Data) -> Call:
    x, grad, weight, bias, mean, var = data.device
    if kind == "statistics":
        return lambda: ops.batch_norm_stats(x)
    if kind == "training forward":
        running = mean.copy(), var.copy()
        return lambda: ops.batch_norm_train(x, weight, bias, *running)[0]
    if kind == "backward":
        return lambda: ops.batch_norm_backward(grad, x, weight, mean, var)
    if kind == "inference":
        return lambda: ops.batch_norm(x, mean, var, weight, bias)
    return lambda: ops.layer_norm(x, x.shape[1], weight, bias)


def _torch(kind: str, data: Data) -> Call:
    import torch

    functional = torch.nn.functional
    x, grad, weight, bias, mean, var = data.torch
    if kind == "statistics":
        return lambda: torch.var_mean(x, dim=(0, 2, 3), correction=0)[::-1]
    if kind == "training forward":
        return lambda: functional.batch_norm(x, mean, var, weight, bias, training=True)
    if kind == "backward":
        backward: Any = torch.ops.aten.native_batch_norm_backward
        told = [None, None, mean, var, True, 1e-5, [True, True, True]]
        return lambda: backward(grad, x, weight, *told)
    if kind == "inference":
        return lambda: functional.batch_norm(x, mean, var, weight, bias)
    return lambda: functional.layer_norm(x, x.shape[1:], weight, bias)


def norm_cases(args: Options) -> list[Case]:
    rows: list[tuple[str, str, Shape, str, int]] = []
    for network, shapes in NETWORKS.items():
        for kind in KINDS:
            for memory in ("contiguous", "channels_last"):
                for channels, size, count in shapes[-1:] if args.quick else shapes:
                    shape = (2 if args.quick else _BATCH, channels, size, size)
                    rows.append((network, kind, shape, memory, count))
    layers = ((64, 96),) if args.quick else _LAYERS
    rows += [("Transformers", "layer norm", shape, "", 1) for shape in layers]
    return [
        Case(
            f"{network}: {kind}{f', {memory}' if memory else ''}",
            f"{shape[1]}×{shape[2]}²" if memory else times(*shape),
            4 * elements(shape),
            partial(_data, shape, memory),
            {"clprim": partial(_own, kind), "PyTorch": partial(_torch, kind)},
            tolerance=1e-3,
            limit="read" if kind == "statistics" else "",
            nbytes=4 * elements(shape),
            count=count,
        )
        for network, kind, shape, memory, count in rows
    ]


PAGES = {
    "norm": Page(
        "Normalisations next to PyTorch", "ms", norm_cases, (),
        "PyTorch, on the CPU: `var_mean(correction=0)`, `functional.batch_norm`, "
        "`native_batch_norm_backward`, `functional.layer_norm`.",
    )
}  # fmt: skip
