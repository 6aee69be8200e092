"""Tensors on ``opencl:1``, in a process of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402


@pytest.mark.usefixtures("unoptimised")
def test_tensors_on_a_second_device():
    others = [d for d in cp.devices() if d != cp.current_device()]
    if not others or not others[0].compiles:
        pytest.skip("needs a second device")
    script = Path(__file__).with_name("further_devices.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "all of it holds" in done.stdout


def test_numbers_that_there_are_none_of():
    count = len(cp.devices())
    assert torch.opencl.device_count() == count
    for call in (
        lambda: torch.empty(2, device=f"opencl:{count}"),
        lambda: torch.ones(2).to(f"opencl:{count}"),
        lambda: torch.opencl.get_device_name(count),
        lambda: torch.Generator(f"opencl:{count}"),
    ):
        with pytest.raises(cp.DeviceError, match=f"opencl:{count}: there is no such device"):
            call()
    with pytest.raises(cp.DeviceError, match="expected a number or opencl"):
        torch.opencl.synchronize("cpu")


def test_the_first_device_is_what_the_name_alone_stands_for():
    torch.opencl.set_device(0)
    assert torch.opencl.current_device() == 0
    if torch.opencl.device_count() > 1:
        with pytest.raises(cp.DeviceError, match=r'write "opencl:1" where tensors are made'):
            torch.opencl.set_device("opencl:1")


def test_generators_of_the_device():
    import copy
    import pickle

    ct.fallback("error")
    generator = torch.Generator("opencl").manual_seed(5)
    assert isinstance(generator, torch.Generator)
    assert (generator.device.type, generator.initial_seed()) == ("opencl", 5)
    state = generator.get_state()
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    twins.append(generator.clone_state())
    first = torch.randn(4, device="opencl", generator=generator).tolist()
    generator.set_state(state)
    for g in (generator, *twins):
        assert g.device.type == "opencl"
        assert torch.randn(4, device="opencl", generator=g).tolist() == first
    assert torch.Generator().device.type == torch.Generator(device="cpu").device.type == "cpu"
    ct.fallback("warn")
