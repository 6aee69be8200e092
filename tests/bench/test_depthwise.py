"""The tables of depthwise layers are the published networks', and their rows depthwise layers."""

from unittest import mock

import numpy as np
import pytest

import clprim as cp
from bench.peers.peer import Inputs
from bench.work.conv import Conv
from bench.work.depthwise import DEPTHWISE, Grouped, depthwise_jobs
from clprim.call.launch import Launch


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
def test_totals(name, layers, parameters):
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


def test_rates_of_deeplab():
    assert {layer.dilation for layer in DEPTHWISE["deeplab"].layers} == {2, 4, 8, 12, 24}
    assert "dilation 24" in DEPTHWISE["deeplab"].layers[-1].title


@pytest.mark.parametrize("direction", ["forward", "input", "weight"])
def test_the_reference_is_what_clprim_computes(direction):
    device = cp.current_device()
    jobs = depthwise_jobs(device, networks=["deeplab"], directions=[direction], quick=True)
    for job in jobs:
        inputs = Inputs(job)
        call = getattr(Grouped.__mro__[1](device), job.op)(job, inputs)
        np.testing.assert_array_equal(call().get(), job.reference(inputs))


def test_grouped_products_compute_the_same():
    device = cp.current_device()
    (job, *_) = depthwise_jobs(device, networks=["mobilenet-v2"], quick=True)
    assert isinstance(job, Conv)
    inputs = Inputs(job)
    with mock.patch.object(Launch, "__init__", autospec=True, side_effect=Launch.__init__) as made:
        found = Grouped(device).conv_forward(job, inputs)()
        planned = [call.args[2].template for call in made.call_args_list]
    np.testing.assert_array_equal(found.get(), job.reference(inputs))
    assert any(name.startswith("product/") for name in planned), planned
    assert not any(name.startswith("depthwise/") for name in planned), planned
