"""NumPy's functions for device arrays, under NumPy's and the Python Array API's names.

The package shows them as its own (`clprim.exp`), arrays as methods, and NumPy's functions find
them by name. Each is a line or two over the operators, whose names and arguments are PyTorch's.
"""

from clprim.call.validation import check_arguments
from clprim.functions import creation, elementwise, linalg, named, order, reduction, shape, types
from clprim.functions.creation import *  # noqa: F403
from clprim.functions.elementwise import *  # noqa: F403
from clprim.functions.linalg import *  # noqa: F403
from clprim.functions.named import *  # noqa: F403
from clprim.functions.order import *  # noqa: F403
from clprim.functions.reduction import *  # noqa: F403
from clprim.functions.shape import *  # noqa: F403
from clprim.functions.types import *  # noqa: F403

__all__: list[str] = []
__all__ += creation.__all__
__all__ += elementwise.__all__
__all__ += linalg.__all__
__all__ += named.__all__
__all__ += order.__all__
__all__ += reduction.__all__
__all__ += shape.__all__
__all__ += types.__all__

check_arguments(globals(), __all__)
