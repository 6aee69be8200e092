"""What `value_and_grad` says of functions that make complex numbers on the way."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

COMPLEX = {
    "spectrum": lambda x: abs(ops.fft.rfft(x)).sum(),
    "there and back": lambda x: ops.fft.irfft(2 * ops.fft.rfft(x)).sum(),
    "frames": lambda x: abs(ops.stft(x, 4, return_complex=True)).sum(),
    "part": lambda x: (x * 1j).imag.sum(),
    "cast": lambda x: abs(x.astype(np.complex64)).sum(),
    "string": lambda x: cp.Pointwise("y0 = complex(x0, x0);")(x).real.sum(),
    "product": lambda x: abs(ops.matmul(x.reshape(2, 4), (x * 1j).reshape(4, 2))).sum(),
}


@pytest.mark.parametrize("function", COMPLEX.values(), ids=COMPLEX)
def test_no_gradient_is_lost_in_complex_numbers(device, function):
    x = cp.asarray(np.arange(1, 9, dtype=np.float32))
    with pytest.raises(cp.DefinitionError, match="complex numbers, through which no gradient"):
        cp.value_and_grad(function, wrt=0)(x)


def test_complex_constants_let_gradients_pass(device):
    x, z = cp.asarray(np.float32([1, 2])), cp.asarray(np.complex64([3 + 4j, 1j]))
    _, found = cp.value_and_grad(lambda x: (x * abs(z)).sum(), wrt=0)(x)
    np.testing.assert_array_equal(found.get(), [5, 1])
