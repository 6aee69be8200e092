"""Who computes the same: NumPy, PyTorch and PyOpenCL's own kernels; and clprim itself.

Each library is one class whose methods, named after the operations of `workloads.RESULTS`, return
a function without arguments that computes the workload once, or None where the library cannot.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import pyopencl.array as cl_array

import clprim as cp
from bench.work.workloads import FLOAT, RESULTS, Workload
from clprim.runtime.device import Device

Call = Callable[[], Any]

#: w0, wherever there is one.
SCALAR = 2.0

_LARGEST = 4


class Inputs:
    """The arrays that a workload works on, filled.

    They hold small integers: sums up to 2²⁴ are exact in float32, whatever the order, so that
    results can be compared for equality.

    Attributes:
        host: NumPy arrays.
        device: The same as arrays of clprim.
    """

    def __init__(self, workload: Workload) -> None:
        random = np.random.default_rng(0)
        self.host = []
        for shape in workload.shapes:
            small = random.integers(-_LARGEST, _LARGEST + 1, math.prod(shape), np.int8)
            array = small.astype(np.float32)
            if workload.memory_format == "channels_last":
                n, c, h, w = shape
                self.host.append(array.reshape(n, h, w, c).transpose(0, 3, 1, 2))
            else:
                self.host.append(array.reshape(shape))
        self.device = [cp.asarray(array) for array in self.host]


class Peer:
    """A library.

    Attributes:
        name: For the tables.
        missing: Why it is not here; empty where it is.
        remarks: What is called for an operation, for the notes beneath the tables.
        error: Relative root mean square error that its results may have.
    """

    name = ""
    error = 0.0
    missing = ""
    remarks: ClassVar[dict[str, str]] = {}

    def __init__(self, device: Device) -> None:
        self.device = device

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        """Return what computes the workload once, or None where this library cannot."""
        if self.missing:
            return None
        make = getattr(self, workload.op, None)
        return None if make is None else make(workload, inputs)

    def finish(self) -> None:
        """Wait until what was called is done; nothing, for a library that waits by itself."""

    def note(self, ops: Iterable[str]) -> str:
        """Say what the numbers are of, where these operations were measured, or why none are."""
        calls = [self.remarks[op] for op in dict.fromkeys(ops) if op in self.remarks]
        return f"{self.name}: {self.missing or '; '.join(calls) or 'has no such call'}"


class Clprim(Peer):
    """This project, with results into memory that is there."""

    name = "clprim"

    def prepare(self, workload: Workload, inputs: Inputs) -> Call:
        """Return the call; it returns the result, too."""
        op = definition(workload.op)
        arguments = (*inputs.device, SCALAR) if workload.op == "axpb" else tuple(inputs.device)
        options = {"axis": workload.axes} if workload.axes else {}
        out = op(*arguments, **options)
        return lambda: op(*arguments, out=out, **options)

    def finish(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


def definition(op: str) -> Any:
    """Return clprim's kernel for an operation."""
    if op == "axpb":
        return cp.Pointwise("y0 = x0 * w0 + x1;", name="axpb")
    results = range(RESULTS[op])
    return cp.Reduction(
        " ".join(("y0 = x0;", "y1 = x0 * x0;")[n] for n in results),
        init=" ".join(f"reduce_y{n} = 0;" for n in results),
        step=" ".join(f"reduce_y{n} += y{n};" for n in results),
        name=op,
    )


class NumPy(Peer):
    """One thread; its results are the reference."""

    name = "NumPy"
    remarks: ClassVar = {
        "axpb": "`multiply`, then `add`, both with `out=`",
        "sum": "`x.sum(axis)`",
        "moments": "`x.sum(axis)` and `(x * x).sum(axis)`",
    }

    def axpb(self, workload: Workload, inputs: Inputs) -> Call:
        """Two passes, the second one in place."""
        x, b = inputs.host
        y = np.zeros(workload.result_shape, np.float32)

        def call() -> np.ndarray[Any, Any]:
            np.multiply(x, np.float32(SCALAR), out=y)
            return np.add(y, b, out=y)

        return call

    def sum(self, workload: Workload, inputs: Inputs) -> Call:
        """One pass."""
        (x,) = inputs.host
        return lambda: x.sum(axis=workload.axes)

    def moments(self, workload: Workload, inputs: Inputs) -> Call:
        """Three passes."""
        (x,) = inputs.host
        axes = workload.axes
        return lambda: (x.sum(axis=axes), (x * x).sum(axis=axes))


class PyTorch(Peer):
    """All threads of the CPU, whatever the device; it shares NumPy's memory."""

    name = "PyTorch"
    missing = "" if importlib.util.find_spec("torch") else "torch is not installed"
    remarks: ClassVar = {
        "axpb": "`torch.add` with `alpha=` and `out=`, on the CPU",
        "sum": "`torch.sum`, on the CPU",
        "moments": "`torch.var_mean`, on the CPU",
    }

    def axpb(self, workload: Workload, inputs: Inputs) -> Call:
        """One pass."""
        import torch

        x, b = map(torch.from_numpy, inputs.host)
        y = torch.zeros(workload.result_shape)
        return lambda: torch.add(b, x, alpha=SCALAR, out=y)

    def sum(self, workload: Workload, inputs: Inputs) -> Call:
        """One pass."""
        import torch

        x = torch.from_numpy(inputs.host[0])
        return lambda: torch.sum(x, dim=workload.axes)

    def moments(self, workload: Workload, inputs: Inputs) -> Call:
        """Mean and variance instead: what Σx, Σx² are wanted for."""
        import torch

        x = torch.from_numpy(inputs.host[0])
        return lambda: torch.var_mean(x, dim=workload.axes)


class PyOpenCLKernels(Peer):
    """`ElementwiseKernel`, and `ReductionKernel` where everything is reduced, on this device."""

    name = "PyOpenCL"
    missing = "" if importlib.util.find_spec("mako") else "PyOpenCL's kernels need mako"
    remarks: ClassVar = {
        "axpb": "`ElementwiseKernel`, on the same device",
        "sum": "`ReductionKernel`, which has no axes, on the same device",
    }

    def axpb(self, workload: Workload, inputs: Inputs) -> Call:
        """One pass; it does not broadcast, but a single element can be indexed."""
        from pyopencl.elementwise import ElementwiseKernel

        x, b = (_plain(array) for array in inputs.device)
        z = cl_array.zeros(x.queue, workload.result_shape, np.float32)
        kernel = ElementwiseKernel(
            self.device.context,
            "float *z, const float *x, const float *b, float w",
            f"z[i] = x[i] * w + b[{'0' if b.size == 1 else 'i'}]",
        )
        scalar = np.float32(SCALAR)

        def call() -> cl_array.Array:
            kernel(z, x, b, scalar)
            return z

        return call

    def sum(self, workload: Workload, inputs: Inputs) -> Call | None:
        """One pass."""
        if workload.written_bytes > FLOAT:
            return None
        from pyopencl.reduction import ReductionKernel

        x = _plain(inputs.device[0]).reshape(-1)
        kernel = ReductionKernel(
            self.device.context,
            np.float32,
            neutral="0",
            reduce_expr="a + b",
            map_expr="x[i]",
            arguments="const float *x",
        )
        return lambda: kernel(x)

    def finish(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


class PyOpenCLArrays(Peer):
    """`pyopencl.array`, on this device."""

    name = "cl.array"
    missing = PyOpenCLKernels.missing
    remarks: ClassVar = {
        "axpb": "`x * w + b` of `pyopencl.array`, on the same device",
        "sum": "`pyopencl.array.sum`, which has no axes, on the same device",
    }

    def axpb(self, workload: Workload, inputs: Inputs) -> Call | None:
        """Two passes, with memory from clprim's pool; it broadcasts numbers only."""
        if len(set(workload.shapes)) > 1:
            return None
        x, b = (_plain(array) for array in inputs.device)
        scalar = np.float32(SCALAR)
        return lambda: x * scalar + b

    def sum(self, workload: Workload, inputs: Inputs) -> Call | None:
        """One pass."""
        if workload.written_bytes > FLOAT:
            return None
        x = _plain(inputs.device[0]).reshape(-1)
        return lambda: cl_array.sum(x)

    def finish(self) -> None:
        """Wait for the device."""
        self.device.synchronize()


def available_peers(device: Device) -> list[Peer]:
    """Return all peers, those that are missing included: their columns say so."""
    return [kind(device) for kind in (NumPy, PyTorch, PyOpenCLKernels, PyOpenCLArrays)]


def _plain(array: cp.Array) -> cl_array.Array:
    """Return the same memory as an array of PyOpenCL's own class, with its own operators."""
    return cl_array.Array(
        array.queue, array.shape, array.dtype, allocator=array.allocator, data=array.base_data
    )
