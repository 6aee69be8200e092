"""Tables hold the published networks and count rightly; references are the definition."""

import itertools

import numpy as np
import pytest

from bench.case import whole
from bench.cases.arithmetic import BLOCKS, DIRECTIONS, Conv, Gemm, gemm_cases, row_of
from bench.cases.memory import reduce_cases
from bench.cases.norm import norm_cases
from bench.cases.operators import MEMORY, ops_cases
from bench.options import defaults_of
from clprim.tune.depthwise import DEPTHWISE
from clprim.tune.networks import Layer

LAYER = Layer(6, 8, 3, 7, stride=2, padding=1, groups=2)
FULL = defaults_of("reduce", quick=False)


def test_the_reference_is_the_definition():
    x, w, g = (whole(s, seed=n) for n, s in enumerate([(2, 6, 7, 7), (8, 3, 3, 3), (2, 8, 4, 4)]))
    padded = np.zeros((2, 6, 9, 9), np.float32)
    padded[:, :, 1:8, 1:8] = x
    y = np.zeros((2, 8, 4, 4), np.float32)
    for n, f, i, j in np.ndindex(y.shape):
        first = 3 * (f // 4)
        window = padded[n, first : first + 3, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        y[n, f, i, j] = (window * w[f]).sum()
    forward, by_input, by_weight = (Conv(LAYER, 2, "contiguous", d).reference for d in DIRECTIONS)
    np.testing.assert_array_equal(forward(x, w), y)
    # A convolution is linear in either operand, and the gradients are its adjoints.
    product = (y * g).sum()
    assert (x * by_input(w, g)).sum() == product
    assert (w * by_weight(x, g)).sum() == product


def test_shapes():
    for direction in DIRECTIONS:
        job = Conv(LAYER, 2, "channels_last", direction)
        assert job.flops == 2 * (2 * 8 * 4 * 4) * 3 * 9
        data = row_of(job, "", job.memory_format).data()
        assert all(array.strides[1] == 4 for array in data.host)
        assert [a.strides for a in data.device] == [a.strides for a in data.host]
        result = {"forward": (2, 8, 4, 4), "input": (2, 6, 7, 7), "weight": (8, 3, 3, 3)}
        assert job.reference(*data.host).shape == result[direction]
    assert Gemm(2, 3, 5).shapes == ((2, 5), (5, 3))
    assert Gemm(2, 3, 5, True, True).shapes == ((5, 2), (3, 5))
    assert (Gemm(2, 3, 5, True, False).title, Gemm(2, 3, 5).flops) == ("2×3×5 TN", 60)


def test_the_table_of_products():
    titles = {case.title for case in gemm_cases(FULL)}
    assert {f"{n}×{n}×{n} NN" for n in (256, 4096, 511, 1025)} < titles
    assert {f"1000×1000×1000 {form}" for form in ("NN", "NT", "TN", "TT")} < titles
    assert {"4096×4096×16 NN", "64×64×65536 NN"} < titles


def test_blocks_follow_each_other():
    assert sum(block.count for block in BLOCKS) == 17
    for block, following in itertools.pairwise(BLOCKS):
        assert following.channels == block.filters
        assert following.size * block.stride == block.size
    weights = sum(
        block.count * layer.filters * (layer.channels // layer.groups) * layer.kernel**2
        for block in BLOCKS
        for layer in block.layers
    )
    # Of torchvision's 3,504,872 parameters: without the classifier, the last and the first
    # convolution, and two of normalisation a channel.
    assert weights == 3_504_872 - 1280 * 1000 - 1000 - 320 * 1280 - 3 * 32 * 9 - 2 * 17_056
    counts = {}
    for block in BLOCKS:
        title = block.layers[-2].title
        counts[title] = counts.get(title, 0) + block.count
    assert counts == {layer.title: layer.count for layer in DEPTHWISE["mobilenet-v2"].layers}


@pytest.mark.parametrize(
    ("name", "layers", "parameters"),
    [
        # Blocks of the papers' tables, and the weights of a layer each.
        ("mobilenet-v1", 13, 44_640),
        ("mobilenet-v2", 17, 64_224),
        ("mobilenet-v3", 15, 91_608),
        ("efficientnet-b0", 16, 182_016),
        ("convnext", 18, 324_576),
    ],
)
def test_totals_of_depthwise_networks(name, layers, parameters):
    found = DEPTHWISE[name].layers
    assert sum(layer.count for layer in found) == layers
    assert sum(layer.count * layer.channels * layer.kernel**2 for layer in found) == parameters


@pytest.mark.parametrize("name", DEPTHWISE)
def test_layers_are_depthwise_and_distinct(name):
    layers = DEPTHWISE[name].layers
    assert len({layer.title for layer in layers}) == len(layers)
    for layer in layers:
        assert layer.channels == layer.filters == layer.groups
        assert layer.result_size == -(-layer.size // layer.stride)
    if name == "deeplab":
        assert {layer.dilation for layer in layers} == {2, 4, 8, 12, 24}


def test_every_normalisation_of_the_networks():
    # Fifty-three and fifty-two convolutions, each with its normalisation.
    cases = norm_cases(FULL)
    for network, layers in (("ResNet-50", 53), ("MobileNetV2", 52)):
        groups = {case.group for case in cases if case.group.startswith(network)}
        assert len(groups) == 8
        for group in groups:
            assert sum(case.count for case in cases if case.group == group) == layers


@pytest.mark.parametrize(
    ("title", "nbytes", "limit"),
    [
        ("channels_last", 102_760_448 + 2 * 64 * 4, "read"),
        ("64×128×56×56, axis 0", 102_760_448 + 102_760_448 // 64, "read"),
        ("64×128×56×56, axis (2, 3)", 102_760_448 + 4 * 64 * 128, "read"),
        ("1×16777216, axis 0", 2 << 26, "copy"),  # sums of single elements are a copy
        ("1×16777216, axis 1", (1 << 26) + 4, "read"),
        ("67108865, axis 0", 4 * ((1 << 26) + 1) + 4, "read"),
        ("4095×4097, axis 1", 4 * 4095 * 4097 + 4 * 4095, "read"),
    ],
)
def test_bytes(title, nbytes, limit):
    (found,) = [case for case in reduce_cases(FULL) if case.title == title]
    assert (found.nbytes, found.limit) == (nbytes, limit)


def test_families_of_operators():
    families = {case.group for case in ops_cases(FULL)}
    assert families == {
        MEMORY, "moving memory", "pooling", "softmax", "cross_entropy", "interpolate", "gather",
        "scatter_add", "cumsum", "sort", "topk", "attention", "Adam",
    }  # fmt: skip
    assert all(case.limit for case in ops_cases(FULL) if case.group == MEMORY)
