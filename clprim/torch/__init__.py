"""PyTorch on any OpenCL device: ``import clprim.torch``, then ``model.to("opencl")``.

The device is clprim's current one. What has no kernel of clprim's runs on the CPU, with a warning.
"""

from clprim.torch import (
    agreeing,
    autocast,
    basics,
    compiling,
    dispatcher,
    generators,
    layout,
    modules,
    nested,
    private,
    quantize,
    storages,
    table,
)
from clprim.torch.device import DeviceModule, serve_accelerator
from clprim.torch.exported import load_exported
from clprim.torch.function import operator
from clprim.torch.fused_networks import fuse
from clprim.torch.kernels import (
    attention,
    groups,
    logarithms,
    optimizer,
    product,
    random,
    recurrent,
    shape,
)
from clprim.torch.on_cpu import fallback, run_on_cpu
from clprim.torch.packed import load_packed_
from clprim.torch.quantize import quantize_
from clprim.torch.report import coverage
from clprim.torch.tensors import array, in_use, tensor

__all__ = [
    "array",
    "coverage",
    "fallback",
    "fuse",
    "load_exported",
    "load_packed_",
    "operator",
    "quantize_",
    "tensor",
]

_module = DeviceModule()
private.register_device(_module)
serve_accelerator(_module)
private.backward_in_its_thread(in_use)
basics.register()
storages.register()
modules.register()
random.register()
optimizer.register()
attention.register()
nested.register()
groups.register()
logarithms.register()
product.register()
quantize.register()
recurrent.register()
shape.register()
layout.register()
agreeing.register()
table.register_all()
dispatcher.register_fallback(run_on_cpu)
autocast.register()
generators.register()
compiling.register()
