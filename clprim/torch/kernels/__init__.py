"""PyTorch's overloads, a family a file, each a few lines over `clprim.ops`."""

import pkgutil
from importlib import import_module

# To import a family is to fill the table of kernels with its overloads.
for _family in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")
