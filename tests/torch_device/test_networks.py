"""Networks without convolutions alone: outputs and gradients, with no fallback.

`tests/torch_networks.py` compares those of torchvision, by hand.
"""

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", ["U-Net", "nn.LSTM", "nn.GRU", "nn.Transformer"])
def test_outputs_and_gradients(name):
    from torch_models import NETWORKS
    from torch_networks import compare

    for _, outcome in compare(NETWORKS[name], ("NHWC",), double=False):
        assert outcome.right, outcome


def test_random_numbers_can_be_drawn_again():
    state = torch.opencl.get_rng_state()
    first = torch.rand(5, device="opencl").tolist()
    torch.opencl.set_rng_state(state)
    assert torch.rand(5, device="opencl").tolist() == first
    torch.opencl.manual_seed(3)
    again = torch.rand(5, device="opencl").tolist()
    torch.manual_seed(3)
    assert torch.rand(5, device="opencl").tolist() == again != first
    assert torch.opencl.initial_seed() == 3
