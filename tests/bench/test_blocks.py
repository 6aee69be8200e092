"""The blocks are MobileNetV2's, and everybody computes the same of them."""

import itertools

import numpy as np
import pytest

import clprim as cp
from bench.peers.compute import OneDNN, Packing, Packs, Prepacked, fetch
from bench.peers.peer import Inputs
from bench.work.blocks import BLOCKS, Separate, block_jobs
from bench.work.depthwise import DEPTHWISE, Grouped


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


def test_their_depthwise_layers_are_those_of_the_other_table():
    counts = {}
    for block in BLOCKS:
        layer = block.layers[-2]
        counts[layer.title] = counts.get(layer.title, 0) + block.count
    assert counts == {layer.title: layer.count for layer in DEPTHWISE["mobilenet-v2"].layers}


@pytest.mark.parametrize("kind", [Packs, Separate, OneDNN, Prepacked], ids=lambda kind: kind.name)
def test_peers_compute_the_same(kind):
    device = cp.current_device()
    for job in block_jobs(device, quick=True):
        peer, inputs = kind(device), Inputs(job)
        call = peer.prepare(job, inputs)
        if peer.missing:
            pytest.skip(peer.missing)
        if call is None:
            assert kind is Prepacked and job.memory_format == "contiguous"
            continue
        call()
        found = call()
        peer.finish()
        np.testing.assert_array_equal(fetch(found), job.reference(inputs))


def test_who_has_no_such_call():
    device = cp.current_device()
    job = block_jobs(device, quick=True)[0]
    assert all(kind(device).prepare(job, Inputs(job)) is None for kind in (Grouped, Packing))
