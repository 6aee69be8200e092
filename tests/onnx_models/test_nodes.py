"""A sample of ONNX's own cases of operators; ``python tests/onnx_suite.py`` runs all of them."""

import pytest

pytest.importorskip("onnx")

import onnx_suite

# Of 1,884 cases: others with every version of the list.
EVERY = 47


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("part", range(2))
def test_a_sample_of_onnx_cases(device, part):
    passed, wrong, _ = onnx_suite.run(onnx_suite.cases(EVERY, (part, 2)))
    assert not wrong, "\n".join(wrong)
    assert passed > 15
