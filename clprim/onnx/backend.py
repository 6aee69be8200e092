"""The backend as ONNX's own tests and tools know it: ``onnx.backend.base.Backend``.

``backend_test = onnx.backend.test.BackendTest(clprim.onnx.backend, __name__)`` runs its suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper
from onnx.backend.base import Backend as _Base
from onnx.backend.base import BackendRep

from clprim.errors import ClprimError
from clprim.onnx.net import Net, load
from clprim.runtime.device import devices, on

_TYPES = {"CPU": "cpu", "CUDA": "gpu", "GPU": "gpu"}


class Prepared(BackendRep):
    """A model that is ready to run.

    Args:
        net: The model.
        device: Where it runs.
    """

    def __init__(self, net: Net, device: Any) -> None:
        self.net, self._device = net, device

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns the outputs, arrays of the host, for a list or a dict of inputs."""
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if isinstance(inputs, dict):
            given = [inputs.get(name) for name in self.net.inputs]
        with on(self._device):
            return tuple(self.net.run(given))


class Backend(_Base):
    """ONNX's interface of a backend."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model would load."""
        try:
            load(model)
        except ClprimError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Returns a model that is ready to run.

        Raises:
            DefinitionError: A broken model, or operators that nothing computes.
        """
        return Prepared(load(model), _device(device))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Runs a model once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
        outputs_info: Sequence[Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Runs one node on arrays of the host."""
        names = [n for n in node.input if n]
        given = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in zip(names, inputs, strict=True)
        ]
        made = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        graph = helper.make_graph([node], "node", given, made)
        version = kwargs.get("opset_version") or onnx.defs.onnx_opset_version()
        sets = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=sets), list(inputs), device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is a device: ``CPU``, ``CUDA`` (any GPU), or a part of a name."""
        return _device(device) is not None


def _device(name: str) -> Any:
    kind, _, number = name.partition(":")
    wanted = _TYPES.get(kind.upper())
    found = [d for d in devices() if wanted is None or d.type == wanted]
    if wanted is None:
        found = [d for d in found if kind.lower() in str(d).lower()]
    if wanted == "cpu" and kind == "CPU" and not number:
        from clprim.runtime.device import current_device

        return current_device() if current_device().type == "cpu" else next(iter(found), None)
    at = int(number or 0)
    return found[at] if at < len(found) else None


prepare, run_model, run_node = Backend.prepare, Backend.run_model, Backend.run_node
supports_device, is_compatible = Backend.supports_device, Backend.is_compatible
