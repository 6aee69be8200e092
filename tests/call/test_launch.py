"""What kernels are built with."""

from types import SimpleNamespace

import pyopencl as cl
import pytest

from clprim.call.launch import build_options
from clprim.traits import DeviceTraits

ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("is_cpu", "config", "asked"),
    [
        (False, cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT, True),
        (False, cl.device_fp_config.FMA, False),  # a compiler that would refuse the option
        (True, cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT, False),
    ],
)
def test_quotients_are_rounded_correctly_wherever_they_can_be(is_cpu, config, asked):
    device = SimpleNamespace(
        traits=DeviceTraits(is_cpu=is_cpu), cl=SimpleNamespace(single_fp_config=config)
    )
    code = SimpleNamespace(c_version=(1, 2), doubles=False, options=())
    assert (ROUNDED in build_options(code, device)) == asked
