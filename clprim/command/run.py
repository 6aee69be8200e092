"""``clprim run model.onnx``: an ONNX model on arrays, pictures or made-up numbers."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clprim.command.bars import check, write
from clprim.command.words import read_positive, read_shape
from clprim.errors import ClprimError, DefinitionError, ShapeError
from clprim.runtime.progress import waiting
from clprim.text_table import format_table

# Of each channel, of images between 0 and 1: what networks for ImageNet were trained with.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_ARRAYS = (".npy", ".npz")
_SHOWN, _NODES = 5, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments to a parser."""
    parser.add_argument("model", type=Path, help="an .onnx file")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an array (.npy, .npz by name) or a picture, for each input in order or by name; "
        "random numbers where there is none",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="[NAME=]SIZES",
        help="as in input=1,3,224,224, for inputs whose sizes are free (1 by default)",
    )
    parser.add_argument(
        "--normalise",
        choices=("imagenet", "unit", "none"),
        default="imagenet",
        help="pictures: less ImageNet's mean, by its deviation (the default), 0 to 1, 0 to 255",
    )
    parser.add_argument("--repeat", type=read_positive, default=1, help="runs, timed (1)")
    parser.add_argument(
        "--profile", action="store_true", help="print the time of each kernel and of each node"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw where the time went, by node"
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE.clprim",
        help="write the compiled graph for these shapes, which cp.Graph.load reads",
    )
    parser.add_argument("--explain", action="store_true", help="print steps, kernels and memory")
    parser.add_argument(
        "--compare", choices=("onnxruntime",), help="errors against it, and its time"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs")


def run(args: argparse.Namespace) -> int:
    """Runs the command and returns the exit status."""
    from clprim import onnx

    if args.picture is not None:
        check(args.picture)
    net = onnx.load(args.model)
    given = _inputs(args, net.inputs)
    with waiting("compiling"):
        start = time.perf_counter()
        found = _named(net(given), net.outputs)
        first = time.perf_counter() - start
    print(f"{net.what}: first run {first * 1e3:.1f} ms")
    if args.repeat > 1:
        print(f"median of {args.repeat} runs: {_timed(lambda: net(given), args.repeat):.2f} ms")
    for name, value in found.items():
        print(_summary(name, value))
    if args.explain:
        print(net.explain(given))
    if args.profile:
        print(net.profile(given).table())
    if args.profile or args.picture is not None:
        _times(args, net.what, net.times(given))
    if args.save is not None:
        graph = net.graph(given)
        graph.save(str(args.save))
        print(f"{args.save}: {graph!r}, {len(graph.inputs)} inputs")
    if args.output is not None:
        try:
            np.savez(args.output, **found)
        except OSError as error:
            raise ClprimError(f"--output {args.output}: {error.strerror}") from None
    return _compare(args, given, found) if args.compare else 0


def _times(args: argparse.Namespace, what: str, times: Sequence[Any]) -> None:
    """Prints the nodes that took longest, and draws all of them."""
    total = sum(t.seconds for t in times) or 1.0
    if args.profile:
        rows = [[t.node, t.kernels, f"{1e3 * t.seconds:.3f}", f"{t.seconds / total:.1%}"]
                for t in times[:_NODES]]  # fmt: skip
        print(format_table(["node", "kernels", "ms", "share"], rows, align="lrrr"))
        if len(times) > _NODES:
            print(f"and {len(times) - _NODES} others")
    if args.picture is not None:
        write(args.picture, f"{what}: {1e3 * total:.2f} ms", [(t.node, t.seconds) for t in times])
        print(f"written: {args.picture}")


def _timed(call: Callable[[], Any], count: int) -> float:
    """Returns the median of some calls in milliseconds."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def _named(value: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {next(iter(names)): value}


def _by_name(option: str, words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Returns what words say of each input: by name, else in order."""
    found: dict[str, str] = {}
    rest = [*names]
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in names:
            name, value = (rest or [""])[0], word
        if name not in names:
            raise DefinitionError(f"{option} {word}: the model has the inputs {', '.join(names)}")
        rest = [n for n in rest if n != name]
        found[name] = value
    return found


def _inputs(args: argparse.Namespace, kinds: Mapping[str, Any]) -> dict[str, Any]:
    files = _by_name("--input", args.input, [*kinds])
    try:
        texts = _by_name("--shape", args.shape, [*kinds])
        shapes = {n: read_shape(v) for n, v in texts.items()}
    except argparse.ArgumentTypeError as error:
        raise ShapeError(f"--shape: {error}") from None
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, (kind, sizes) in kinds.items():
        free = [n if isinstance(n, int) and n > 0 else 1 for n in sizes or ()]
        shape = shapes.get(name, tuple(free))
        dtype = np.dtype(kind or "float32")
        if name in files:
            found[name] = _read(Path(files[name]), name, shape, dtype, args.normalise)
        elif dtype.kind in "iub":
            found[name] = np.ones(shape, dtype)
        else:
            found[name] = random.standard_normal(shape).astype(dtype)
    return found


def _read(path: Path, name: str, shape: tuple[int, ...], dtype: Any, how: str) -> Any:
    try:
        if path.suffix in _ARRAYS:
            read = np.load(path)
            return read if path.suffix == ".npy" else read[name]
        return _picture(path, shape, dtype, how)
    except (OSError, ValueError, KeyError) as error:
        raise DefinitionError(f"--input {path}: {error}") from None


def _picture(path: Path, shape: tuple[int, ...], dtype: Any, how: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DefinitionError(f"--input {path}: pictures need the pillow package") from None
    if len(shape) != 4:
        raise ShapeError(f"--input {path}: a picture for an input of shape {shape}")
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    channels, *size = (shape[3], *shape[1:3]) if last else shape[1:]
    pixels: Any
    with Image.open(path) as image:
        picture = image.convert("RGB" if channels == 3 else "L")
        if min(size) > 1:
            picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
        pixels = np.asarray(picture, np.float32).reshape(*picture.size[::-1], channels)
    if how != "none":
        pixels = pixels / 255
    if how == "imagenet" and channels == 3:
        pixels = (pixels - np.array(_MEAN, np.float32)) / np.array(_DEVIATION, np.float32)
    whole = pixels[None] if last else pixels.transpose(2, 0, 1)[None]
    return np.repeat(whole, shape[0], 0).astype(dtype)


def _summary(name: str, value: Any) -> str:
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUS":
        return f"{name}: {value}"
    text = f"{name}: {value.dtype}{list(value.shape)}"
    if not value.size:
        return text
    numbers = value.astype(np.float64)
    text += f" from {numbers.min():.6g} to {numbers.max():.6g}, mean {numbers.mean():.6g}"
    if value.ndim == 2 and value.shape[0] == 1 and value.shape[1] >= _SHOWN:
        best = np.argsort(-numbers[0], kind="stable")[:_SHOWN]
        text += "; largest: " + ", ".join(f"{n} ({numbers[0, n]:.4g})" for n in best)
    return text


def _compare(args: argparse.Namespace, given: Mapping[str, Any], found: Mapping[str, Any]) -> int:
    """Prints differences to ONNX Runtime's outputs, and its time."""
    try:
        import onnxruntime  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise DefinitionError("--compare onnxruntime: the package is not installed") from None
    session = onnxruntime.InferenceSession(str(args.model), providers=["CPUExecutionProvider"])
    wanted = session.run(list(found), dict(given))
    rows = []
    for (name, value), other in zip(found.items(), wanted, strict=True):
        a, b = np.asarray(value, np.float64), np.asarray(other, np.float64)
        same = a.shape == b.shape
        error = float(np.abs(a - b).max(initial=0)) if same else np.inf
        scale = float(np.abs(b).max(initial=0)) or 1.0
        rows.append([name, f"{error:.3g}", f"{error / scale:.3g}"])
    print(format_table(["output", "largest difference", "of the largest"], rows, align="lrr"))
    if args.repeat > 1:
        other_time = _timed(lambda: session.run(list(found), dict(given)), args.repeat)
        print(f"onnxruntime, median of {args.repeat} runs: {other_time:.2f} ms")
    return 0
