"""Convolutions are compared by equality, so sums of products compute them."""

import pytest

import clprim as cp


@pytest.fixture(autouse=True)
def exact_sums():
    with cp.options(convolution_error=0):
        yield
