"""A super-resolution network whose convolutions store pixels, beside forms of it that move memory.

The network is the one of a report to a compiler, which spent a quarter of its time in transposes on
it (apache/tvm, issue 4523), with fewer pixels: 3 × 3 convolutions with a bias, residual blocks, and
two enlargements by 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import clprim as cp
from bench.clock.timing import (
    Contender,
    Result,
    Sample,
    Spread,
    host_call,
    race,
    ratio,
    spread,
    stream,
)
from bench.peers.compute import fetch, keep_memory
from bench.peers.peer import Peer
from bench.peers.subpixel import subpixel_peers
from clprim import ops
from clprim.runtime.device import Device
from clprim.runtime.profile import KernelEvent

# (channels, outputs, block of the depth_to_space after it, times as many pixels a side as the
# input): a first convolution, two residual blocks, one more before the long shortcut, two
# enlargements, a last one.
LAYERS = (
    (3, 64, 1, 1),
    *(((64, 64, 1, 1),) * 5),
    (64, 128, 2, 1),
    (32, 64, 2, 2),
    (16, 3, 1, 4),
)
_SIZES = ((90, 160), (180, 320))
_QUICK_SIZES = ((6, 10),)

LEAKY = "y0 = max(y0, 0.1f * y0);"
ADD = "y0 = y0 + x0;"

_SAMPLE = 0.05  # seconds of a sample of one convolution
_CALM = 0.1  # PyTorch's threads spin for a while after their work
_FORMATS = {"NHWC": "channels_last", "NCHW": "contiguous"}


@dataclass(frozen=True)
class Form:
    """A way to run the network.

    Attributes:
        layout: Of its input and result.
        how: ``fused``: convolutions store the pixels. ``separate``: `ops.depth_to_space` does.
            ``transposing``: it does so in NCHW, and what it reads and writes is converted, as where
            an operator has no other layout. ``converted``: fused, in the other layout, with input
            and result converted.
    """

    layout: str
    how: str

    @property
    def title(self) -> str:
        """For readers."""
        return f"{self.how}, {self.layout}"


FORMS = (
    Form("NHWC", "fused"),
    Form("NHWC", "separate"),
    Form("NHWC", "transposing"),
    Form("NCHW", "fused"),
    Form("NCHW", "separate"),
    Form("NCHW", "converted"),
)


class Network:
    """The network, with weights drawn at random; they are packed when they are first used.

    Attributes:
        host: The weight and bias of every layer.
    """

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.host = [
            (
                (random.standard_normal((o, c, 3, 3)) * (2 / (9 * c)) ** 0.5).astype(np.float32),
                random.standard_normal(o).astype(np.float32) / 8,
            )
            for c, o, _, _ in LAYERS
        ]
        self._device = [(ops.pack_weight(cp.asarray(w)), cp.asarray(b)) for w, b in self.host]

    def run(self, x: cp.Array, how: str) -> cp.Array:
        """Return pictures (N, 3, 4H, 4W), given (N, 3, H, W); for ``how`` see `Form`."""
        if how == "converted":
            y = self.run(ops.contiguous(x, memory_format="channels_last"), "fused")
            return ops.contiguous(y, memory_format="contiguous")
        first, *body, large, larger, last = self._device
        h = t = ops.conv2d(x, *first, padding=1)
        for one, other in (body[0:2], body[2:4]):
            r = ops.conv2d(t, *one, padding=1, epilogue=LEAKY)
            t = ops.conv2d(r, *other, padding=1, epilogue=ADD, epilogue_args=(t,))
        t = ops.conv2d(t, *body[4], padding=1, epilogue=ADD, epilogue_args=(h,))
        t = _enlarged(_enlarged(t, large, how), larger, how)
        return ops.conv2d(t, *last, padding=1)


def _enlarged(x: cp.Array, weight: tuple[object, cp.Array], how: str) -> cp.Array:
    """A convolution whose outputs become squares of 2 × 2 pixels."""
    if how == "fused":
        return ops.conv2d(x, *weight, padding=1, depth_to_space=2, mode="CRD")
    y = ops.conv2d(x, *weight, padding=1)
    if how == "transposing":
        y = ops.depth_to_space(ops.contiguous(y, memory_format="contiguous"), 2, "CRD")
        return ops.contiguous(y, memory_format="channels_last")
    return ops.depth_to_space(y, 2, "CRD")


@dataclass(frozen=True)
class Launches:
    """The kernels of one run, as the profile names them.

    Attributes:
        convolutions: Kernels of convolutions.
        shuffles: Of `ops.depth_to_space` on its own.
        conversions: Of anything else: here, changes of the memory format.
        seconds: Of the convolutions, on the device.
    """

    convolutions: int
    shuffles: int
    conversions: int
    seconds: float

    @staticmethod
    def of(events: Sequence[KernelEvent]) -> Launches:
        """Count a profile's kernels."""
        convolutions = [event for event in events if event.name.startswith("conv2d")]
        shuffles = sum(event.name == "depth_to_space" for event in events)
        others = len(events) - len(convolutions) - shuffles
        return Launches(
            len(convolutions), shuffles, others, sum(event.seconds for event in convolutions)
        )


@dataclass(frozen=True)
class SizeRow:
    """What was measured of the network on pictures of one size.

    Attributes:
        size: Height and width.
        flops: Of a run; a multiply-add counts as two.
        seconds: Of every form of clprim and of every peer, on the host's clock.
        launches: Of every form of clprim.
        outside: Part of a run's time in which no kernel of a convolution ran, likewise.
        times: How many times as fast as each peer the fused form in the peer's layout is, compared
            round by round; and as each other form of the same layout.
        wrong: Whose results differ.
    """

    size: tuple[int, int]
    flops: int
    seconds: dict[str, float]
    launches: dict[str, Launches]
    outside: dict[str, Spread]
    times: dict[str, Spread]
    wrong: tuple[str, ...]

    @property
    def title(self) -> str:
        """For readers."""
        return f"{self.size[0]} × {self.size[1]}"


@dataclass(frozen=True)
class StoreRow:
    """A convolution that stores squares, beside the same one that does not.

    Attributes:
        title: The convolution's.
        layout: Of the pictures.
        seconds: With shuffled stores.
        ratio: How many times as long as with plain stores, compared round by round.
    """

    title: str
    layout: str
    seconds: float
    ratio: Spread


def _flops(height: int, width: int) -> int:
    return sum(2 * 9 * c * o * height * width * times**2 for c, o, _, times in LAYERS)


def _picture(channels: int, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random((1, channels, *size), np.float32)


def _profiled(name: str, call: Callable[[], object], device: Device) -> Contender:
    """A contender whose device's time is that of kernels of convolutions."""

    def run() -> Sample:
        with cp.profile(device) as profile:
            start = time.perf_counter()
            call()
            device.synchronize()
            host = time.perf_counter() - start
        return Sample(host, Launches.of(profile.events).seconds)

    return Contender(name, 1, run)


def _near(found: Any, expected: Any) -> bool:
    """Whether results are the same, but for rounding: formats may have algorithms of their own."""
    return np.allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def _measure(
    network: Network,
    size: tuple[int, int],
    peers: Sequence[Peer],
    device: Device,
    *,
    repeats: int,
    tick: Callable[[], None],
) -> SizeRow:
    host = _picture(3, size)
    flops = _flops(*size)
    inputs = {n: cp.asarray(host, memory_format=f) for n, f in _FORMATS.items()}
    calls = {
        form.title: (lambda form=form: network.run(inputs[form.layout], form.how)) for form in FORMS
    }
    expected = calls[FORMS[0].title]().get()
    launches, wrong = {}, []
    for title, call in calls.items():
        if not _near(call().get(), expected):
            wrong.append(title)
        with cp.profile(device) as profile:
            call()
        launches[title] = Launches.of(profile.events)
    contenders = [host_call(t, flops, call, device.synchronize) for t, call in calls.items()]
    clocked = [_profiled(f"{t}, profiled", call, device) for t, call in calls.items()]
    for peer in peers:
        call = None if peer.missing else peer.network(network.host, host)
        if call is not None:
            if not _near(fetch(call()), expected):
                wrong.append(peer.name)
            contenders.append(host_call(peer.name, flops, call, lambda: None))
    time.sleep(_CALM)
    results = race([*contenders, *clocked], repeats, tick=tick)
    return SizeRow(
        size,
        flops,
        seconds={c.name: median(results[c.name].seconds("host")) for c in contenders},
        launches=launches,
        outside={t: _outside(results[f"{t}, profiled"]) for t in calls},
        times={
            c.name: ratio(results[_own(c.name)], results[c.name], "host")
            for c in contenders
            if c.name != _own(c.name)
        },
        wrong=tuple(wrong),
    )


def _own(name: str) -> str:
    """The fused form in the layout of a form or of a peer."""
    return next(form.title for form in FORMS if form.layout in name)


def _outside(result: Result) -> Spread:
    pairs = zip(result.seconds("device"), result.seconds("host"), strict=True)
    return spread([1 - kernels / whole for kernels, whole in pairs])


def _stores(
    network: Network,
    size: tuple[int, int],
    device: Device,
    *,
    repeats: int,
    tick: Callable[[], None],
) -> list[StoreRow]:
    rows = []
    for layer, (channels, outputs, block, times) in enumerate(LAYERS):
        if block == 1:
            continue
        height, width = (side * times for side in size)
        w, b = (cp.asarray(array) for array in network.host[layer])
        packed = ops.pack_weight(w)
        for layout, memory_format in _FORMATS.items():
            x = cp.asarray(_picture(channels, (height, width)), memory_format=memory_format)
            outs = [ops.conv2d(x, packed, b, padding=1, depth_to_space=r) for r in (None, block)]
            contenders = [
                stream(
                    name,
                    1,
                    lambda x=x, packed=packed, b=b, r=r, out=out: ops.conv2d(
                        x, packed, b, padding=1, depth_to_space=r, out=out
                    ),
                    device.synchronize,
                    seconds=_SAMPLE,
                )
                for name, r, out in zip(("plain", "shuffled"), (None, block), outs, strict=True)
            ]
            results = race(contenders, repeats, tick=tick)
            rows.append(
                StoreRow(
                    f"{channels}→{outputs} of {height} × {width}",
                    layout,
                    median(results["shuffled"].seconds("host")),
                    ratio(results["plain"], results["shuffled"], "host"),
                )
            )
    return rows


def run_subpixel(
    device: Device,
    *,
    repeats: int,
    quick: bool,
    progress: Callable[[str, float], None],
) -> tuple[list[SizeRow], list[StoreRow], list[Peer]]:
    """Measure everything.

    Args:
        device: Where; the current one.
        repeats: Runs of each contender.
        quick: Whether pictures are to be tiny.
        progress: Told what is under way and by which part of the whole it has just moved on.

    Returns:
        The networks, the convolutions that store pixels, and the peers.
    """
    keep_memory()
    network, peers = Network(), subpixel_peers(device)
    sizes = _QUICK_SIZES if quick else _SIZES
    rows, stores = [], []
    # Six parts of a size: the network counts as much as two convolutions in two layouts.
    part = 1 / (len(sizes) * 6 * repeats)
    for size in sizes:
        about = f"{size[0]} × {size[1]} pixels"
        progress(about, 0)

        def tick(parts: int, about: str = about) -> Callable[[], None]:
            return lambda: progress(about, parts * part)

        rows.append(_measure(network, size, peers, device, repeats=repeats, tick=tick(2)))
        stores += _stores(network, size, device, repeats=repeats, tick=tick(1))
        device.pool.free_held()
    return rows, stores, peers
