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
    """A model."""

    title: str
    package: str
    module: str
    path: str
    inputs: dict[str, tuple[Any, ...]]
    licence: str

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
        for name, (kind, shape, *below) in self.inputs.items():
            if isinstance(shape, int):
                found[name] = np.array(shape, kind)
            elif "mask" in name:
                found[name] = np.ones(shape, kind)
            elif kind.startswith("int"):
                found[name] = random.integers(0, *below or [256], shape).astype(kind)
            elif below:
                found[name] = (random.random(shape) * below[0]).astype(kind)
            else:
                found[name] = random.standard_normal(shape).astype(kind)
        return found


def image(
    title: str, package: str, path: str, shape: tuple[int, ...], licence: str, name: str = "x"
) -> PackageModel:
    module = package.replace("-", "_")
    return PackageModel(title, package, module, path, {name: ("float32", shape)}, licence)


def _ocr(title: str, file: str, *size: int) -> PackageModel:
    return image(title, "rapidocr-onnxruntime", f"models/{file}", (1, 3, *size), "Apache-2.0")


def voice(title: str, file: str, samples: int, *, rate: bool = True) -> PackageModel:
    inputs: dict[str, Any] = {
        "input": ("float32", (1, samples)), "state": ("float32", (2, 1, 128)),
    }  # fmt: skip
    inputs |= {"sr": ("int64", 16000)} if rate else {}
    return PackageModel(title, "silero-vad", "silero_vad", f"data/{file}", inputs, "MIT")


#: By the name that ``--net`` takes: those that are raced.
PACKAGE_MODELS = {
    "music": image(
        "music transcription", "basic-pitch", "saved_models/icassp_2022/nmp.onnx", (1, 43844, 1),
        "Apache-2.0", "serving_default_input_2:0",
    ),
    "files": PackageModel(
        "file types", "magika", "magika", "models/standard_v3_3/model.onnx",
        {"bytes": ("int32", (1, 2048))}, "Apache-2.0",
    ),
    "boxes": PackageModel(
        "detection, 320²", "nudenet", "nudenet", "320n.onnx",
        {"images": ("float32", (1, 3, 320, 320), 1)}, "MIT",
    ),
    "text-places": _ocr("text detection, 320²", "ch_PP-OCRv4_det_infer.onnx", 320, 320),
    "text": _ocr("text recognition, 48 × 320", "ch_PP-OCRv4_rec_infer.onnx", 48, 320),
    "text-turns": _ocr("text direction", "ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192),
    "voice": voice("voice activity", "silero_vad_16k_op15.onnx", 576),
    "voice-flat": voice("voice activity, without If", "silero_vad_op18_ifless.onnx", 576),
    "voice-half": voice("voice activity, float16", "silero_vad_half.onnx", 576, rate=False),
}  # fmt: skip
