"""What is decided for some 400 problems, on six kinds of devices: a change shows what it changes.

``--update-golden`` rewrites ``decisions.txt``; what differs is to be timed before it is kept.
"""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from clprim.plan.conv.dense import dense_convolution
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import PRODUCTS
from clprim.plan.reduction.family import REDUCTIONS, dense_reduction
from clprim.traits import DeviceTraits

GOLDEN = Path(__file__).with_name("decisions.txt")
_CPU = DeviceTraits(
    is_cpu=True,
    compute_units=8,
    max_work_group_size=4096,
    local_memory=262144,
    prefetch=True,
    cache_bytes=32 << 20,
)
#: By the class of the device.
DEVICES = {
    "avx512": dataclasses.replace(_CPU, vector_bytes=64),
    "avx2": dataclasses.replace(_CPU, vector_bytes=32),
    "neon": dataclasses.replace(
        _CPU, vector_bytes=16, registers=32, compute_units=4, l1_bytes=65536, l2_bytes=1 << 20
    ),
    "intel-gpu": DeviceTraits(
        compute_units=32,
        local_memory=65536,
        sub_group_size=32,
        sub_groups=(8, 16, 32),
        block_reads=True,
        short_block_reads=True,
        register_bytes=512,
        fp16=True,
        c_version=(3, 0),
    ),
    "amd-gpu": DeviceTraits(
        compute_units=60,
        local_memory=65536,
        sub_group_size=64,
        fp16=True,
        c_version=(2, 0),
    ),
    "nvidia-gpu": DeviceTraits(
        compute_units=132,
        max_work_group_size=1024,
        local_memory=49152,
        cache_bytes=4325376,
        c_version=(3, 0),
    ),
}
_ERROR = 5e-6
# Shape, axes, and how these lie in memory.
_REDUCTIONS = (
    ((100, 1000), (1,), (0, 1)),
    ((100, 1000), (0,), (0, 1)),
    ((1, 1 << 22), (1,), (0, 1)),
    ((8192, 64), (1,), (0, 1)),
    ((32, 64, 56, 56), (0, 2, 3), (0, 1, 2, 3)),
    ((32, 64, 56, 56), (0, 2, 3), (0, 2, 3, 1)),
    ((8, 3, 224, 224), (0, 2, 3), (0, 2, 3, 1)),
)
# Images, channels, size, outputs, kernel, stride.
_LAYERS = (
    (1, 3, 224, 64, 7, 2),
    (8, 64, 56, 64, 1, 1),
    (1, 256, 56, 64, 1, 1),
    (8, 64, 56, 64, 3, 1),
    (1, 128, 28, 128, 3, 1),
    (8, 128, 56, 128, 3, 2),
    (8, 256, 28, 1024, 1, 2),
    (1, 20, 5, 192, 3, 1),
    (5, 320, 5, 24, 1, 2),
    (2, 512, 7, 512, 3, 1),
    (32, 96, 13, 40, 3, 2),
    (8, 64, 28, 8, 5, 1),
)
# Images, channels, size, kernel, stride.
_DEPTHWISE = (
    (8, 144, 56, 3, 1),
    (1, 40, 7, 3, 2),
    (8, 72, 14, 3, 2),
    (2, 16, 38, 5, 2),
    (1, 960, 7, 5, 1),
    (4, 384, 14, 7, 1),
)
# Rows, columns, depth, form.
_PRODUCTS = (
    (1024, 1024, 1024, "NN"),
    (4113, 545, 862, "NN"),
    (22, 38, 1076, "NN"),
    (35, 52, 223, "NT"),
    (2, 320, 29, "NT"),
    (1, 4096, 1024, "NT"),
    (256, 64, 8192, "TN"),
    (28, 22, 41, "NT"),
    (2048, 16, 512, "TT"),
    (512, 512, 64, "NN"),
    (333, 77, 901, "NT"),
)


def problems():
    """(name, family, problem): layers in both formats, some gradients, products, other dtypes."""
    formats = ((False, "nchw"), (True, "nhwc"))
    for layer, (last, name) in itertools.product(_LAYERS, formats):
        images, channels, size, outputs, kernel, stride = layer
        words = f"conv {images}x{channels}x{size} {outputs}x{kernel}s{stride} {name}"
        what = dense_convolution(images, channels, size, outputs, kernel, stride=stride, last=last)
        yield words, CONVOLUTIONS, what
    for layer, (last, name) in itertools.product(_DEPTHWISE, formats):
        images, channels, size, kernel, stride = layer
        yield (
            f"depthwise {images}x{channels}x{size} {kernel}s{stride} {name}",
            CONVOLUTIONS,
            dense_convolution(
                images, channels, size, channels, kernel, groups=channels, stride=stride, last=last
            ),
        )
    for direction, (last, name) in itertools.product(("input", "weight"), formats):
        for images, channels, size, outputs, kernel, stride in _LAYERS[3:6:2]:
            what = dense_convolution(
                images, channels, size, outputs, kernel, stride=stride, last=last,
                direction=direction,
            )  # fmt: skip
            words = f"conv {direction} {images}x{channels}x{size} {outputs}x{kernel}s{stride}"
            yield f"{words} {name}", CONVOLUTIONS, what
        what = dense_convolution(8, 144, 28, 144, groups=144, last=last, direction=direction)
        yield f"depthwise {direction} 8x144x28 3s1 {name}", CONVOLUTIONS, what
    for m, n, k, form in _PRODUCTS:
        yield f"product {m}x{n}x{k} {form}", PRODUCTS, dense_product(m, n, k, form)
    for dtype, groups in ((np.float16, 1), (np.float64, 1), (np.int8, 1), (np.float32, 12)):
        what = dense_product(512, 256, 256, "NT", dtype=dtype, groups=groups)
        yield f"product 512x256x256 NT {np.dtype(dtype)} of {groups}", PRODUCTS, what
    for dtype in (np.float16, np.float64):
        what = dense_convolution(8, 64, 28, 64, dtype=dtype, last=True)
        yield f"conv 8x64x28 64x3s1 nhwc {np.dtype(dtype)}", CONVOLUTIONS, what

    for shape, axes, order in _REDUCTIONS:
        words = f"sum {'x'.join(map(str, shape))} along {axes} in memory by {order}"
        yield words, REDUCTIONS, dense_reduction(shape, axes=axes, order=order)


def decided(device, family, problem):
    """The strategies and tiles of one problem, in the order of the kernels."""
    if hasattr(problem, "direction"):
        problem = dataclasses.replace(problem, error=_ERROR)
    plan = family.plan(problem, DEVICES[device])
    return str(plan.choice or " ".join(kernel.code.name for kernel in plan.stages))


def lines():
    return [
        f"{device}: {name}: {decided(device, family, problem)}"
        for device in DEVICES
        for name, family, problem in problems()
    ]


def test_decisions_are_those_that_were_kept(request):
    found = lines()
    assert len(found) > 330
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text("\n".join(found) + "\n", encoding="utf-8")
    kept = GOLDEN.read_text(encoding="utf-8").splitlines()
    changed = [f"{new}\n    was {old}" for new, old in zip(found, kept, strict=False) if new != old]
    assert len(kept) == len(found), "other problems: pytest --update-golden writes them"
    assert not changed, "\n".join([f"{len(changed)} decisions changed:", *changed])


@pytest.mark.parametrize("kind", DEVICES)
def test_what_is_chosen_is_the_first_candidate(kind):
    some = [*problems()][::5]
    for name, family, problem in some:
        candidates = family.candidates(problem, DEVICES[kind])
        if candidates:  # else it is another family's
            assert family.plan(problem, DEVICES[kind]).choice == candidates[0], name
