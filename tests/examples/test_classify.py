"""The example that classifies photographs: right classes, and folding that changes nothing else."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import clprim as cp

FILE = Path(__file__).parents[2] / "examples" / "classify.py"
# Egyptian cat, espresso, space shuttle.
CLASSES = [285, 967, 812]

pytestmark = [pytest.mark.optimised, pytest.mark.alone]  # CI runs the script on others


@pytest.fixture(scope="module")
def example():
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("classify", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["classify"] = module
    spec.loader.exec_module(module)
    if importlib.util.find_spec(module.PACKAGE) is None:
        pytest.skip("the package with the weights is not installed")
    pytest.importorskip("torch")
    pytest.importorskip("skimage")
    return module


@pytest.mark.parametrize("memory_format", ["channels_last", "contiguous"])
def test_photographs_are_recognised_and_folding_agrees(device, example, memory_format):
    weights = example.load_weights()
    x = cp.asarray(example.photographs(), memory_format=memory_format)
    trained, folded = (example.mobilenet_v2(weights, fold=fold)(x).get() for fold in (False, True))
    assert list(trained.argmax(axis=1)) == CLASSES
    assert list(folded.argmax(axis=1)) == CLASSES
    assert np.abs(trained - folded).max() < 1e-4


def test_folding_leaves_convolutions_alone(device, example):
    weights = example.load_weights()
    x = cp.asarray(example.photographs(("coffee",)), memory_format="channels_last")
    launches = []
    for fold in (False, True):
        network = example.mobilenet_v2(weights, fold=fold)
        network(x)
        with cp.profile() as profile:
            network(x)
        launches.append([event.name for event in profile.events])
    trained, folded = launches
    assert trained.count("batch_norm") == trained.count("conv2d") == 52
    assert sorted({*folded}) == ["conv2d", "matmul", "mean"]
    assert len(folded) == 54
