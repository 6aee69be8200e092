"""All of PyTorch's private interfaces that the device uses, in one place.

PyTorch may change them from one version to the next. What is missing is said at the import, with
the version that was found and those that the device was run with.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count, repeat
from threading import get_ident
from typing import Any

import torch

from clprim.errors import DeviceError

#: The device's name: ``tensor.to("opencl")``.
NAME = "opencl"
TESTED = ("2.13", "2.14")
KEY = "PrivateUse1"
_NEEDED = (
    "utils.backend_registration._setup_privateuseone_for_python_backend",
    "_C._acc.create_empty_tensor",
    "_C._acc.DeviceGuard",
    "_C._acc.PrivateUse1Hooks",
    "autograd.set_multithreading_enabled",
    "_C.DispatchKeySet",
    "_C._AutoDispatchBelowAutograd",
    "_C._get_overrideable_sdp_enabled",
    "_C._construct_storage_from_data_pointer",
    "_C._dynamo.eval_frame.set_code_exec_strategy",
    "_TorchCompileInductorWrapper.__call__",
    "_TorchCompileWrapper.__init__",
    "_prims_common.are_strides_like_channels_last_or_false",
    "_prims_common.compute_elementwise_output_logical_to_physical_perm",
    "_subclasses.fake_impls.op_implementations_dict",
    "_subclasses.fake_tensor.in_kernel_invocation_manager",
)


def _check() -> None:
    for path in _NEEDED:
        found: Any = torch
        for part in path.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise DeviceError(
                f"PyTorch {torch.__version__} has no torch.{path}, which the device needs; "
                f"it was run with PyTorch {', '.join(TESTED)}"
            )
    if ".".join(torch.__version__.split(".")[:2]) not in TESTED:
        warnings.warn(
            f"the device 'opencl' was run with PyTorch {', '.join(TESTED)} and not yet with "
            f"{torch.__version__}, which has all that it asks for",
            stacklevel=2,
        )


_check()
META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_aten = torch.ops.aten

empty_tensor: Callable[[Sequence[int], torch.dtype], torch.Tensor] = (
    torch._C._acc.create_empty_tensor
)


# Of a storage, 64-bit words: PyTorch has no function that gives one an address and a size.
_Words: Any = ctypes.c_uint64 * 10


def _find_words() -> tuple[int, int]:
    """Returns which words of a storage are its address and its size in bytes."""
    address, nbytes = 0x1D0C3A2B5C4E6F70, 0x0123456789AB
    cpu = torch.device("cpu")
    probe = torch._C._construct_storage_from_data_pointer(address, cpu, nbytes)
    words = list(_Words.from_address(probe._cdata))
    if words.count(address) != 1 or words.count(nbytes) != 1:
        raise DeviceError(
            f"PyTorch {torch.__version__} keeps storages' addresses and sizes elsewhere than "
            f"expected; the device was run with PyTorch {', '.join(TESTED)}"
        )
    return words.index(address), words.index(nbytes)


_ADDRESS, _NBYTES = _find_words()
# Addresses lie beyond those of any program's memory, and none is given out twice.
_STEP = 1 << 20
_addresses = count(1 << 62, _STEP)  # for what fits into a step, without a lock
_next_address = [1 << 60]
_address_lock = threading.Lock()


def set_size(storage: Any, nbytes: int) -> None:
    """Gives a storage a size, and an address of its own at which nothing can be read."""
    words = _Words.from_address(storage._cdata)
    words[_NBYTES] = nbytes
    words[_ADDRESS] = next(_addresses) if 0 < nbytes < _STEP else _range_of(nbytes)


def _range_of(nbytes: int) -> int:
    if not nbytes:
        return 0
    with _address_lock:
        address = _next_address[0]
        _next_address[0] = address + nbytes + _STEP & -_STEP
    return address


class _Elsewhere(torch.Tensor):  # type: ignore[misc]
    """What has a storage of any device; aliases of it are plain tensors."""

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> Any:  # PyTorch wants one; nothing calls it
        raise NotImplementedError


def empty_tensor_on(number: int, shape: Sequence[int], kind: torch.dtype) -> torch.Tensor:
    """Returns a tensor without memory on another device than the first."""
    device = torch.device(NAME, number)
    made = torch.Tensor._make_wrapper_subclass(_Elsewhere, tuple(shape), dtype=kind, device=device)
    return restride(made, shape, torch.empty(shape, device="meta").stride())


# What a hook raises in a backward pass is still set when PyTorch asks for the device's type on its
# way out, and no call of Python's may end with it: the process would be aborted. So it is taken
# away there, and raised again where the backward pass ends.
_python: Any = ctypes.pythonapi
_python.PyErr_Fetch.restype = _python.PyErr_NormalizeException.restype = None
_kind, _error, _trace = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
# Each step takes what is raised. A step of a loop, for after a call Python may let another thread
# run, which would write to the same three; and before it no attribute may be looked up.
_take_raised = map(_python.PyErr_Fetch, *(repeat(ctypes.byref(p)) for p in (_kind, _error, _trace)))
# By thread.
_taken: dict[int, BaseException] = {}
TYPE = torch._C._autograd.DeviceType.PrivateUse1


class _Guard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """What PyTorch asks, twice an operator that is differentiated, for the kind of the device."""

    def type_(self) -> Any:
        for _ in _take_raised:
            break
        if _kind.value is not None:
            found = _kind.value, _error.value, _trace.value
            _kind.value = _error.value = _trace.value = None
            _keep_raised(*map(ctypes.c_void_p, found))
        return TYPE


def _keep_raised(*places: ctypes.c_void_p) -> None:
    _python.PyErr_NormalizeException(*map(ctypes.byref, places))
    found = [ctypes.cast(p, ctypes.py_object).value if p.value else None for p in places]
    error: Any = found[1]
    _taken[get_ident()] = error.with_traceback(found[2])
    for place in places:
        _python.Py_DecRef(place)


def backward_in_its_thread(in_use: Callable[[], bool]) -> None:
    """Lets backward passes run in the thread that asks for them, and raise what their hooks raise.

    PyTorch's engine has a thread for the first device alone, which all passes would share.
    """
    original = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **options: Any) -> Any:
        if not in_use():
            return original(*args, **options)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                return original(*args, **options)
        except SystemError:
            error = _taken.pop(get_ident(), None)
            if error is None:
                raise
        raise error

    torch.autograd.graph._engine_run_backward = run_backward
    torch.autograd._engine_run_backward = run_backward


def make_generators(make: Callable[[torch.device], Any]) -> None:
    """Lets ``torch.Generator`` of the device be made; PyTorch asks for them in C++."""
    kind: Any = type(torch.Generator)
    if kind is type:
        return  # of a version whose type cannot be changed: PyTorch says that it has none

    def call(cls: Any, *args: Any, **options: Any) -> Any:
        if cls is torch.Generator:
            device = args[0] if args else options.get("device")
            if device is not None and torch.device(device).type == NAME:
                return make(torch.device(device))
        return type.__call__(cls, *args, **options)

    kind.__call__ = call


def register_device(module: object) -> None:
    """Registers the device and its module, ``torch.opencl``."""
    torch.utils.backend_registration._setup_privateuseone_for_python_backend(
        NAME, backend_module=module, device_guard=_Guard()
    )


_frames: Any = torch._C._dynamo.eval_frame
_SKIPPED = _frames._FrameExecStrategy(_frames._FrameAction.SKIP, _frames._FrameAction.SKIP)


def opaque(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps `torch.compile` out of a function, and out of all that it calls; returns it.

    What a graph leaves to eager execution calls kernels, which would be compiled in their turn.
    """
    code = getattr(function, "__code__", None)
    if code is not None:
        _frames.set_code_exec_strategy(code, _SKIPPED)
    return function


def replace_accelerator(functions: dict[str, Callable[..., Any]]) -> None:
    """Replaces what `torch.accelerator` asks of C++ where the accelerator is this device."""
    for name, function in functions.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            replace_method(f"_accelerator_{name}", partial(_accelerated, function), torch._C)


def _accelerated(function: Callable[..., Any], original: Callable[..., Any]) -> Any:
    def run(*args: Any) -> Any:
        kind = torch._C._accelerator_getAccelerator()
        ours = kind is not None and kind.type == NAME
        return function(*args) if ours else original(*args)

    return opaque(run)


def allow_flex_attention(cast: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Lets `flex_attention` take tensors of the device: PyTorch makes it of products and `vmap`.

    Args:
        cast: What autocast makes of queries, keys and values.
    """
    from torch._higher_order_ops.flex_attention import flex_attention
    from torch.nn.attention import flex_attention as module

    checked: Any = module
    original = checked._validate_device

    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != NAME:
            original(query, key, value)

    def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> Any:
        with torch._C._DisableAutocast():
            return flex_attention(cast(query), cast(key), cast(value), *rest)

    checked._validate_device = validate
    flex_attention.py_impl(getattr(torch._C.DispatchKey, f"Autocast{KEY}"))(run)


def attend_to_nested(make: Callable[[Any], Callable[..., Any]]) -> None:
    """Replaces what attention over nested tensors is by what is made of it."""
    from torch.nested._internal import ops

    operators: Any = ops
    operators.jagged_scaled_dot_product_attention = make(
        operators.jagged_scaled_dot_product_attention
    )


def checked_nested(*args: Any) -> tuple[Any, ...]:
    """Returns queries, keys, values, mask of attention as autocast wants them; refuses as PyTorch.

    Args:
        args: Those of `scaled_dot_product_attention`, in their order.
    """
    from torch.nested._internal import sdpa

    functions: Any = sdpa
    cast = functions._autocast(*args[:4])
    functions._validate_sdpa_input(*cast, *args[4:])
    return tuple(cast)


def serve_host(group: Any) -> None:
    """Lets a process group's backend of the device serve the host, if none does."""
    found, host = torch.distributed.ProcessGroup.unbox(group), torch.device("cpu")
    if host not in found._device_types:
        backend = found._get_backend(torch.device(NAME))
        found._register_backend(host, found.BackendType.CUSTOM, backend)


def finished_work(result: Any) -> Any:
    """Returns the work of a collective that is done, whose result is a tensor or a list of them."""
    future: Any = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


def later_work(work: Any, then: Callable[[], None]) -> Any:
    """Returns work that is done where it is waited for: by some work, and by what comes then."""
    base: Any = torch._C._distributed_c10d.PythonCallbackWork

    class Later(base):  # type: ignore[misc]
        def _source_rank(self) -> int:
            return int(work._source_rank())

    def wait(timeout: Any) -> bool:
        if held:
            work.wait(timeout)
            then()
            held.clear()
        return True

    later = Later(wait)
    held = [later]  # PyTorch does not keep the half of it that is Python's
    return later


def may_fuse_attention() -> bool:
    """Whether `torch.nn.attention.sdpa_kernel` allows attention to be one operator."""
    c: Any = torch._C
    return bool(
        c._get_overrideable_sdp_enabled()
        or c._get_flash_sdp_enabled()
        or c._get_mem_efficient_sdp_enabled()
        or c._get_cudnn_sdp_enabled()
    )


def storage_of(tensor: torch.Tensor) -> Any:
    """Returns the storage's one Python object: all aliases share it, and it keeps attributes."""
    return tensor.untyped_storage()


def restride(
    tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0
) -> torch.Tensor:
    """Returns an alias of a tensor; strides and offset count elements."""
    found: torch.Tensor = _aten.as_strided.default.redispatch(
        META, tensor, list(shape), list(strides), offset
    )
    return found


def form_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor without memory of the same shape, strides, offset and dtype."""
    nbytes = tensor.untyped_storage().nbytes()
    whole = torch.empty(nbytes // tensor.itemsize, dtype=tensor.dtype, device="meta")
    return restride(whole, tensor.shape, tensor.stride(), tensor.storage_offset())


def seen_as(
    tensor: torch.Tensor, kind: torch.dtype, shape: Any, strides: Any, offset: int
) -> torch.Tensor:
    """Returns a tensor's memory in another form; strides and offset count elements of a dtype."""
    empty = torch.empty(0, dtype=kind, device=tensor.device)
    return empty.set_(storage_of(tensor), offset, shape, strides)


def elementwise_order(*tensors: torch.Tensor) -> list[int]:
    """Returns the dimensions of an elementwise result from the slowest to the fastest."""
    prims: Any = torch._prims_common
    found: Any = prims.compute_elementwise_output_logical_to_physical_perm(*tensors)
    order: list[int] = found[0]
    return order


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether PyTorch takes a tensor of four or five dimensions for one with channels last."""
    prims: Any = torch._prims_common
    return bool(prims.are_strides_like_channels_last_or_false(tensor.shape, tensor.stride()))


def alias(overload: Any, keys: Any = META) -> Callable[..., Any]:
    """Returns the kernel of an overload that reads no element, as ``view``: another device's."""

    def run(*args: Any, **options: Any) -> Any:
        return overload.redispatch(keys, *args, **options)

    return run


def adopt(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Makes a tensor lie where another one does, with its shape and strides."""
    _aten.set_.source_Storage_storage_offset.redispatch(
        META,
        tensor,
        other.untyped_storage(),
        other.storage_offset(),
        list(other.shape),
        list(other.stride()),
    )


def replace_method(name: str, make: Callable[[Any], Any], kind: Any = torch.Tensor) -> None:
    """Replaces a method of tensors, or of another kind, by one that is made of it."""
    setattr(kind, name, make(getattr(kind, name)))


def print_with(host_copy: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Lets PyTorch print tensors of the device by what it prints of their copies on the host."""
    printer: Any = torch._tensor_str
    original = printer._tensor_str

    def numbers(tensor: torch.Tensor, indent: int) -> Any:
        return original(host_copy(tensor) if tensor.device.type == NAME else tensor, indent)

    printer._tensor_str = numbers


def compile_with(name: str, function: Callable[..., Any]) -> None:
    """Registers a backend of `torch.compile`, if it has none of that name yet."""
    from torch._dynamo.backends import registry

    if name not in registry._COMPILER_FNS:
        registry.register_backend(function, name)


def aot_backend(**compilers: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a backend of `torch.compile` that hands graphs of ATen overloads to compilers.

    Activations that a backward pass needs are stored or computed again as PyTorch's own compiler
    chooses, by ``torch._functorch.config.activation_memory_budget``, and `clprim.torch.recomputed`.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from clprim.torch.recomputed import partition_with

    found: Callable[..., Any] = aot_autograd(
        **compilers,
        partition_fn=partition_with(min_cut_rematerialization_partition),
        keep_inference_input_mutations=True,
    )
    return found


def tracing_metadata() -> Any:
    """Returns what PyTorch knows of the arguments and results of the graph that it compiles."""
    context = torch._guards.TracingContext.try_get()
    return None if context is None else context.fw_metadata


def views_of(metadata: Any) -> dict[int, int]:
    """Returns which results of a forward graph are views of arguments, and of which."""
    from torch._functorch._aot_autograd.schemas import OutputType

    first = metadata.num_mutated_inp_runtime_indices
    return {
        first + n: info.base_idx
        for n, info in enumerate(metadata.output_info)
        if info.output_type is OutputType.alias_of_input
    }


@cache
def break_graphs_at(kind: type) -> None:
    """Lets a compiled graph end where generators of a kind are used, as at PyTorch's own."""
    from torch._dynamo.variables.script_object import TorchScriptObjectVariable

    original: Any = TorchScriptObjectVariable.is_matching_cls
    found: Any = staticmethod(lambda other: not issubclass(other, kind) and original(other))
    TorchScriptObjectVariable.is_matching_cls = found


def rng_operators() -> dict[Any, Callable[..., Any]]:
    """Returns what PyTorch's operators do on the device that save and restore random numbers.

    A graph with activation checkpointing draws the same numbers in its backward pass by them.
    """
    from torch._prims import rng_prims

    def save(operator: Any, *args: Any, **options: Any) -> Any:
        module = getattr(torch, NAME)
        return module.get_rng_state(), operator(*args, **options)

    def restore(state: torch.Tensor, operator: Any, *args: Any, **options: Any) -> Any:
        module = getattr(torch, NAME)
        before = module.get_rng_state()
        module.set_rng_state(state)
        try:
            return operator(*args, **options)
        finally:
            module.set_rng_state(before)

    return {rng_prims.run_and_save_rng_state: save, rng_prims.run_with_rng_state: restore}
