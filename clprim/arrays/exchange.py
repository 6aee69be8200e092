"""Exchange with other libraries by DLPack, NumPy's protocol and pickle.

The memory of a CPU device is the host's: NumPy, PyTorch and others see it without a copy. All
other memory, a GPU's here or theirs, goes through the host.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from clprim.arrays.host import host_view
from clprim.arrays.validation import checked
from clprim.dtypes import NO_ARRAY, bfloat16
from clprim.errors import DTypeError, ExchangeError, quoted
from clprim.plan.strides import memory_order

# DLDeviceType, of dlpack.h.
_CPU, _CUDA_HOST, _OPENCL, _ROCM_HOST = 1, 3, 4, 11
_HOSTS = (_CPU, _CUDA_HOST, _ROCM_HOST)
# DLDataTypeCode: of unsigned integers and bfloat16.
_UINT, _BFLOAT = 1, 4


class Exchange:
    """What other libraries ask of an array."""

    @checked
    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        try:
            dtype = None if dtype is None else np.dtype(dtype)
        except NO_ARRAY:
            raise DTypeError(f"{quoted(dtype)} is no dtype of NumPy's") from None
        if not copy:
            view = host_view(self)
            if view is not None and dtype in (None, view.dtype):
                return view
            if copy is False:
                raise ExchangeError(
                    f"{self._place()} cannot become a NumPy array without a copy: use get()"
                )
        found = self.get()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        """Returns DLPack's (kind, number) of the memory: the host's for CPU devices."""
        device = self.device
        return (_CPU, 0) if device.type == "cpu" else (_OPENCL, device.index)

    @checked
    def __dlpack__(
        self: Any,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a DLPack capsule of the host's memory, after everything launched is done.

        Where steps through memory are negative it is a copy: few libraries' arrays can have such.
        """
        backwards = min(self.strides, default=0) < 0
        if backwards and copy is False:
            raise ExchangeError(
                f"strides of {self.strides} bytes run backwards, which other libraries' arrays "
                "cannot: x.copy() has none such"
            )
        view = None if copy or backwards else host_view(self)
        if view is None:
            on_host = self.device.type == "cpu" or (dl_device or (0,))[0] == _CPU
            if not on_host or (copy is False and self.size):
                raise ExchangeError(
                    f"{self._place()} is not exchanged without a copy: x.get() downloads, and "
                    'from_dlpack(x, device="cpu") where a library has that'
                )
            view = self.get()
        if view.dtype.name == "bfloat16":
            capsule = view.view(np.uint16).__dlpack__()
            _dtype_code(capsule)[0] = _BFLOAT
            return capsule
        if max_version is None or np.lib.NumpyVersion(np.__version__) < "2.1.0":
            return view.__dlpack__()
        return view.__dlpack__(max_version=max_version)

    def _place(self: Any) -> str:
        return f"an array on {self.device}"

    # --- pickle ----------------------------------------------------------------------------------

    def __reduce__(self: Any) -> tuple[Any, ...]:
        order = memory_order(self.shape, [self.strides])
        return type(self)._unpickled, (self.get().transpose(order), order)

    @classmethod
    def _unpickled(cls: Any, host: np.ndarray[Any, Any], order: tuple[int, ...]) -> Any:
        return cls.namespace.asarray(host.transpose(np.argsort(order)))

    def __copy__(self: Any) -> Any:
        return self.copy()

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return self.copy(order="K")


class _Capsule:
    """A capsule as an object, as NumPy takes it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def host_array(given: Any) -> np.ndarray[Any, Any]:
    """What another library's array holds as a NumPy array: its own memory if on the host."""
    try:
        if given.__dlpack_device__()[0] in _HOSTS:
            return _of_host(given)
        try:
            return _of_host(_Capsule(given.__dlpack__(dl_device=(_CPU, 0), copy=True)))
        except (TypeError, ValueError, BufferError, RuntimeError):
            # Libraries from before that protocol: CuPy downloads by get, PyTorch by cpu.
            download = getattr(given, "get", None) or getattr(given, "cpu", None)
            if download is None:
                raise
            found = download()
            return found if isinstance(found, np.ndarray) else _of_host(found)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        kind = DTypeError if "dtype" in str(error) else ExchangeError
        raise kind(f"{type(given).__module__}.{type(given).__name__}: {error}") from error


def _of_host(given: Any) -> np.ndarray[Any, Any]:
    try:
        return np.from_dlpack(given)
    except (BufferError, RuntimeError) as error:
        if "dtype" not in str(error).lower():
            raise
        capsule = given.__dlpack__()
        code = _dtype_code(capsule)
        if code[0] != _BFLOAT or code[1] != 16:
            raise
        code[0] = _UINT  # NumPy's own reader knows no bfloat16
        return np.from_dlpack(_Capsule(capsule)).view(bfloat16())


def _dtype_code(capsule: Any) -> Any:
    """Returns the bytes of the DLDataType in a capsule without a version: code, bits, lanes."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # After the pointer to the data, the device (2 × 4 bytes) and the number of dimensions (4).
    return (ctypes.c_uint8 * 4).from_address(pointer(capsule, b"dltensor") + 20)
