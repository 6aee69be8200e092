"""The tables are the published networks: counts of layers, multiply-adds, parameters."""

import pytest

from clprim.tune.networks import NETWORKS, Layer


@pytest.mark.parametrize(
    ("name", "layers", "megamacs", "parameters"),
    [
        # Multiply-adds of one image, in millions, and weights: as the papers and torchvision's
        # table of models have them, less the fully connected layers, biases and norms.
        ("resnet50", 53, 4087, 23_454_912),
        ("vgg16", 13, 15347, 14_710_464),
        ("vgg19", 16, 19508, 20_018_880),
        ("alexnet", 5, 666, 2_332_704),
        ("googlenet", 57, 1582, 5_966_272),
        ("mobilenet", 9 + 4, 539, 3_139_584),
        ("mobilenet-v2", 35, 279, 2_125_536),
        ("blog", 1, 116, 36_864),
    ],
)
def test_totals(name, layers, megamacs, parameters):
    found = NETWORKS[name].layers
    assert sum(layer.count for layer in found) == layers
    macs = sum(layer.count * layer.flops(1) for layer in found) / 2e6
    assert round(macs) == megamacs
    weights = sum(
        layer.count * layer.filters * layer.channels // layer.groups * layer.kernel**2
        for layer in found
    )
    assert weights == parameters


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_distinct(name):
    layers = NETWORKS[name].layers
    assert len({layer.title for layer in layers}) == len(layers)
    followed = NETWORKS[name].followed
    assert len({layer.title for layer in followed}) == len(followed)
    if followed:
        assert sum(layer.count for layer in followed) == sum(layer.count for layer in layers)


@pytest.mark.parametrize(
    "name", ["vgg16", "alexnet", "mobilenet", "mobilenet-v2", "resnet50", "googlenet"]
)
def test_every_layer_is_fed_by_one_before_it(name):
    """Its channels and size come from a result, pooled by two or not, or from the image."""
    image, *layers = NETWORKS[name].layers
    joined = {192, 256, 480, 512, 528, 832} if name == "googlenet" else set()
    channels = {image.channels, image.filters} | joined
    sizes = {image.size, image.result_size}
    for layer in layers:
        channels.add(layer.filters)
        sizes |= {layer.size, layer.result_size}
    for layer in layers:
        assert layer.channels in channels
        assert layer.size in sizes


def test_a_layer():
    layer = Layer(6, 8, 3, 9, stride=2, padding=1, groups=2, count=4)
    assert layer.result_size == 5
    assert layer.title == "6→8 3×3 stride 2 groups 2 of 9²"
    assert layer.flops(10) == 2 * 10 * 8 * 25 * 3 * 9
