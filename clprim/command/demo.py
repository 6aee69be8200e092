"""``clprim demo``: a photograph, an operator made of strings, its kernel, a check and a race."""

from __future__ import annotations

import importlib
import inspect
import os
import statistics
import tempfile
import textwrap
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import clprim as cp
from clprim.command.excerpt import colour, excerpt, paint
from clprim.command.picture import png, terminal_picture
from clprim.errors import ClprimError, ShapeError
from clprim.plan.machine import CHAIN
from clprim.runtime.progress import waiting
from clprim.text_table import format_table

SIZE = 224
WIDTH = 100
# Crops that are shown.
SHOWN = 4
# Characters of the longest bar.
BAR = 30
# Lines of a kernel that a reader of the demo is shown.
HEART = 34
# Timed runs of a turn, and seconds of rest before it.
TURN = 5
PAUSE = 0.02

Host = np.ndarray[Any, Any]
# Who takes part: a name, and what to run on the images in either memory format.
Competitors = list[tuple[str, dict[str, Callable[[], Any]]]]


def _operators() -> tuple[cp.Reduction, cp.Pointwise]:
    # Shown to the reader to the letter, by `inspect`.
    sums = cp.Reduction(
        "y0 = x0; y1 = x0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
        name="sums",
    )
    normalise = cp.Pointwise(
        """
        typeof_y0 mean = x1 * w0;
        typeof_y0 variance = x2 * w0 - mean * mean;
        y0 = (x0 - mean) * rsqrt(variance + w1);
        """,
        name="normalise",
    )
    return sums, normalise


def run(*, batch: int = 64, runs: int = 15, full: bool = False) -> int:
    """Runs the demonstration and prints it."""
    photograph = _photograph()
    device = cp.current_device()
    _check_memory(batch, device)
    images = _crops(photograph, batch)
    sums, normalise = _operators()

    _heading("a photograph as a batch")
    print(f"device  {device}")
    print(f"photo   scikit-image's astronaut, {photograph.shape[0]} × {photograph.shape[1]} pixels")
    print(f"batch   {batch} crops, some mirrored: {images.shape} float32, {_megabytes(images)}")

    _heading("an operator from strings")
    print(_definition())
    arrays = {"NCHW": cp.asarray(images), "NHWC": cp.asarray(images, memory_format="channels_last")}
    x = arrays["NCHW"]
    pixels = x.size // x.shape[1]
    with waiting("compiling"):
        s, s2 = sums(x, axis=(0, 2, 3), keepdims=True)
        y = normalise(x, s, s2, 1 / pixels, 1e-5)
        cp.synchronize()
    print("s, s2 = sums(x, axis=(0, 2, 3), keepdims=True)  # one pass over x: x0 is x")
    print("y = normalise(x, s, s2, 1 / pixels, 1e-5)       # x0, x1, x2, then w0, w1")

    _show(images, y)

    _heading("the kernel it became")
    for operator, source in (
        (sums, sums.source(x, axis=(0, 2, 3), keepdims=True)),
        (normalise, normalise.source(x, s, s2, 1 / pixels, 1e-5)),
    ):
        shown = source if full else excerpt(source, HEART)
        print(paint(shown))
        lines = source.count("\n")
        more = "" if full else ": its heart; clprim demo --full prints all"
        print(_dim(f"// {operator.definition.name}, {lines} lines of OpenCL C{more}\n"))

    _heading("checked against NumPy in float64")
    right = _check(images, s, s2, y)

    _heading("raced")
    _race(images, arrays, sums, normalise, runs)

    _heading("where the device's time went: cp.profile()")
    with cp.profile() as p:
        for array in arrays.values():
            s, s2 = sums(array, axis=(0, 2, 3), keepdims=True)
            normalise(array, s, s2, 1 / pixels, 1e-5)
    print(p.table())
    return 0 if right else 1


# --- the photograph ------------------------------------------------------------------------------


def _photograph() -> Host:
    try:
        data = importlib.import_module("skimage.data")
    except ImportError as error:
        raise ClprimError(
            "the demo's photograph comes with scikit-image: pip install scikit-image"
        ) from error
    picture: Host = data.astronaut()  # lies in the package; nothing is downloaded
    return picture


def _check_memory(batch: int, device: cp.Device) -> None:
    """Refuses a batch of which an array, or all arrays of the demonstration, exceed the device."""
    one = 3 * SIZE * SIZE * 4
    # Two memory formats, results of both, and one more of them while the old one is still held.
    most = min(device.cl.max_mem_alloc_size, device.cl.global_mem_size // 8) // one
    if batch > most:
        raise ShapeError(
            f"--batch {batch}: crops of {batch * one / 1e9:.1f} GB; expected at most {most}, "
            f"as {device.name} has {device.cl.global_mem_size / 1e9:.1f} GB"
        )


def _crops(photograph: Host, batch: int) -> Host:
    """Cuts (batch, 3, 224, 224) out at fixed random places, pixels from 0 to 1."""
    random = np.random.default_rng(0)
    crops = np.empty((batch, 3, SIZE, SIZE), np.float32)
    for crop in crops:
        top, left = random.integers(0, [edge - SIZE + 1 for edge in photograph.shape[:2]])
        window = photograph[top : top + SIZE, left : left + SIZE, :3]
        if random.random() < 0.5:
            window = window[:, ::-1]
        crop[...] = window.transpose(2, 0, 1) / np.float32(255)
    return crops


def _show(images: Host, y: cp.Array) -> None:
    """Saves some crops with what became of them below, and shows them in terminals that can."""
    few = min(len(images), SHOWN)
    before = images[:few]
    # Three deviations to either side of the mean.
    after = np.clip(y[:few].get() / 6 + 0.5, 0, 1)
    rows = [np.concatenate(list(row), axis=2) for row in (before, after)]
    pixels = np.rint(255 * np.concatenate(rows, axis=1)).astype(np.uint8).transpose(1, 2, 0)
    handle, name = tempfile.mkstemp(prefix="clprim-demo-", suffix=".png")
    with os.fdopen(handle, "wb") as file:
        file.write(png(pixels))
    print(f"\n{terminal_picture(pixels)}saved: {name} (crops, and their normalisation below)")


# --- the kernel ----------------------------------------------------------------------------------


def _definition() -> str:
    """The source text of the two operators, without the function around it."""
    body = inspect.getsource(_operators).split("\n", 2)[2]
    return textwrap.dedent(body[: body.rindex("    return")]).rstrip() + "\n"


# --- the check -----------------------------------------------------------------------------------


def _check(images: Host, s: cp.Array, s2: cp.Array, y: cp.Array) -> bool:
    """Compares with NumPy; rounding errors of a chain of additions grow as its length's root."""
    exact = images.astype(np.float64)
    axes = (0, 2, 3)
    mean, variance = exact.mean(axes, keepdims=True), exact.var(axes, keepdims=True)
    sums_allowed = float(np.finfo(np.float32).eps) * CHAIN**0.5
    # The variance is a difference of squares: what they cancel, their errors do not.
    cancelled = float(((mean**2 + variance) / variance).max())
    largest = float(np.abs((exact - mean) / np.sqrt(variance)).max())
    checks = [
        ("Σx", s.get(), exact.sum(axes, keepdims=True), sums_allowed),
        ("Σx²", s2.get(), (exact**2).sum(axes, keepdims=True), sums_allowed),
    ]
    rows: list[list[object] | None] = []
    right = True
    for name, found, expected, allowed in checks:
        error = float(np.abs(found / expected - 1).max())
        right = right and error <= allowed
        rows.append(
            [name, f"{error:.1e} of the value", f"{allowed:.1e}", _verdict(error <= allowed)]
        )
    allowed = sums_allowed * cancelled * largest
    error = float(np.abs(y.get() - (exact - mean) / np.sqrt(variance + 1e-5)).max())
    right = right and error <= allowed
    rows.append(["normalised", f"{error:.1e}", f"{allowed:.1e}", _verdict(error <= allowed)])
    print(format_table(["result", "largest error", "allowed", ""], rows, align="lrrl"))
    return right


def _verdict(good: bool) -> str:
    return "right" if good else "WRONG"


# --- the race ------------------------------------------------------------------------------------


def _race(
    images: Host,
    arrays: dict[str, cp.Array],
    sums: cp.Reduction,
    normalise: cp.Pointwise,
    runs: int,
) -> None:
    axes = (0, 2, 3)
    pixels = images.size // images.shape[1]

    def clprim_sums(x: cp.Array) -> None:
        sums(x, axis=axes)
        cp.synchronize()

    def clprim_both(x: cp.Array) -> None:
        s, s2 = sums(x, axis=axes, keepdims=True)
        normalise(x, s, s2, 1 / pixels, 1e-5)
        cp.synchronize()

    def numpy_both() -> None:
        mean, variance = images.mean(axes, keepdims=True), images.var(axes, keepdims=True)
        (images - mean) / np.sqrt(variance + np.float32(1e-5))

    def torch_sums(t: Any) -> None:
        t.sum(axes)
        (t * t).sum(axes)

    statistics_of: Competitors = [
        ("clprim, one pass", {f: partial(clprim_sums, x) for f, x in arrays.items()}),
        ("NumPy, mean and var", {"NCHW": lambda: (images.mean(axes), images.var(axes))}),
    ]
    normalised: Competitors = [
        ("clprim, both kernels", {f: partial(clprim_both, x) for f, x in arrays.items()}),
        ("NumPy", {"NCHW": numpy_both}),
    ]
    torch = _torch()
    if torch is not None:
        peer = f"PyTorch {torch.__version__.split('+')[0]}"
        first = torch.from_numpy(images)
        tensors = {"NCHW": first, "NHWC": first.contiguous(memory_format=torch.channels_last)}
        norm = partial(torch.nn.functional.batch_norm, training=True)
        statistics_of += [
            (
                f"{peer}, var_mean",
                {f: partial(torch.var_mean, t, axes) for f, t in tensors.items()},
            ),
            (f"{peer}, sum twice", {f: partial(torch_sums, t) for f, t in tensors.items()}),
        ]
        normalised.append(
            (f"{peer}, batch_norm", {f: partial(norm, t, None, None) for f, t in tensors.items()})
        )
    _table("per-channel statistics", statistics_of, runs)
    print()
    _table("statistics and normalisation", normalised, runs)
    if torch is None:
        print("\nPyTorch is not installed, so it does not take part.")
    print(
        "\nMilliseconds, medians of runs in turn; × is how many times clprim's time of its column."
    )


def _torch() -> ModuleType | None:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def _table(title: str, competitors: Competitors, runs: int) -> None:
    """Times everybody and prints milliseconds.

    They take turns, so that a noisy moment hits all. A turn is some runs long and the first one
    does not count: the threads of who ran before may still be spinning on all cores.
    """
    formats = ("NCHW", "NHWC")
    entries = {(name, f): go for name, forms in competitors for f, go in forms.items()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in entries}
    for turn in range(-(-runs // TURN)):
        for key, go in entries.items():
            time.sleep(PAUSE)
            go()
            for _ in range(min(TURN, runs - turn * TURN)):
                start = time.perf_counter()
                go()
                times[key].append(1e3 * (time.perf_counter() - start))
    medians = {key: statistics.median(found) for key, found in times.items()}
    own = competitors[0][0]
    rows: list[list[object] | None] = []
    for name, _ in competitors:
        row: list[object] = [name]
        for f in formats:
            taken = medians.get((name, f))
            row += (
                ["-", ""] if taken is None else [f"{taken:.2f}", f"{taken / medians[own, f]:.1f}×"]
            )
        longest = max(medians.values())
        row.append("█" * max(1, round(BAR * medians[name, "NCHW"] / longest)))
        rows.append(row)
    headers = [title, "NCHW", "", "channels_last", "", "NCHW"]
    print(format_table(headers, rows, align="lrrrrl"))


# --- printing ------------------------------------------------------------------------------------


def _heading(text: str) -> None:
    print(f"\n{colour(f'── {text} '.ljust(WIDTH, '─'), '1;36')}\n")


def _dim(text: str) -> str:
    return colour(text, "2")


def _megabytes(array: Host) -> str:
    return f"{array.nbytes / 1e6:.1f} MB"
