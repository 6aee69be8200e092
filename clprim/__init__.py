"""Short strings become fast OpenCL kernels, on any vendor's device.

>>> import numpy as np, clprim as cp
>>> axpb = cp.Pointwise("y0 = x0 * w0 + x1;")
>>> axpb(cp.asarray(np.ones(3, np.float32)), cp.asarray(np.ones(3, np.float32)), 2.0).get()
array([3., 3., 3.], dtype=float32)
"""

import importlib
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as _np
from numpy import (
    complex64,
    complex128,
    e,
    float16,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from clprim import random
from clprim.arrays.array import Array
from clprim.arrays.creation import (
    array,
    asarray,
    empty,
    empty_like,
    from_dlpack,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from clprim.arrays.methods import INSTEAD
from clprim.arrays.sliding_windows import windows
from clprim.errors import (
    BuildError,
    ClprimError,
    DefinitionError,
    DeviceError,
    DTypeError,
    MissingNameError,
    ShapeError,
)
from clprim.gradients.check import check_gradient
from clprim.options import options
from clprim.primitives import arithmetic as _arithmetic  # noqa: F401 - gives arrays their operators
from clprim.primitives.grouped import Grouped
from clprim.primitives.pairs import Pairs
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction
from clprim.primitives.scan import Scan
from clprim.runtime.device import Device, current_device, devices, on, set_device, synchronize
from clprim.runtime.profile import profile
from clprim.runtime.stats import stats

if TYPE_CHECKING:
    from clprim.functions.creation import *  # noqa: F403
    from clprim.functions.elementwise import *  # noqa: F403
    from clprim.functions.linalg import *  # noqa: F403
    from clprim.functions.named import *  # noqa: F403
    from clprim.functions.order import *  # noqa: F403
    from clprim.functions.shape import *  # noqa: F403
    from clprim.functions.statistics import *  # noqa: F403
    from clprim.functions.types import *  # noqa: F403
    from clprim.graph.graph import Graph
    from clprim.graph.jit import jit
    from clprim.graph.value_and_grad import value_and_grad

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

bool = _np.bool_

# NumPy's functions, which are loaded when the first of them is asked for.
_FUNCTIONS = frozenset(
    """
    __array_namespace_info__ abs absolute acos acosh add all allclose amax amin angle any arange
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere
    array_equal asin asinh astype atan atan2 atanh atleast_1d atleast_2d average bincount
    bitwise_and bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor broadcast_arrays broadcast_shapes broadcast_to can_cast ceil clip concat
    concatenate conj copysign copyto cos cosh count_nonzero cumprod cumsum cumulative_prod
    cumulative_sum diag diagonal diff divide dot einsum equal erf erfc exp exp2 expand_dims
    expm1 eye fabs finfo flatnonzero flip fliplr flipud floor floor_divide fmax fmin greater
    greater_equal hstack hypot identity iinfo imag inner invert isclose isdtype isfinite isin
    isinf isnan left_shift less less_equal lgamma linspace log log10 log1p log2 logaddexp
    logical_and logical_not logical_or logical_xor matmul matrix_transpose matvec max
    maximum mean median meshgrid min minimum mod moveaxis multiply nan_to_num negative
    nextafter nonzero not_equal outer pad permute_dims positive pow power prod ptp ravel
    real reciprocal remainder repeat reshape result_type right_shift rint roll rot90 round
    rsqrt searchsorted sign signbit sin sinh sort split sqrt square squeeze stack std
    subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose tril
    triu true_divide trunc unique unique_all unique_counts unique_inverse unique_values
    unstack var vdot vecdot vstack where
    """.split()
)

# Likewise of whole computations, by their modules.
_COMPUTATIONS = {"Graph": "compiled", "jit": "jit", "value_and_grad": "value_and_grad"}

__all__ = [  # noqa: PLE0604
    "Array",
    "BuildError",
    "ClprimError",
    "DTypeError",
    "DefinitionError",
    "Device",
    "DeviceError",
    "Graph",
    "Grouped",
    "MissingNameError",
    "Pairs",
    "Pointwise",
    "Reduction",
    "Scan",
    "ShapeError",
    "__array_api_version__",
    "array",
    "asarray",
    "bool",
    "check_gradient",
    "complex64",
    "complex128",
    "current_device",
    "devices",
    "e",
    "empty",
    "empty_like",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "full_like",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "jit",
    "nan",
    "newaxis",
    "on",
    "ones",
    "ones_like",
    "options",
    "pi",
    "profile",
    "random",
    "set_device",
    "stats",
    "synchronize",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "value_and_grad",
    "windows",
    "zeros",
    "zeros_like",
    *_FUNCTIONS,
]


def _operators() -> Any:
    return importlib.import_module("clprim.ops")


if not TYPE_CHECKING:  # a type checker would take it for leave to use any name

    def __getattr__(name):  # noqa: ANN001, ANN202
        if name in _FUNCTIONS:
            found = getattr(importlib.import_module("clprim.functions"), name)
            globals()[name] = found
            return found
        if name == "ops":
            return _operators()
        if name == "fft":
            return importlib.import_module("clprim.functions.fourier")
        if name == "linalg":
            return importlib.import_module("clprim.functions.decompositions")
        if name == "llm":
            return importlib.import_module("clprim.llm")
        if name in _COMPUTATIONS:
            module = importlib.import_module(f"clprim.graph.{_COMPUTATIONS[name]}")
            globals()[name] = found = getattr(module, name)
            return found
        if name in ("torch", "onnx"):  # importing them needs packages, and torch registers a device
            raise MissingNameError(f"clprim.{name} is there after `import clprim.{name}`")
        if name.startswith("_"):
            raise AttributeError(f"module 'clprim' has no attribute {name!r}")
        if callable(getattr(_operators(), name, None)):
            instead = f"write ops.{name}, with `from clprim import ops`"
        else:
            near = get_close_matches(name, __all__, 1)
            instead = f"did you mean cp.{near[0]}?" if near else "cp.Pointwise makes kernels"
        raise MissingNameError(f"clprim has no {name!r}: {instead}")


def __dir__() -> list[str]:
    return sorted(__all__)


# Arrays find their methods here: see `clprim.arrays.methods`.
Array.namespace = sys.modules[__name__]
Array._functions, Array._operators = _FUNCTIONS, staticmethod(_operators)
Array.say_instead(INSTEAD)
Array.say_instead({name: f"write cp.{name}(x)" for name in _FUNCTIONS})
