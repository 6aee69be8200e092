"""What kind of file is it? A network looks at its first and last bytes.

It is that of the package `magika` (Google, Apache 2.0):

    pip install clprim[onnx]
    pip install --no-deps magika
    python examples/file_types.py README.md examples/*.py

Without names of files it looks at its own folder.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

import clprim as cp
import clprim.onnx

PACKAGE, MODEL = "magika", "models/standard_v3_3"


def folder() -> Path | None:
    """Return where the package keeps its model, or None where it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    found = Path(package.origin).parent / MODEL
    return found if found.is_dir() else None


def features(content: bytes, config: dict) -> np.ndarray:
    """Return the bytes that the network sees: of the beginning and of the end, without blanks."""
    block, pad = config["block_size"], config["padding_token"]
    first = content[:block].lstrip()[: config["beg_size"]]
    last = content[-block:].rstrip()[-config["end_size"] :]
    row = [*first, *[pad] * (config["beg_size"] - len(first))]
    row += [*[pad] * (config["end_size"] - len(last)), *last]
    return np.array([row], np.int32)


def kinds(files: list[Path]) -> list[tuple[str, float]]:
    """Return the kind of each file, and how sure the network is."""
    where = folder()
    config = json.loads((where / "config.min.json").read_text())
    net = clprim.onnx.load(where / "model.onnx")
    scores = net(np.concatenate([features(file.read_bytes(), config) for file in files]))
    return [(config["target_labels_space"][row.argmax()], float(row.max())) for row in scores]


def main(names: list[str]) -> None:
    """Print a table."""
    print(f"on {cp.current_device()}")
    if folder() is None:
        print("This example needs a network: pip install --no-deps magika")
        sys.exit(0)
    here = Path(__file__).parent
    files = [Path(name) for name in names] or sorted(f for f in here.iterdir() if f.is_file())
    for file, (kind, score) in zip(files, kinds(files), strict=True):
        print(f"{file.name:24} {kind:12} {score:7.2%}")


if __name__ == "__main__":
    main(sys.argv[1:])
