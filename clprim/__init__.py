"""Short strings become fast OpenCL kernels, on any vendor's device.

>>> import numpy as np, clprim as cp
>>> axpb = cp.Pointwise("y0 = x0 * w0 + x1;")
>>> axpb(cp.asarray(np.ones(3, np.float32)), cp.asarray(np.ones(3, np.float32)), 2.0).get()
array([3., 3., 3.], dtype=float32)
"""

from clprim import random
from clprim.arrays import arithmetic as _arithmetic  # noqa: F401 - gives arrays their operators
from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, empty, full, zeros
from clprim.arrays.windows import windows
from clprim.errors import (
    BuildError,
    ClprimError,
    DefinitionError,
    DeviceError,
    DTypeError,
    ShapeError,
)
from clprim.gradients.check import check_gradient
from clprim.grouped import Grouped
from clprim.options import options
from clprim.pointwise import Pointwise
from clprim.reduction import Reduction
from clprim.runtime.device import Device, current_device, devices, set_device, synchronize
from clprim.runtime.profile import profile
from clprim.runtime.stats import stats
from clprim.scan import Scan

__version__ = "0.1.0"

__all__ = [
    "Array",
    "BuildError",
    "ClprimError",
    "DTypeError",
    "DefinitionError",
    "Device",
    "DeviceError",
    "Grouped",
    "Pointwise",
    "Reduction",
    "Scan",
    "ShapeError",
    "asarray",
    "check_gradient",
    "current_device",
    "devices",
    "empty",
    "full",
    "options",
    "profile",
    "random",
    "set_device",
    "stats",
    "synchronize",
    "windows",
    "zeros",
]
