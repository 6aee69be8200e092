"""Whole networks: in inference, training steps, compiled by PyTorch, as ONNX models."""

from __future__ import annotations

import copy
import io
import os
import tempfile
import warnings
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import clprim as cp
from bench.case import Call, Case, Data, Host, Make, Options, Page
from bench.models import MODELS, SMALL, inputs_of, missing_for, network, settled
from bench.models_packages import PACKAGE_MODELS
from bench.peers.onnx_runtime import bound
from bench.probe import cold_and_warm, probe

# Whose kernels take some microseconds of one image, or tens of several.
_SMALL_LAYERS = (
    "resnet34", "mobilenet_v3_large", "densenet121", "efficientnet_b0", "shufflenet_v2_x1_0",
    "mnasnet1_0", "regnet_y_400mf", "ghostnet_100",
)  # fmt: skip
_SEVERAL = (
    "resnet34", "mobilenet_v2", "densenet121", "efficientnet_b0", "regnet_y_400mf", "repvgg_a0",
)  # fmt: skip
_NOT_HERE = {
    SMALL, "squeezenet1_0", "resnet34", "mnasnet1_0", "regnet_y_400mf", "ghostnet_100", "repvgg_a0",
}  # fmt: skip
# Those that are trained, and the image sizes of what would take minutes at the usual one.
_TRAINED = ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "squeezenet1_0", "vgg16")
_SIZES = {"vgg16": 112}
# Exported again and again elsewhere; the others of `MODELS` say nothing more.
_EXPORTED = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "densenet121",
    "shufflenet_v2_x1_0", "googlenet", "convnext_tiny", "vit_b_16", "swin_t",
)  # fmt: skip
#: What ``--net`` of ``bench nets`` takes.
NETS = tuple(name for name in MODELS if name not in _NOT_HERE)
#: By the words that ``--peers`` of ``bench nets`` takes.
PEERS = {
    "calls": "clprim, call by call", "eager": "PyTorch", "inductor": "inductor",
    "ort": "onnxruntime", "openvino": "openvino",
}  # fmt: skip
# By contender: what `cp.options` takes as launches.
_WAYS = {"clprim": "one", "clprim, apart": "each"}
_AGREE = 1e-4
# Outputs may differ by so many times what ONNX Runtime differs from itself.
_NOISE = 4

Tables = list[tuple[str, list[str], list[list[str]]]]


class MissingError(Exception):
    """What must be installed before networks are made."""


def needed(names: Sequence[str]) -> None:
    """Stop where packages are missing that make networks."""
    absent = missing_for(names)
    if absent:
        raise MissingError(absent)


# --- inference -----------------------------------------------------------------------------------


class Net:
    """A network with what it takes, for all contenders of a row."""

    host: tuple[Host, ...] = ()

    def __init__(self, name: str, batch: int) -> None:
        import torch

        import clprim.torch

        clprim.torch.fallback("silent")
        model = settled(network(name)).requires_grad_(requires_grad=False)
        self.model = model.to(memory_format=torch.channels_last)
        self.given = inputs_of(name, batch)
        self.here = self.given.to("opencl")
        self.on_device = copy.deepcopy(self.model).to("opencl")

    @cached_property
    def onnx(self) -> bytes:
        import torch

        model = copy.deepcopy(self.model).to(memory_format=torch.contiguous_format)
        mha, file = torch.backends.mha, io.BytesIO()
        fast = mha.get_fastpath_enabled()
        mha.set_fastpath_enabled(False)  # whose one operator ONNX has not
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = (self.given.contiguous(),)
                torch.onnx.export(model, given, file, input_names=["x"], dynamo=False)
        finally:
            mha.set_fastpath_enabled(fast)
        return file.getvalue()

    @cached_property
    def inputs(self) -> dict[str, Host]:
        return {"x": self.given.contiguous().numpy()}


def _on_device(net: Any, given: Any) -> Call:
    """What runs a network on the device, and waits, as a user does."""

    def call() -> Any:
        found = net(given)
        cp.synchronize()
        return found

    return call


def _no_grad(make: Make) -> Make:
    """A contender that is made and called without gradients."""

    def made(data: Net) -> Call:
        import torch

        with torch.no_grad():
            return torch.no_grad()(make(data))  # type: ignore[no-any-return]

    return made


def fused(data: Net) -> Call:
    """As users are told to run a network."""
    import clprim.torch

    return _on_device(clprim.torch.fuse(data.on_device), data.here)


def compiled(data: Net) -> Call:
    """By `torch.compile`: the model, whose parameters never change."""
    import torch

    torch._dynamo.reset()
    told: dict[str, Any] = {"options": {"freeze": True}, "dynamic": False}
    return _on_device(torch.compile(data.on_device, backend="clprim", **told), data.here)


def eager(data: Net) -> Call:
    """PyTorch on the CPU as it comes: the reference of all others."""
    model, given = data.model, data.given
    return lambda: model(given)


def inductor(data: Net) -> Call:
    """A model of its own: freezing gives its weights away."""
    import torch
    from torch._inductor import config

    torch._dynamo.reset()
    net, given = torch.compile(copy.deepcopy(data.model), dynamic=False), data.given
    with config.patch(freezing=True):
        net(given)
    return lambda: net(given)


def openvino(data: Any) -> Call:
    """Its CPU plugin for latency, in float32, with as many threads as cores."""
    import openvino

    core = openvino.Core()
    options = {
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": os.cpu_count() or 1,
    }  # fmt: skip
    read = core.read_model(data.onnx)
    read.reshape({name: [*array.shape] for name, array in data.inputs.items()})
    request = core.compile_model(read, "CPU", options).create_infer_request()
    for name, array in data.inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=array.ndim > 0))

    def call() -> Any:
        request.infer()
        return [output.data for output in request.output_tensors]

    return call


def _launched(how: str, make: Make) -> Make:
    """A contender of ours whose graphs are launched as `cp.options` says."""

    def made(data: Any) -> Call | None:
        with cp.options(launches=how):
            call = make(data)
        assert call is not None

        def run() -> Any:
            with cp.options(launches=how):
                return call()

        return run

    return made


def _costs(starts: Sequence[str], data: Net, call: Call) -> dict[str, str]:
    """Kernels of a call, and its first one in new processes."""
    with cp.profile() as profile:
        call()
    found = {"kernels": f"{len(profile.events)}"}
    if starts:
        cold, warm = cold_and_warm(*starts)
        found |= {"first call, cold": f"{cold['call']:.2f} s"}
        found |= {"first call, warm": f"{warm['call']:.2f} s"}
    return found


def _inference(
    name: str, batch: int, own: dict[str, Make], peers: Sequence[str], starts: bool, group: str = ""
) -> Case:
    makers: dict[str, Make] = {
        "clprim, call by call": lambda data: _on_device(data.on_device, data.here),
        "PyTorch": eager,
        "inductor": inductor,
        "onnxruntime": lambda data: bound(data.onnx, data.inputs),
        "openvino": openvino,
    }
    chosen = {PEERS[word]: makers[PEERS[word]] for word in peers}
    first = ("network", name, str(batch)) if starts else ()
    group = group or f"Inference, batch {batch}, float32"
    return Case(
        group, MODELS[name].label, batch, partial(Net, name, batch),
        {who: _no_grad(make) for who, make in {**own, **chosen}.items()},
        expected=lambda data: data.model(data.given), tolerance=_AGREE, limit="calm",
        extra=partial(_costs, first),
    )  # fmt: skip


def launch_cases(args: Options) -> list[Case]:
    """Return the rows of ``python -m bench nets launch``: networks in one launch, and apart."""
    own, models = ({who: _launched(how, make) for who, how in _WAYS.items()}
                   for make in (fused, loaded))  # fmt: skip
    models["onnxruntime"] = lambda data: bound(data.onnx, data.inputs)
    peers = args.peers or ("inductor", "ort", "openvino")
    listed = {
        "Networks, batch 1": (1, NETS),
        "Networks of small layers, batch 1": (1, _SMALL_LAYERS),
        "Networks, batch 8": (8, _SEVERAL),
    }
    if args.quick:
        listed = {"Networks, batch 2": (2, (SMALL,))}
    rows = [
        (group, name, batch)
        for group, (batch, names) in listed.items()
        for name in names
        if name in (args.net or names) and batch in (args.batch or (batch,))
    ]
    needed([name for _, name, _ in rows])
    found = [_inference(name, batch, own, peers, False, group) for group, name, batch in rows]
    packages = () if args.quick or args.net else PACKAGE_MODELS
    return found + [
        _imported("Models of packages, batch 1", name, 1, models, False)
        for name in packages
        if PACKAGE_MODELS[name].file is not None
    ]


def nets_cases(args: Options) -> list[Case]:
    if args.launch:
        return launch_cases(args)
    named = args.net or ((SMALL,) if args.quick else NETS)
    needed(named)
    return [
        _inference(name, batch, {"clprim": fused}, args.peers or tuple(PEERS), not args.no_starts)
        for batch in args.batch or ((2,) if args.quick else (1, 8))
        for name in named
    ]


# --- training ------------------------------------------------------------------------------------


class TrainingStep:
    """A network that is trained by one step a call: forward, backward, SGD with momentum, fused."""

    def __init__(self, name: str, batch: int, size: int, where: str, backend: str = "") -> None:
        import torch

        self.model = network(name).train().to(where, memory_format=torch.channels_last)
        self.images = inputs_of(name, batch, size).to(where)
        classes = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, 10, (batch,), generator=classes).to(where)
        # Small steps: what is timed must not run away.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9, fused=True)
        self.forward: Call = self._forward
        if backend:
            self.forward = torch.compile(self._forward, backend=backend, dynamic=False)

    def _forward(self) -> Any:
        import torch

        return torch.nn.functional.cross_entropy(self.model(self.images), self.labels)

    def __call__(self) -> Any:
        """Return the loss before the step."""
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @property
    def state(self) -> int:
        """Bytes that stay: of parameters, momenta and statistics."""
        parameters = sum(p.nbytes for p in self.model.parameters())
        return 2 * parameters + sum(b.nbytes for b in self.model.buffers())


def _begin() -> Data:
    """Count anew what runs on the CPU in the device's stead."""
    import torch

    import clprim.torch
    from clprim.torch import on_cpu

    clprim.torch.fallback("silent")
    torch._dynamo.reset()
    on_cpu.counts.clear()
    return Data()


def _strayed(data: Data, call: Call) -> dict[str, str]:
    from clprim.torch import on_cpu

    return {"!": f"on the CPU ran {', '.join(sorted(on_cpu.counts))}"} if on_cpu.counts else {}


def _training(name: str, batch: int, kinds: dict[str, tuple[str, str]]) -> Case:
    size = _SIZES.get(name, MODELS[name].size)
    makers = {
        who: lambda data, told=told: TrainingStep(name, batch, size, *told)
        for who, told in kinds.items()
    }
    title = f"{MODELS[name].title}, {size}²"
    group = f"Training step, batch {batch}, channels_last"
    return Case(group, title, batch, _begin, makers, tolerance=1e-3, limit="calm", extra=_strayed)


def _steps(args: Options, batches: Sequence[int], kinds: dict[str, tuple[str, str]]) -> list[Case]:
    named = args.net or ((SMALL,) if args.quick else _TRAINED)
    trained = [name for name in named if not MODELS[name].tokens]
    needed(trained)
    return [
        _training(name, batch, kinds)
        for batch in args.batch or ((2,) if args.quick else batches)
        for name in trained
    ]


def step_cases(args: Options) -> list[Case]:
    kinds = {
        "clprim": ("opencl", ""),
        "clprim, compiled": ("opencl", "clprim"),
        "PyTorch": ("cpu", ""),
    }
    return _steps(args, (8,), kinds)


def memory_of_step(args: Options, own: str = "opencl") -> Tables:
    """Measure the memory of a training step, each contender in a process of its own."""
    name, batch, size = (SMALL, 2, MODELS[SMALL].size) if args.quick else ("resnet50", 8, 224)
    mine, theirs = (probe("memory", w, name, str(batch), str(size)) for w in (own, "cpu"))
    state = theirs["state"]
    rows = []
    for title, key, base in (("a step", "rise", state), ("the whole process", "process", 0)):
        a, b = (found[key] + base for found in (mine, theirs))
        rows.append([title, f"{a / 1e6:.0f}", f"{b / 1e6:.0f}", f"{a / b:.2f}×"])
    title = f"Memory at most, training step of {MODELS[name].title}, batch {batch} (MB)"
    return [(title, ["", "clprim", "PyTorch", "times"], rows)]


# --- compiled by PyTorch -------------------------------------------------------------------------


def torch_cases(args: Options) -> list[Case]:
    named = args.net or ((SMALL,) if args.quick else NETS)
    needed(named)
    batches = args.batch or ((2,) if args.quick else (1, 8, 32))
    found = [
        _inference(name, batch, {"clprim": compiled}, ("eager", "inductor"), False)
        for batch in batches
        for name in named
    ]
    kinds = {
        "clprim": ("opencl", "clprim"), "clprim, call by call": ("opencl", ""),
        "PyTorch": ("cpu", ""), "inductor": ("cpu", "inductor"),
    }  # fmt: skip
    return found + _steps(args, (1, 8, 32), kinds)


def first_results(args: Options) -> Tables:
    """Measure memory, and the first result with everything on disk."""
    name, batch = (SMALL, 2) if args.quick else ("resnet50", 8)
    backends = ("clprim", "inductor")
    warm = [cold_and_warm("compiled", name, str(batch), each)[1]["call"] for each in backends]
    title = f"The first result of {MODELS[name].title}, batch {batch}, everything on disk (s)"
    first = (title, ["", *backends], [["", *(f"{seconds:.2f}" for seconds in warm)]])
    return [*memory_of_step(args, "compiled"), first]


# --- ONNX ----------------------------------------------------------------------------------------


class Imported:
    """A package's model, or an exported network, with what it takes; by ONNX Runtime what it gives.

    Attributes:
        noise: By how much that differs with and without its optimisations: what rounding makes.
    """

    host: tuple[Host, ...] = ()

    def __init__(self, name: str, batch: int) -> None:
        if name in PACKAGE_MODELS:
            file = PACKAGE_MODELS[name].file
            assert file is not None
            self.onnx, self.inputs = file.read_bytes(), PACKAGE_MODELS[name].given()
        else:
            made = Net(name, batch)
            self.onnx, self.inputs = made.onnx, made.inputs

    def outputs(self, level: str = "ORT_DISABLE_ALL") -> list[Host]:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        session = ort.InferenceSession(self.onnx, options, providers=["CPUExecutionProvider"])
        found: list[Host] = session.run(None, self.inputs)
        return found


def loaded(data: Imported) -> Call:
    """The model with inputs and outputs on the device."""
    import clprim.onnx

    given = {n: cp.asarray(v) if v.ndim else v for n, v in data.inputs.items()}
    return _on_device(clprim.onnx.load(data.onnx), given)


def _imported_costs(starts: bool, data: Imported, call: Call) -> dict[str, str]:
    """Kernels; the model read and called for the first time, beside a session's creation."""
    from bench.runner import error_of, results_of

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mine = results_of(loaded(data)())
    found = _costs((), data, call)  # type: ignore[arg-type]
    host = [str(w.message) for w in said if "on the host" in str(w.message)]
    if host:
        found["!"] = "; ".join(host)
    plain = data.outputs()
    error, noise = error_of(mine, plain), error_of(data.outputs("ORT_ENABLE_ALL"), plain)
    found["error"] = f"{error:.0e}"
    if error > max(_AGREE, _NOISE * noise):
        found["!"] = f"off by {error:.1e}"
    if starts:
        with tempfile.TemporaryDirectory() as folder:
            model, given = Path(folder, "model.onnx"), Path(folder, "given.npz")
            model.write_bytes(data.onnx)
            np.savez(given, **data.inputs)
            _, warm = cold_and_warm("onnx", str(model), str(given))
        found["loading"] = f"{1e3 * warm['call']:.0f} ms"
        found["a session"] = f"{1e3 * warm['session']:.0f} ms"
    return found


def onnx_cases(args: Options) -> list[Case]:
    """Return the rows of ``python -m bench onnx``: of packages those that are installed."""
    named = args.net or ([SMALL] if args.quick else [*PACKAGE_MODELS, *_EXPORTED])
    packages = [n for n in named if n in PACKAGE_MODELS and PACKAGE_MODELS[n].file is not None]
    exported = [n for n in named if n in MODELS]
    needed(exported)
    if not packages and not exported:
        absent = sorted({PACKAGE_MODELS[n].package for n in named})
        raise MissingError(f"not installed: {', '.join(absent)}")
    makers: dict[str, Make] = {
        "clprim": loaded, "onnxruntime": lambda data: bound(data.onnx, data.inputs),
        "openvino": openvino,
    }  # fmt: skip
    rows = [("Models of packages", n, 1) for n in packages]
    for batch in (2,) if args.quick else (1, 8):
        rows += [("Exported networks", n, batch) for n in exported]
    return [
        _imported(f"{of}, batch {batch}, float32", name, batch, makers, not args.no_starts)
        for of, name, batch in rows
    ]


def _imported(group: str, name: str, batch: int, makers: dict[str, Make], starts: bool) -> Case:
    """A row; `_imported_costs` compares outputs, as it knows what rounding makes of a model."""
    title = PACKAGE_MODELS[name].title if name in PACKAGE_MODELS else MODELS[name].label
    return Case(
        group, title, 1, partial(Imported, name, batch), makers, tolerance=None, limit="calm",
        extra=partial(_imported_costs, starts),
    )  # fmt: skip


_IMAGES = "Images a second (rows of tokens, of BERT), until the results are there. "
_STEP = (
    "A training step is forward, cross entropy, backward and SGD with momentum (`fused=True` of "
    "all), channels_last, float32; losses are compared before anything is timed. PyTorch takes "
    "fresh pages from the system for every large tensor; `--keep-memory` spares it these."
)
PAGES = {
    "nets": Page(
        "Whole networks next to PyTorch, its compiler, ONNX Runtime and OpenVINO", "images/s",
        nets_cases, ("net", "batch", "net_peers", "no_starts", "keep_memory", "launch"),
        f"{_IMAGES}`clprim`: after `clprim.torch.fuse`. First calls are in processes of their own, "
        "with nothing on disk and with everything there. `nets launch`: `clprim` in one launch, "
        "`clprim, apart` a launch a kernel.",
        sample=0.03, least=2, keep=False,
    ),
    "step": Page(
        "Training steps on the device next to PyTorch on the CPU", "images/s", step_cases,
        ("net", "batch", "keep_memory"), _STEP, sample=1e-9, keep=False, more=memory_of_step,
    ),
    "torch": Page(
        "torch.compile with clprim as its backend, next to PyTorch and its own compiler",
        "images/s", torch_cases, ("compiled", "net", "batch", "keep_memory"), _IMAGES + _STEP,
        sample=0.03, least=2, keep=False, more=first_results,
    ),
    "onnx": Page(
        "ONNX models next to ONNX Runtime and OpenVINO", "ms", onnx_cases, ("net", "no_starts"),
        "`error`: of the outputs, beside ONNX Runtime's without its optimisations; `loading`: in a "
        "new process, reading the file and the first call with kernels on disk.",
        sample=0.03, least=2, keep=False,
    ),
}  # fmt: skip
