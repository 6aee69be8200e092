"""Reads the text of a picture: one network finds its lines, another one reads them.

The networks are PaddleOCR's (Baidu, Apache 2.0), which `rapidocr-onnxruntime` (Apache 2.0) carries:

    pip install clprim[onnx] scikit-image
    pip install --no-deps rapidocr-onnxruntime
    python examples/read_text.py [PICTURE] [OUTPUT.png]

Without a picture it reads a page of scikit-image's; the boxes go to build/text.png.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import clprim as cp
import clprim.onnx
from clprim import ops
from clprim.command.picture import png

PACKAGE = "rapidocr_onnxruntime"
FINDS, READS = "models/ch_PP-OCRv4_det_infer.onnx", "models/ch_PP-OCRv4_rec_infer.onnx"
HEIGHT = 48  # of a line, as the network was trained


def model(name: str) -> Path | None:
    """Return one of the package's models, or None where it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    found = Path(package.submodule_search_locations[0]) / name
    return found if found.is_file() else None


def lines(picture: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Return boxes of lines: left, top, right, bottom.

    Args:
        picture: (H, W, 3) of uint8.
    """
    from skimage.measure import label, regionprops

    h, w = picture.shape[:2]
    factor = max(1.0, 736 / min(h, w))
    size = tuple(round(n * factor / 32) * 32 for n in (h, w))
    image = cp.asarray((picture.transpose(2, 0, 1)[None] / 127.5 - 1).astype(np.float32))
    found = clprim.onnx.load(model(FINDS))(ops.resize(image, size, dim=(2, 3)))
    text = found.get()[0, 0] > 0.3
    boxes = []
    for region in regionprops(label(text)):
        top, left, bottom, right = region.bbox
        if region.area < 100:
            continue
        more = 0.6 * (bottom - top)  # the map shows the core of a line alone
        edges = np.array([left - more, top - more, right + more, bottom + more])
        scaled = edges / np.array([size[1] / w, size[0] / h] * 2)
        boxes.append(tuple(int(v) for v in np.clip(scaled.round(), 0, [w, h, w, h])))
    return sorted(boxes, key=lambda box: (box[1] + box[3], box[0]))


def read(picture: np.ndarray, boxes: list[tuple[int, int, int, int]]) -> list[tuple[str, float]]:
    """Return the text in each box, and how sure the network is."""
    file = model(READS)
    net, letters = clprim.onnx.load(file), ["", *_letters(file), " "]
    found = []
    for left, top, right, bottom in boxes:
        part = cp.asarray(np.ascontiguousarray(picture[top:bottom, left:right]))
        image = part.transpose(2, 0, 1).astype(np.float32).reshape(1, 3, bottom - top, right - left)
        # Widths of a few kinds, so that a plan serves many lines.
        width = -(-HEIGHT * (right - left) // (bottom - top) // 160) * 160
        scores = net(ops.resize(image / 127.5 - 1, (HEIGHT, width), dim=(2, 3))).get()[0]
        best = scores.argmax(1)
        kept = [n for n in range(len(best)) if best[n] and (not n or best[n] != best[n - 1])]
        sure = float(scores[kept, best[kept]].mean()) if kept else 0.0
        found.append(("".join(letters[best[n]] for n in kept), sure))
    return found


def _letters(file: Path) -> list[str]:
    import onnx

    told = {p.key: p.value for p in onnx.load(file, load_external_data=False).metadata_props}
    return told["character"].split("\n")


def drawn(picture: np.ndarray, boxes: list[tuple[int, int, int, int]]) -> np.ndarray:
    """Return the picture with boxes around its lines."""
    found = picture.copy()
    for left, top, right, bottom in boxes:
        for rows, columns in (
            (slice(top, bottom), [left, right - 1]), ([top, bottom - 1], slice(left, right)),
        ):  # fmt: skip
            found[rows, columns] = (220, 40, 40)
    return found


def main(words: list[str]) -> None:
    """Print the text, and write the picture with boxes."""
    print(f"on {cp.current_device()}")
    if model(FINDS) is None or importlib.util.find_spec("skimage") is None:
        print("This example needs scikit-image, and networks: pip install --no-deps "
              "rapidocr-onnxruntime")  # fmt: skip
        sys.exit(0)
    from skimage import color, data, io

    picture = io.imread(words[0]) if words else data.page()
    picture = color.gray2rgb(picture) if picture.ndim == 2 else picture[..., :3]
    boxes = lines(picture)
    for text, sure in read(picture, boxes):
        print(f"{sure:7.2%}  {text}")
    output = Path(words[1] if len(words) > 1 else "build/text.png")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(png(drawn(picture, boxes)))
    print(f"{len(boxes)} lines: {output}")


if __name__ == "__main__":
    main(sys.argv[1:])
