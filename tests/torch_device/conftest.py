"""What tests of PyTorch's device share."""

import pytest


@pytest.fixture
def strict():
    """Nothing runs on the CPU."""
    import clprim.torch as ct

    ct.fallback("error")
    yield
    ct.fallback("warn")


@pytest.fixture(scope="module")
def operators():
    """PyTorch's samples of operators in float32, by name."""
    import torch
    from torch_conformance import operators

    return dict(operators(torch.float32))


@pytest.fixture
def compiles(strict):
    """Nothing runs on the CPU, `torch.compile` knows nothing yet, random numbers are known."""
    import torch

    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
