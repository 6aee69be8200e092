"""The devices that OpenCL finds, and the current one: its context, queue and memory pool."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from clprim.dtypes import is_integer
from clprim.errors import DeviceError, quoted
from clprim.runtime import icd
from clprim.traits import DeviceTraits

icd.prepare()  # must precede the first listing of platforms, whoever makes it

import pyopencl as cl  # noqa: E402
import pyopencl.tools  # noqa: E402

from clprim.runtime import probe, query  # noqa: E402
from clprim.runtime.pool import make_pool  # noqa: E402

if TYPE_CHECKING:
    from clprim.runtime.profile import Profile

ENVIRONMENT = "CLPRIM_DEVICE"

_NOTHING_FOUND = """\
no OpenCL device was found. Install a runtime:
  pip install "clprim[cpu]"        runs on the CPU (Linux, x86-64)
  apt install pocl-opencl-icd      runs on the CPU (Debian, Ubuntu)
or the OpenCL driver of the GPU's vendor; docs/devices.md names packages, which differ from one
release of a system to the next. `clinfo -l` lists what the system sees."""

_FORKED = """\
this process was forked from one that had listed its OpenCL devices, and no driver works on both
sides of a fork. Start processes afresh: multiprocessing.get_context("spawn"), or fork before the
first use of a device."""
_lock = threading.RLock()
_found: list[Device] = []
_current: Device | None = None
_here: ContextVar[Device | None] = ContextVar("clprim_device", default=None)
_drivers_are_loaded = False
_was_forked = False
_inherited: list[object] = []  # a parent's objects, which this process must not even release


class _Opened:
    """An attribute that `Device.open` sets: reading it opens the device on first use.

    Once it is set it hides this, so that a read costs next to nothing: a ``__getattr__`` would slow
    down every read of every attribute.
    """

    def __set_name__(self, owner: type[Device], name: str) -> None:
        self._name = name

    def __get__(self, device: Device | None, owner: type[Device]) -> Any:
        if device is None:
            return self
        device.open()
        return device.__dict__[self._name]


_OPENED: Any = _Opened  # for a type checker, what it stands for


class Device:
    """One OpenCL device, with the context, queue and memory pool that clprim uses on it.

    A device is looked at when it is listed and opened when it is first used. Two objects are equal
    when they stand for the same device.

    Attributes:
        cl: The `pyopencl.Device`.
        index: Its place in `devices`.
        name: What the driver calls it.
        platform: Name of the platform (the driver) that offers it.
        type: ``cpu``, ``gpu``, ``accelerator`` or ``other``.
        version: OpenCL version, as the driver writes it.
        driver: Version of the driver, as the driver writes it.
        context: A context of this device alone.
        queue: The queue that kernels are launched on, in order. `replace_queue` replaces it.
        queues: Every queue that clprim has made here; `synchronize` waits for all of them.
        lock: Held while something is enqueued on ``queue``, so that no other thread replaces it
            meanwhile.
        profiles: The profiles that are running here, as `clprim.runtime.profile` keeps them.
        pool: A memory pool; ``pool(nbytes)`` allocates.
    """

    # Set by `open`: from then on each is a plain attribute of the instance, as the hot path needs.
    context: cl.Context = _OPENED()
    queue: cl.CommandQueue = _OPENED()
    queues: list[cl.CommandQueue] = _OPENED()
    lock: threading.Lock = _OPENED()
    profiles: tuple[Profile, ...] = _OPENED()
    pool: pyopencl.tools.MemoryPool = _OPENED()

    def __init__(self, device: cl.Device, index: int) -> None:
        self.cl = device
        self.index = index
        self.name = query.text(device, "name")
        self.platform = query.text(device.platform, "name")
        self.type = query.device_type(device)
        self.version = query.text(device, "version")
        self.driver = query.text(device, "driver_version")

    @functools.cached_property
    def traits(self) -> DeviceTraits:
        """What kernels may rely on here: what the driver says, and its compiler bears out."""
        return probe.refine(query.query_traits(self.cl), self.cl)

    def open(self) -> None:
        """Make the context, queue and memory pool, if they are not there yet.

        Raises:
            DeviceError: The driver refused, as it does when a device has vanished.
        """
        with _lock:
            if "context" in self.__dict__:
                return
            if _was_forked:
                raise DeviceError(_FORKED)
            try:
                context = cl.Context([self.cl])
                queue = cl.CommandQueue(context, self.cl)
                pool = make_pool(self.cl, queue)
            except cl.Error as error:
                message = (
                    f"device {self} is listed but cannot be used: {error}. Choose another one "
                    f"with set_device() or {ENVIRONMENT}."
                )
                raise DeviceError(message) from error
            self.queue, self.queues, self.pool = queue, [queue], pool
            self.lock, self.profiles = threading.Lock(), ()
            self.context = context  # last: it says that the others are there

    @functools.cached_property
    def compiles(self) -> bool:
        """Whether its compiler works: an old one may not know the processor that it runs on."""
        found = probe.abilities(self.cl)
        return found is None or "kernel" in found

    def replace_queue(self, queue: cl.CommandQueue) -> cl.CommandQueue:
        """Launch on another queue from now on, after everything that the old one was given.

        Only for who holds ``lock``: kernels of two queues that write and read one buffer, or
        memory that the pool hands out again, are in no order.

        Args:
            queue: Of this device's context.

        Returns:
            The old queue.
        """
        old = self.queue
        wait_for(old)
        self.queue = queue
        return old

    def synchronize(self) -> None:
        """Wait until everything launched on this device is done.

        Raises:
            DeviceError: The driver reported a failure, of a kernel or of the device.
        """
        try:
            for queue in self.queues:
                wait_for(queue)
            if self.queue not in self.queues:
                wait_for(self.queue)
        except cl.Error as error:
            raise DeviceError(f"device {self} failed: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.cl == other.cl

    def __hash__(self) -> int:
        return hash(self.cl)

    @functools.cached_property
    def _described(self) -> str:
        try:
            memory = f"{self.cl.global_mem_size / 2**30:.1f} GiB"
        except cl.Error:
            memory = "? GiB"
        units = query.query_traits(self.cl).compute_units
        return (
            f"{self.name} | {self.platform} {self.driver} | {self.type}, {memory}, "
            f"{units} compute unit{'' if units == 1 else 's'}"
        )

    def __str__(self) -> str:
        return f"{self.index}: {self._described}"

    def __repr__(self) -> str:
        return f"<clprim.Device {self}>"


def devices() -> list[Device]:
    """Return every OpenCL device found, best first; an empty list where there is none.

    Order: GPUs, accelerators, CPUs; within a kind by what the device reports (see
    `clprim.runtime.query.rank`), so that it is the same on every run.

    Raises:
        DeviceError: This process was forked from one that had listed its devices.
    """
    global _drivers_are_loaded  # noqa: PLW0603 - there is one process
    with _lock:
        if _was_forked:
            raise DeviceError(_FORKED)
        if not _found:
            _drivers_are_loaded = True
            try:
                platforms = cl.get_platforms()
            except cl.Error:  # the loader's way to say that there is none
                platforms = []
            handles = [handle for platform in platforms for handle in query.devices_of(platform)]
            handles.sort(key=query.rank)
            _found.extend(Device(handle, index) for index, handle in enumerate(handles))
        return list(_found)


def set_device(spec: int | str | Device | cl.Device) -> Device:
    """Make a device the current one, for all threads, and open it; `on` is for a block of code.

    Args:
        spec: An index into `devices`; a word or words that each occur in the name of the platform,
            of the driver or of the device (``"intel"``, ``"pocl 3.0"``; case does not matter,
            and ``-`` and ``_`` part words as a blank does);
            ``"cpu"`` or ``"gpu"``; or a device. Of several that match, one whose platform matches
            is taken before one whose own name does, then the best.

    Returns:
        The device.

    Raises:
        DeviceError: No such device, or it cannot be opened; the previous one stays current.
    """
    global _current  # noqa: PLW0603 - the one current device
    with _lock:
        device = _find(spec)
        device.open()
        _current = device
        return device


@contextmanager
def on(spec: int | str | Device | cl.Device) -> Iterator[Device]:
    """Make a device the current one in the block of a ``with``, for this thread (or task) alone.

    Args:
        spec: In `set_device`'s words. Inside the block `set_device` changes what holds outside.

    Yields:
        The device.

    Raises:
        DeviceError: No such device, or it cannot be opened.

    Example:
        >>> import clprim as cp
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> def count(device):
        ...     with cp.on(device):
        ...         return int(cp.ones(1000).sum())
        >>> usable = [device for device in cp.devices() if device.compiles]
        >>> with ThreadPoolExecutor() as threads:
        ...     set(threads.map(count, usable))
        {1000}
    """
    with _lock:
        device = _find(spec)
        device.open()
    before = _here.set(device)
    try:
        yield device
    finally:
        _here.reset(before)


def current_device() -> Device:
    """Return the device that arrays and kernels use where none is named.

    It is that of the innermost `on`, else the last `set_device`, else the one that the environment
    variable ``CLPRIM_DEVICE`` describes (in `set_device`'s words), else the first of `devices`.

    Raises:
        DeviceError: There is none, or not the one asked for, or it cannot be opened.
    """
    device = _here.get() or _current
    if device is not None:  # the hot path: two reads
        return device
    with _lock:
        if _current is not None:
            return _current
        spec = os.environ.get(ENVIRONMENT, "").strip()
        if not spec:
            return set_device(0)
        try:
            return set_device(spec)
        except DeviceError as error:
            raise DeviceError(f"{ENVIRONMENT}={spec}: {error}") from error.__cause__


def synchronize() -> None:
    """Wait until everything launched on the current device is done.

    Raises:
        DeviceError: The driver reported a failure, of a kernel or of the device.
    """
    current_device().synchronize()


def wait_for(queue: cl.CommandQueue) -> None:
    """Wait until everything that a queue was given is done."""
    # An event of its own, not `finish`: a driver may let that wait for what nobody has flushed yet,
    # and for nothing where another thread has flushed everything. Both, one after the other, take
    # half as long again where a thread has to wake up for each.
    cl.enqueue_marker(queue).wait()


def device_of(context: cl.Context | None) -> Device | None:
    """Return the opened device that has a context, or None."""
    if _was_forked:
        raise DeviceError(_FORKED)
    for device in _found:
        own = device.__dict__.get("context")
        if own is not None and (own is context or own == context):
            return device
    return None


def _leave_the_parents_devices() -> None:
    """Forget, in a forked process, what the parent had opened: every use is refused from now on."""
    global _lock, _current, _was_forked  # noqa: PLW0603 - there is one process
    _lock = threading.RLock()  # a thread that did not come along may hold the parent's
    if not _drivers_are_loaded:
        return
    _was_forked, _current = True, None
    _here.set(None)
    opened = [name for name, value in vars(Device).items() if isinstance(value, _Opened)]
    for device in _found:
        _inherited.extend(device.__dict__.pop(name, None) for name in opened)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_the_parents_devices)


def _find(spec: int | str | Device | cl.Device) -> Device:
    """Return the device that ``spec`` describes, or raise the error that lists all."""
    if isinstance(spec, Device):
        return spec  # it refuses to be opened in a forked process
    found = devices()
    if not found:
        wrong = icd.complaint()
        raise DeviceError(f"no OpenCL device was found: {wrong}" if wrong else _NOTHING_FOUND)
    if isinstance(spec, cl.Device):
        matching = [device for device in found if device.cl == spec]
    elif is_integer(spec):
        matching = found[spec : spec + 1] if spec >= 0 else []
    elif isinstance(spec, str) and spec.strip().isdecimal():
        matching = found[int(spec) : int(spec) + 1]
    elif isinstance(spec, str):
        ranked = [(query.match(device.cl, spec), device.index) for device in found]
        ranked = sorted((quality, index) for quality, index in ranked if quality is not None)
        matching = [found[index] for _, index in ranked]
    else:
        message = f"a device is an index, a name or a Device, not {type(spec).__name__}"
        raise DeviceError(f"{message} {quoted(spec)}")
    if not matching:
        listing = "".join(f"\n  {device}" for device in found)
        raise DeviceError(
            f'no OpenCL device matches {quoted(spec)}; expected an index, part of a name, "cpu" or '
            f'"gpu". Devices found:{listing}'
        )
    return matching[0]
