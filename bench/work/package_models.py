"""Models that Python packages carry, by name: which file, and inputs of a usual size."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Given = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class PackageModel:
    """A model.

    Attributes:
        title: For readers.
        package: What is installed by pip.
        module: What it is imported as.
        path: Of the file within it.
        inputs: By name: dtype and shape, or a number.
    """

    title: str
    package: str
    module: str
    path: str
    inputs: dict[str, tuple[str, Any]]

    @property
    def file(self) -> Path | None:
        """The file, None where the package is not installed."""
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            return None
        file = Path(found.submodule_search_locations[0]) / self.path
        return file if file.is_file() else None

    def given(self) -> Given:
        """Inputs that are the same in each run."""
        random = np.random.default_rng(0)
        found: Given = {}
        for name, (kind, shape) in self.inputs.items():
            if isinstance(shape, int):
                found[name] = np.array(shape, kind)
            elif kind == "int32":
                found[name] = random.integers(0, 256, shape).astype(kind)
            else:
                found[name] = random.standard_normal(shape).astype(kind)
        return found


def _ocr(title: str, file: str, *size: int) -> PackageModel:
    path, shape = f"models/{file}", (1, 3, *size)
    package = "rapidocr-onnxruntime"
    return PackageModel(title, package, package.replace("-", "_"), path, {"x": ("float32", shape)})


def _voice(title: str, file: str, samples: int, *, rate: bool = True) -> PackageModel:
    inputs: dict[str, Any] = {
        "input": ("float32", (1, samples)), "state": ("float32", (2, 1, 128)),
    }  # fmt: skip
    inputs |= {"sr": ("int64", 16000)} if rate else {}
    return PackageModel(title, "silero-vad", "silero_vad", f"data/{file}", inputs)


#: By the name that ``--net`` takes.
PACKAGE_MODELS = {
    "music": PackageModel(
        "music transcription", "basic-pitch", "basic_pitch", "saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": ("float32", (1, 43844, 1))},
    ),
    "files": PackageModel(
        "file types", "magika", "magika", "models/standard_v3_3/model.onnx",
        {"bytes": ("int32", (1, 2048))},
    ),
    "boxes": PackageModel(
        "detection, 320²", "nudenet", "nudenet", "320n.onnx",
        {"images": ("float32", (1, 3, 320, 320))},
    ),
    "text-places": _ocr("text detection, 320²", "ch_PP-OCRv4_det_infer.onnx", 320, 320),
    "text": _ocr("text recognition, 48 × 320", "ch_PP-OCRv4_rec_infer.onnx", 48, 320),
    "text-turns": _ocr("text direction", "ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192),
    "voice": _voice("voice activity", "silero_vad_16k_op15.onnx", 576),
    "voice-flat": _voice("voice activity, without If", "silero_vad_op18_ifless.onnx", 576),
    "voice-half": _voice("voice activity, float16", "silero_vad_half.onnx", 576, rate=False),
}  # fmt: skip
