"""NumPy's functions for device arrays, under NumPy's and the Python Array API's names.

The package names them and shows them as its own (`clprim.exp`), arrays as methods, and NumPy's
functions find them. Each is a line or two over the operators, whose arguments are PyTorch's.
"""

from clprim.arrays.array import Array
from clprim.arrays.validation import check_arguments
from clprim.functions import creation, elementwise, linalg, named, order, shape, statistics, types

__all__ = sorted(Array.namespace._FUNCTIONS)  # noqa: PLE0605
globals().update(
    {
        name: vars(module)[name]
        for module in (creation, elementwise, linalg, order, shape, statistics, types, named)
        for name in vars(module).keys() & Array.namespace._FUNCTIONS
    }
)

check_arguments(globals(), __all__)
