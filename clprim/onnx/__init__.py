"""ONNX models on any OpenCL device.

>>> import clprim.onnx
>>> net = clprim.onnx.load("model.onnx")  # doctest: +SKIP
>>> net(image)                            # doctest: +SKIP
"""

from clprim.errors import MissingPackageError

try:
    import onnx as _onnx  # noqa: F401
except ImportError as _error:
    raise MissingPackageError(
        "clprim.onnx needs the onnx package: pip install clprim[onnx]"
    ) from _error

from clprim.onnx import backend, table
from clprim.onnx.net import Net, load

table.load()

__all__ = ["Net", "backend", "load"]
