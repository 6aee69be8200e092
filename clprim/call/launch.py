"""From a plan to a kernel that is bound to its arguments but for buffers and scalars."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from clprim.errors import DeviceError, ShapeError, quoted
from clprim.plan.kernel import Argument, Buffer, KernelCode, KernelPlan, Parameter, Scalar
from clprim.render import apart
from clprim.runtime.device import Device
from clprim.runtime.program import cl_std_option, kernel_of
from clprim.runtime.source_cache import source_of
from clprim.runtime.stats import counters

# Of every buffer of a kernel: which argument it is, and where it lies in a list.
Places = tuple[tuple[int, int], ...]

# Formats of pairs of floats, which `struct` has none for.
_PAIRS = {b"F": np.complex64, b"D": np.complex128}
_POINTER = 8  # bytes, also for a host of 32 bits: its devices have as many


def build_options(code: KernelCode, device: Device) -> tuple[str, ...]:
    """Returns the options that a kernel is built with on a device."""
    options = [cl_std_option(device.traits, code.c_version), *code.options]
    if not code.doubles:
        # 0.5 in a snippet over float32 is a float32, as a Python 0.5 is beside a NumPy array.
        options.append("-cl-single-precision-constant")
    exact = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    if not device.traits.is_cpu and device.cl.single_fp_config & exact:
        # Quotients and roots as IEEE 754 and NumPy have them; processors compute no others.
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return tuple(options)


def _require_room(device: Device, plan: KernelPlan, title: str) -> None:
    """Refuses a kernel with more arguments than the device promises to take.

    Compilers take minutes for thousands, and some abort the process.
    """
    kinds = [parameter.format for parameter in plan.code.parameters]
    needed = sum(map(_size, kinds))
    most = device.cl.max_parameter_size
    if needed > most:
        memory = kinds.count("")
        raise DeviceError(
            f"{title}: the kernel takes {memory} arrays and {len(kinds) - memory} numbers, "
            f"{needed:,} bytes of arguments; {device.name} takes {most:,} at most: compute "
            "fewer results at once"
        )


def _size(kind: str) -> int:
    """Bytes of an argument."""
    if not kind:
        return _POINTER
    pair = _PAIRS.get(kind.encode())
    return struct.calcsize(f"={kind}") if pair is None else np.dtype(pair).itemsize


def _byte(value: float, format_: bytes) -> int:
    """Returns a number of 8 bits as an int; pyopencl takes no NumPy bool, and checks no range."""
    number = int(value)
    low = -128 if format_ == b"b" else 0
    if not low <= number < low + 256:
        raise OverflowError(f"{number} does not fit 8 bits")
    return number


class Launch:
    """One kernel with its sizes and strides bound; a call sets buffers and scalars and enqueues."""

    __slots__ = (
        "_device",
        "_global",
        "_kernel",
        "_local",
        "_name",
        "_positions",
        "_scalars",
        "_set_arg",
        "_set_number",
        "_snippets",
        "_title",
        "buffers",
        "plan",
        "written",
    )

    def __init__(
        self,
        device: Device,
        plan: KernelPlan,
        *,
        title: str,
        snippets: Mapping[str, str],
        later: bool = False,
    ) -> None:
        _require_room(device, plan, title)
        self._device, self.plan, self._title, self._snippets = device, plan, title, snippets
        self._name = plan.code.name
        self._global, self._local = plan.global_size, plan.local_size
        self._kernel: Any = None
        memory = [
            (position, argument.name, not parameter.read_only)
            for position, (parameter, argument) in enumerate(self._arguments())
            if isinstance(argument, Buffer)
        ]
        self._positions = tuple(position for position, _, _ in memory)
        self.buffers = tuple(name for _, name, _ in memory)
        self.written = tuple(written for _, _, written in memory)
        self._scalars = tuple(
            (position, argument.number, parameter.format.encode())
            for position, (parameter, argument) in enumerate(self._arguments())
            if isinstance(argument, Scalar)
        )
        if not later:
            self.build()

    def _arguments(self) -> Iterator[tuple[Parameter, Argument]]:
        return zip(self.plan.code.parameters, self.plan.arguments, strict=True)

    @property
    def program(self) -> tuple[str, tuple[str, ...]]:
        """What is built: its text and the compiler's options."""
        code, device = self.plan.code, self._device
        source = source_of(self.plan.template, code)
        if not device.traits.own_ways:
            source = apart(source)
        return source, build_options(code, device)

    @property
    def is_built(self) -> bool:
        """Whether the kernel is there."""
        return self._kernel is not None

    def build(self) -> None:
        """Builds the kernel and sets its sizes and strides, where that was left for later."""
        if self._kernel is not None:
            return
        device, title, lines = self._device, self._title, self._snippets
        kernel = kernel_of(device, *self.program, self._name, title=title, lines=lines)
        self._set_arg = kernel.set_arg
        # pyopencl packs a number fastest through the entry that its generated code calls;
        # `set_arg` takes eight microseconds for the same.
        self._set_number = getattr(kernel, "_set_arg_buf_pack_multi", self._set_slowly)
        for position, (parameter, argument) in enumerate(self._arguments()):
            if isinstance(argument, Buffer | Scalar):
                continue
            try:
                self._set_number((position, parameter.format.encode(), argument))
            except (RuntimeError, OverflowError, struct.error) as error:
                raise ShapeError(
                    f"{title}: the kernel cannot count to {quoted(argument)}: smaller shapes"
                ) from error
        self._kernel = kernel

    def _set_slowly(self, argument: tuple[int, bytes, float]) -> None:
        """The public way to set a number, for a pyopencl without the fast one."""
        position, format_, value = argument
        dtype = {b"l": np.int64, b"L": np.uint64}.get(format_, np.dtype(format_.decode()))
        self._set_arg(position, np.array(value, dtype)[()])

    def places(self, slots: Mapping[str, int]) -> Places:
        """Returns where it finds its buffers in a list of them, given by their names."""
        slots_ = (slots[name] for name in self.buffers)
        return tuple(zip(self._positions, slots_, strict=True))

    def set_buffer(self, position: int, buffer: Any) -> None:
        """Sets a buffer for all launches to come, of a kernel that nobody else launches."""
        self._set_arg(position, buffer)

    def set_numbers(self, scalars: Sequence[float]) -> None:
        """Sets the run-time scalars for all launches to come, likewise."""
        for position, number, format_ in self._scalars:
            value = scalars[number]
            if format_ in _PAIRS:
                self._set_arg(position, _PAIRS[format_](value))
                continue
            if format_ in (b"b", b"B"):
                value = _byte(value, format_)
            self._set_number((position, format_, value))

    def set_number(self, name: str, value: int) -> None:
        """Sets a number that its plan has, by the name of the parameter, likewise."""
        for position, parameter in enumerate(self.plan.code.parameters):
            if parameter.declaration.endswith(f" {name}"):
                self._set_number((position, parameter.format.encode(), value))

    def parts(self) -> tuple[Any, ...]:
        """Returns what enqueues it without this class: kernel, sizes, `set_arg`, plan."""
        return self._kernel, self._global, self._local, self._set_arg, self.plan

    def enqueue(self, memory: Sequence[Any], places: Places, scalars: Sequence[float]) -> cl.Event:
        """Enqueues the kernel, on the queue that its device has now."""
        device, set_arg = self._device, self._set_arg
        # A kernel object holds its arguments, so two threads must not set and enqueue at once; and
        # no thread may replace the queue between looking at it and enqueuing.
        with device.lock:
            queue = device.queue
            try:
                for position, place in places:
                    set_arg(position, memory[place])
                self.set_numbers(scalars)
                event = cl.enqueue_nd_range_kernel(queue, self._kernel, self._global, self._local)
            except cl.Error as error:
                raise DeviceError(
                    f"kernel {self._name} could not be launched on {queue.device.name}: {error}"
                ) from error
            for profile in device.profiles:
                profile.record(self._name, event, self.plan.nbytes, self.plan.flops)
        counters.launches += 1
        return event
