"""Communication between processes: what gloo does, with tensors of the device.

Importing it registers the backend ``"clprim"`` with `torch.distributed`, which copies tensors to
the host, lets gloo communicate and copies the results back. `DistributedDataParallel` then needs
nothing of its own: ``init_process_group("cpu:gloo,opencl:clprim")``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from clprim.torch import private

Tensors = Sequence[torch.Tensor]


class _Done(dist.Work):  # type: ignore[misc]
    """Work that has been waited for, with its results."""

    def __init__(self, results: Any) -> None:
        super().__init__()
        self._results = results
        self._future = torch.futures.Future()
        self._future.set_result(results)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> Any:
        return self._results

    def get_future(self) -> Any:
        return self._future


class _HostBackend(dist.ProcessGroup):  # type: ignore[misc]
    """Runs collectives on copies on the host, by gloo."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)

    def getBackendName(self) -> str:  # noqa: N802
        return "clprim"

    def _run(self, name: str, outputs: list[Any], inputs: Any, *rest: Any) -> _Done:
        """Runs a collective; what it writes, lists in lists too, goes back to the device."""
        hosts = [_to_host(o) for o in outputs]
        given = [_to_host(i) for i in inputs]
        getattr(self._gloo, name)(*hosts, *given, *rest).wait()
        for output, host in zip(outputs, hosts, strict=True):
            _to_device(output, host)
        return _Done(outputs[0] if outputs else [])

    def allreduce(self, tensors: Tensors, options: Any = None) -> _Done:
        return self._run("allreduce", [tensors], (), options or dist.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Tensors, options: Any = None) -> _Done:
        for tensor in tensors:
            self.allreduce([tensor], options)
        return _Done(tensors)

    def broadcast(self, tensors: Tensors, options: Any = None) -> _Done:
        return self._run("broadcast", [tensors], (), options or dist.BroadcastOptions())

    def reduce(self, tensors: Tensors, options: Any = None) -> _Done:
        return self._run("reduce", [tensors], (), options or dist.ReduceOptions())

    def allgather(self, outputs: Any, inputs: Tensors, options: Any = None) -> _Done:
        return self._run("allgather", [outputs], [inputs], options or dist.AllgatherOptions())

    def _allgather_base(self, output: Any, given: Any, options: Any = None) -> _Done:
        parts = list(output.chunk(self.size()))
        self.allgather([parts], [given])
        return _Done(output)

    def gather(self, outputs: Any, inputs: Tensors, options: Any = None) -> _Done:
        return self._run("gather", [outputs], [inputs], options or dist.GatherOptions())

    def scatter(self, outputs: Tensors, inputs: Any, options: Any = None) -> _Done:
        return self._run("scatter", [outputs], [inputs], options or dist.ScatterOptions())

    def barrier(self, options: Any = None) -> _Done:
        self._gloo.barrier(options or dist.BarrierOptions()).wait()
        return _Done([])

    def send(self, tensors: Tensors, target: int, tag: int = 0) -> _Done:
        self._gloo.send(_to_host(tensors), target, tag).wait()
        return _Done([])

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> _Done:
        hosts = _to_host(tensors)
        self._gloo.recv(hosts, source, tag).wait()
        _to_device(tensors, hosts)
        return _Done(tensors)


def _to_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous()
    return [_to_host(v) for v in value]


def _to_device(target: Any, host: Any) -> None:
    if isinstance(target, torch.Tensor):
        with torch.no_grad():
            target.copy_(host)
        return
    for one, other in zip(target, host, strict=True):
        _to_device(one, other)


def _make(store: Any, rank: int, size: int, timeout: Any) -> _HostBackend:
    return _HostBackend(store, rank, size, timeout)


# A build of PyTorch without gloo has nothing to register.
if dist.is_available() and dist.is_gloo_available():
    dist.Backend.register_backend("clprim", _make, devices=[private.NAME])
