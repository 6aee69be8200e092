"""Tinygrad, which generates OpenCL C too, made to use the very device that is measured."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from bench.peers.peer import Call, Inputs, Peer
from clprim.runtime.device import Device

if TYPE_CHECKING:
    from bench.work.conv import Conv
    from bench.work.gemm import Gemm


class TinyGrad(Peer):
    """A small framework that generates OpenCL C too; its jitted calls, on the same device."""

    name = "tinygrad"
    missing = "" if importlib.util.find_spec("tinygrad") else "tinygrad is not installed"
    remarks: ClassVar = {
        "gemm": "a `TinyJit` of `a @ b`, on the same device, without its search (BEAM)",
        "conv_forward": "a `TinyJit` of `conv2d`, on the same device, without its search (BEAM); "
        "it has no NHWC",
    }

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        if not self.missing:
            try:
                self._open()
            except Exception as error:  # whatever it may be, the others can still be measured
                self.missing = f"cannot use this device: {error}"

    def _open(self) -> None:
        """Make tinygrad use this very device; by itself it takes the first one of all."""
        import tinygrad
        from tinygrad.runtime import ops_cl

        handle = ops_cl.cl.cl_device_id
        here = ctypes.cast(self.device.cl.int_ptr, handle)
        ops_cl.CLDevice.device_ids = (handle * 1)(here)
        self._runtime = tinygrad.Device["CL"]

    def _jit(self, compute: Callable[..., Any], inputs: Inputs) -> Call:
        from tinygrad import Tensor, TinyJit

        tensors = [Tensor(array, device="CL").realize() for array in inputs.host]
        call = TinyJit(lambda *operands: compute(*operands).realize())
        for _ in range(2):  # the first call compiles, the second one records
            call(*tensors)
        return lambda: call(*tensors)

    def gemm(self, workload: Gemm, inputs: Inputs) -> Call:
        """A lazy transpose costs it nothing by itself."""

        def product(a: Any, b: Any) -> Any:
            return (a.T if workload.transpose_a else a) @ (b.T if workload.transpose_b else b)

        return self._jit(product, inputs)

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Call | None:
        """NCHW only."""
        if workload.memory_format == "channels_last":
            return None
        return self._jit(lambda x, w: x.conv2d(w, **workload.options), inputs)

    def finish(self) -> None:
        """Wait for its own queue."""
        self._runtime.synchronize()
