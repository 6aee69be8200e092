"""Who else runs whole networks: PyTorch as it comes, its compiler, OpenVINO; and clprim uncompiled.

Each has one method, ``inference``, as `bench.peers.peer.Peer` says; what it returns computes one
batch and waits for it.
"""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from bench.peers.onnx_runtime import OnnxRuntime
from bench.peers.peer import Call, Peer, PyTorch
from bench.work.compiled import compiled_network
from clprim.runtime.device import Device

if TYPE_CHECKING:
    from bench.work.imported import ImportedInputs, ImportedJob
    from bench.work.nets import NetInputs, NetJob


class _OnDevice(Peer):
    """PyTorch's device of this project."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        import clprim.torch

        clprim.torch.fallback("silent")

    def call(self, net: Any, inputs: NetInputs) -> Call:
        """Return what runs a network on the device."""
        given, finish = inputs.here, self.device.synchronize

        def call() -> Any:
            found = net(given)
            finish()
            return found

        return call


class Compiled(_OnDevice):
    """This project, as users are told to run a network."""

    name = "clprim"
    remarks: ClassVar = {"inference": "the network after `clprim.torch.fuse`"}

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """Whatever `bench.work.compiled` makes of it."""
        return self.call(compiled_network(inputs.on_device), inputs)


class CompiledByTorch(_OnDevice):
    """This project as a backend of PyTorch's compiler."""

    name = "clprim"
    remarks: ClassVar = {
        "inference": '`torch.compile(model, backend="clprim", options={"freeze": True})`'
    }

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """The model, whose parameters never change."""
        import torch

        torch._dynamo.reset()
        options: dict[str, Any] = {"options": {"freeze": True}, "dynamic": False}
        return self.call(torch.compile(inputs.on_device, backend="clprim", **options), inputs)


class CallByCall(_OnDevice):
    """This project, each call of PyTorch by itself."""

    name = "clprim, call by call"
    remarks: ClassVar = {"inference": "the network as it is, on the device"}

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """The model on the device."""
        return self.call(inputs.on_device, inputs)


class Eager(PyTorch):
    """PyTorch on the CPU as it comes: the reference of all others."""

    remarks: ClassVar = {"inference": "the network as it is, channels-last, on the CPU"}

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """The model."""
        model, given = inputs.model, inputs.given
        return lambda: model(given)


class Inductor(Peer):
    """PyTorch's own compiler, with weights that it may take for constants."""

    name = "inductor"
    missing = "" if importlib.util.find_spec("torch") else "torch is not installed"
    remarks: ClassVar = {
        "inference": "`torch.compile` with `torch._inductor.config.freezing`, channels-last, CPU"
    }

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """A model of its own: freezing gives its weights away."""
        import torch
        from torch._inductor import config

        torch._dynamo.reset()
        net, given = torch.compile(copy.deepcopy(inputs.model), dynamic=False), inputs.given
        with config.patch(freezing=True):
            net(given)
        return lambda: net(given)


class OpenVino(Peer):
    """Its CPU plugin for latency, in float32, with as many threads as cores."""

    name = "openvino"
    missing = next(
        (f"{p} is not installed" for p in ("openvino", "onnx") if not importlib.util.find_spec(p)),
        "",
    )
    remarks: ClassVar = {
        "inference": "the network as `torch.onnx.export` writes it, `INFERENCE_PRECISION_HINT` f32,"
        " `LATENCY`, one stream, input and output shared",
        "imported": "the same file, `INFERENCE_PRECISION_HINT` f32, `LATENCY`, one stream, inputs"
        " shared",
    }

    def inference(self, workload: NetJob, inputs: NetInputs) -> Call:
        """One request, repeated."""
        import openvino

        request = self._request(inputs.onnx)
        given = openvino.Tensor(inputs.contiguous.numpy(), shared_memory=True)
        request.set_input_tensor(given)

        def call() -> Any:
            request.infer()
            return request.get_output_tensor().data

        return call

    def imported(self, workload: ImportedJob, inputs: ImportedInputs) -> Call:
        """A model of several inputs, whose sizes are those that are given."""
        import openvino

        request = self._request(inputs.model, {n: a.shape for n, a in inputs.given.items()})
        for name, array in inputs.given.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=array.ndim > 0))
        infer: Call = request.infer
        return infer

    @staticmethod
    def _request(model: bytes, shapes: dict[str, tuple[int, ...]] | None = None) -> Any:
        import openvino

        core = openvino.Core()
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": os.cpu_count() or 1,
        }
        read = core.read_model(model)
        if shapes is not None:
            read.reshape({name: [*shape] for name, shape in shapes.items()})
        return core.compile_model(read, "CPU", options).create_infer_request()


#: By the words that ``--peers`` takes.
PEERS: dict[str, type[Peer]] = {
    "calls": CallByCall,
    "eager": Eager,
    "inductor": Inductor,
    "ort": OnnxRuntime,
    "openvino": OpenVino,
}


def net_peers(device: Device, words: Sequence[str]) -> list[Peer]:
    """Return peers, those that are missing included: the notes say so.

    Args:
        device: Of clprim.
        words: Keys of `PEERS`.
    """
    return [PEERS[word](device) for word in words]
