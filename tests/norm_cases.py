"""What tests of normalisations share."""

import numpy as np
from support import wide

import clprim as cp

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def upload(host, memory_format="contiguous"):
    if host is None:
        return None
    return cp.asarray(host, memory_format=memory_format if host.ndim == 4 else None)


def close(found, expected, dtype, factor=1.0):
    """Equal but for some units in the last place of ``dtype``, of values of order ``factor``."""
    unit = UNIT[np.dtype(dtype).name]
    found = wide(found.get()).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=8 * unit, atol=32 * unit * factor)
