"""Communication between processes: what gloo does, with tensors of the device.

Importing it registers the backend ``"clprim"`` with `torch.distributed`. Its process groups are
PyTorch's own and its backend is gloo: each collective copies tensors of the device to the host,
runs there, and copies back what it wrote. So what `torch.distributed` offers with gloo works on the
device: data parallelism, sharded or not, distributed tensors, tensor parallelism.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from clprim.errors import DeviceError
from clprim.torch import dispatcher, private
from clprim.torch.tensors import on_device

#: Its name, as in ``init_process_group("cpu:gloo,opencl:clprim")``.
BACKEND = "clprim"
# What operators call the tensors that they read alone.
_INPUTS = ("input", "inputs", "input_list", "input_tensor", "input_tensors")
# In these the processes' parts follow one another in memory, whatever the shapes are.
_FLAT = (
    "_allgather_base_",
    "_reduce_scatter_base_",
    "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced_",
)


def _to_host(value: Any, read: bool = True) -> Any:
    """Returns copies on the host, without gaps as gloo wants them; new memory if not ``read``."""
    if not isinstance(value, torch.Tensor):
        return [_to_host(v, read) for v in value]
    if not on_device(value):
        return value
    return (
        value.detach().cpu().contiguous() if read else torch.empty(value.shape, dtype=value.dtype)
    )


def _flat(hosts: Any) -> Any:
    return hosts.view(-1) if isinstance(hosts, torch.Tensor) else [_flat(h) for h in hosts]


def _to_device(target: Any, host: Any) -> None:
    if not isinstance(target, torch.Tensor):
        for one, other in zip(target, host, strict=True):
            _to_device(one, other)
    elif target is not host:
        with torch.no_grad():
            target.copy_(host)


def _collective(overload: Any) -> Callable[..., Any]:
    """Returns what an operator of ``torch.ops.c10d`` is with tensors of the device.

    One whose name ends in ``_`` writes its first argument, which is read where that is called
    ``tensors``.
    """
    name = overload._schema.name.removeprefix("c10d::")
    arguments = overload._schema.arguments
    writes, reads = name.endswith("_"), arguments[0].name == "tensors"
    inputs = [n for n, a in enumerate(arguments) if n and a.name in _INPUTS]
    group = next(n for n, a in enumerate(arguments) if a.name == "process_group")

    def run(outputs: Any, *rest: Any) -> Any:
        hosts = _to_host(outputs, reads)
        given = [hosts, *rest]
        for n in inputs:
            given[n] = _to_host(given[n])
        if name in _FLAT:
            given[:2] = _flat(given[:2])
        private.serve_host(given[group])
        found = overload(*given)
        work = dist.Work.unbox(found[-1] if isinstance(found, tuple) else found)
        if name.startswith("recv"):  # what the other side sends may wait for what is sent here
            return private.later_work(work, lambda: _to_device(outputs, hosts)).boxed()
        if writes:
            work.wait()
            _to_device(outputs, hosts)
            work = private.finished_work(outputs)
        return (outputs, work.boxed()) if isinstance(found, tuple) else work.boxed()

    return run


def _make(store: Any, rank: int, size: int, timeout: Any) -> Any:
    backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    backend._set_sequence_number_for_group()
    return backend


def _refused(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses what the reducer of `DistributedDataParallel` would stop at in the backward pass."""

    def start(ddp: Any, parameters: Any, sparse: bool, names: Any, static_graph: bool) -> Any:
        asks = static_graph or ddp.find_unused_parameters
        if asks and any(map(on_device, parameters)):
            raise DeviceError(
                "DistributedDataParallel: find_unused_parameters and static_graph need pinned "
                f"memory, which PyTorch has in C++ alone and so not for {private.NAME!r}; let the "
                "loss depend on every parameter, or use torch.distributed.fsdp.fully_shard"
            )
        return original(ddp, parameters, sparse, names, static_graph)

    return start


# A build of PyTorch without gloo has nothing to register.
if dist.is_available() and dist.is_gloo_available():
    dist.Backend.register_backend(BACKEND, _make, devices=["cpu", private.NAME])
    dispatcher.replace_collectives(_collective)
    ddp = torch.nn.parallel.DistributedDataParallel
    private.replace_method("_ddp_init_helper", _refused, ddp)
