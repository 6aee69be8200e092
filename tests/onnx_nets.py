"""Networks as ONNX models beside ONNX Runtime: ``python tests/onnx_nets.py [--write]``.

Those of torchvision are exported with random weights; packages carry others. An error is relative
to the largest number of an output, and beside it stands by how much ONNX Runtime differs from
itself without its optimisations, and where weights change in their last bit: what rounding makes of
a model. ``--write`` puts the table into docs/onnx.md.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

import clprim as cp
import clprim.onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.work.models import settled, shown, torchvision
from bench.work.package_models import MORE_MODELS, PACKAGE_MODELS

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
MARK = "<!-- networks of {} -->\n"
# An error may be this large, or so many times what ONNX Runtime differs from itself; of a model
# that calculates in float16 a unit of that, of one that quantises while it runs one of 255 steps.
RIGHT, TIMES, HALF, STEP = 1e-4, 4, 2.0**-9, 2 / 255
EXPORTED = """
    alexnet vgg11 resnet18 resnet50 resnext50_32x4d wide_resnet50_2 squeezenet1_1 densenet121
    googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0
    shufflenet_v2_x1_0 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf
    lraspp_mobilenet_v3_large vit_b_32 vit_b_16 swin_t swin_v2_t convnext_tiny maxvit_t
""".split()


class Outcome(NamedTuple):
    """What came of a model.

    Attributes:
        error: Of the outputs.
        noise: By how much ONNX Runtime differs from itself.
        most: That an error may be.
        host: Operators that ran on the host.
        problem: Why it does not run, if so.
    """

    error: float = 0.0
    noise: float = 0.0
    most: float = RIGHT
    host: tuple[str, ...] = ()
    problem: str = ""

    @property
    def right(self) -> bool:
        """Whether the outputs are ONNX Runtime's and the device made them."""
        return not self.problem and not self.host and self.error <= self.most


def distance(found: list[Any], wanted: list[Any]) -> float:
    """The largest difference of outputs, relative to the largest number of each."""
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (b.shape, b.dtype), "another shape or dtype"
        if b.size:
            x, y = np.asarray(a, np.float64), b.astype(np.float64)
            worst = max(worst, float(np.abs(x - y).max()) / max(float(np.abs(y).max()), 1e-30))
    return worst


def reference(model: bytes, given: dict[str, Any], level: Any) -> list[Any]:
    """ONNX Runtime's outputs."""
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, given)
    return found


def plain(model: bytes) -> bytes:
    """A model whose LSTMs of quantised weights are LSTMs of the numbers that these stand for.

    ONNX Runtime quantises inputs and states of the former as well, in every step.
    """
    found = onnx.ModelProto.FromString(model)
    known = {t.name: t for t in found.graph.initializer}
    for node in found.graph.node:
        if node.op_type != "DynamicQuantizeLSTM":
            continue
        names = [*node.input, *[""] * (12 - len(node.input))]
        for n, k in ((1, 8), (2, 10)):
            w, scale, zero = (numpy_helper.to_array(known[names[m]]) for m in (n, k, k + 1))
            scale, zero = (v.reshape(v.shape[0], 1, -1).astype(np.float32) for v in (scale, zero))
            made = np.ascontiguousarray(((w - zero) * scale).transpose(0, 2, 1))
            names[n] = f"{node.name}/{n}"
            found.graph.initializer.append(numpy_helper.from_array(made, names[n]))
        del node.input[:]
        node.input.extend(names[:8])
        node.op_type, node.domain = "LSTM", ""
    return found.SerializeToString()


def shaken(model: bytes) -> bytes:
    """A model whose weights are one unit in the last place larger or smaller, by lot."""
    found, dice = onnx.ModelProto.FromString(model), np.random.default_rng(1)
    for tensor in found.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            w = numpy_helper.to_array(tensor)
            more = np.where(dice.random(w.shape) < 0.5, np.inf, -np.inf).astype(np.float32)
            moved = np.where(w == 0, w, np.nextafter(w, more))
            tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
    return found.SerializeToString()


def outcome(model: bytes, given: dict[str, Any]) -> Outcome:
    """Runs a model in both runtimes."""
    levels = ort.GraphOptimizationLevel
    meant = plain(model) if b"DynamicQuantizeLSTM" in model else model
    wanted = reference(meant, given, levels.ORT_DISABLE_ALL)
    others = (meant, levels.ORT_ENABLE_ALL), (shaken(meant), levels.ORT_DISABLE_ALL)
    noise = max(distance(reference(m, given, level), wanted) for m, level in others)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = clprim.onnx.load(model)(given)
            error = distance(list(found.values()) if isinstance(found, dict) else [found], wanted)
        except (cp.ClprimError, AssertionError) as problem:
            return Outcome(problem=" ".join(str(problem).split())[:200])
    texts = (str(w.message) for w in said)
    most = max(RIGHT, TIMES * noise)
    most = max(most, STEP) if b"DynamicQuantizeLinear" in model else most
    if "float16" in clprim.onnx.load(model).explain(given):
        most = max(most, HALF)
    return Outcome(error, noise, most, tuple(t for t in texts if "on the host" in t))


def exported(name: str) -> tuple[bytes, dict[str, Any]]:
    """A network of torchvision as PyTorch exports it, and an image."""
    import torch

    torch.manual_seed(0)
    models = torchvision().models
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    options |= {"weights_backbone": None} if name.startswith("lraspp") else {}
    where = models.segmentation if name.startswith("lraspp") else models
    net = shown(getattr(where, name)(weights=None, **options))
    small = not any(part in name for part in ("inception", "googlenet", "maxvit"))
    net = (settled(net) if small else net).eval()  # which looks at images of 64²
    side = 299 if name == "inception_v3" else 224
    x, file, mha = torch.randn(1, 3, side, side), io.BytesIO(), torch.backends.mha
    fast = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)  # whose one operator ONNX has not
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, (x,), file, input_names=["x"], dynamo=False)
    finally:
        mha.set_fastpath_enabled(fast)
    return file.getvalue(), {"x": x.numpy()}


def models(names: list[str]) -> Iterator[tuple[str, str, str, Any]]:
    """Yields titles, packages, licences, and what makes a model and its inputs."""
    for name in EXPORTED:
        if not names or name in names:
            yield name, "torchvision", "BSD-3-Clause", lambda name=name: exported(name)
    for name, each in {**PACKAGE_MODELS, **MORE_MODELS}.items():
        if not names or name in names:
            if each.file is None:
                print(f"{each.title}: {each.package} is not installed", flush=True)
                continue
            made = lambda each=each: (each.file.read_bytes(), each.given())  # noqa: E731
            yield each.title, f"`{each.package}`", each.licence, made


def main(argv: list[str] | None = None) -> int:
    """Runs all, and prints a table; the exit status says whether all are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="some of them")
    parser.add_argument("--write", action="store_true", help="put the table into docs/onnx.md")
    args = parser.parse_args(argv)
    lines = ["| network | of | licence | error | noise | |", "|---|---|---|---|---|---|"]
    wrong = total = close = 0
    for title, package, licence, make in models(args.names):
        start = time.time()
        found = outcome(*make())
        total, wrong = total + 1, wrong + (not found.right)
        close += found.right and found.error <= RIGHT
        said = found.problem or "; ".join(found.host) or ("" if found.right else "wrong")
        numbers = f"{found.error:.0e} | {found.noise:.0e}" if not found.problem else "– | –"
        lines.append(f"| {title} | {package} | {licence} | {numbers} | {said} |")
        print(f"{lines[-1]} {time.time() - start:.0f} s", flush=True)
    where = cp.current_device().platform
    said = f"{total - wrong} of {total} are right and run on the device ({where})"
    lines += ["", f"{said}, {close} within 1e-4."]
    print(lines[-1])
    if args.write:
        text, mark = PAGE.read_text(encoding="utf-8"), MARK.format(where)
        head, _, rest = text.partition(mark)
        tail = rest[rest.index("\n## ") :]
        PAGE.write_text(f"{head}{mark}\n" + "\n".join(lines) + f"\n{tail}", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
