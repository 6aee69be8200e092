"""What ``python -m bench depthwise`` measures: every depthwise layer of published networks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from bench.clock.compute import Promise
from bench.clock.timing import race, ratio, stream
from bench.page.report import Table
from bench.peers.compute import Packs
from bench.peers.peer import Inputs
from bench.work.conv import FORMATS, Conv
from clprim import ops
from clprim.errors import DeviceError
from clprim.runtime.ceilings import best, copy_candidates
from clprim.runtime.device import Device
from clprim.tune.depthwise import DEPTHWISE, layer_of
from clprim.tune.networks import Layer

_WHAT = {"forward": "forward", "input": "gradient by input", "weight": "gradient by weight"}
# Promised are these layers only, at this batch.
_PROMISED = "mobilenet-v2", 8
# Layers whose input and result are larger than this many caches come from memory.
_LARGE = 1


class Grouped(Packs):
    """This project's products of matrices, one a group."""

    name = "clprim, grouped products"
    remarks: ClassVar = {"conv_forward": "`conv2d` with `algorithm=` that of other convolutions"}
    # forward says how much there is to gain
    gemm = conv_input = conv_weight = inverted_residual = None

    def conv_forward(self, workload: Conv, inputs: Inputs) -> Callable[[], Any] | None:
        """The weight is packed beforehand."""
        x, w = inputs.device
        options = workload.options
        others = {"depthwise", "winograd"}  # the same kernel, and what is no product of matrices
        name = next(n for n in ops.conv2d.algorithms(x, w, **options) if n not in others)
        w = ops.pack_weight(w, groups=workload.layer.groups)
        out = ops.conv2d(x, w, algorithm=name, **options)
        return lambda: ops.conv2d(x, w, out=out, algorithm=name, **options)


def depthwise_jobs(
    device: Device,
    *,
    networks: Iterable[str],
    batch: int | None = None,
    formats: Sequence[str] = tuple(FORMATS),
    directions: Sequence[str] = ("forward",),
    quick: bool = False,
) -> list[Conv]:
    """Return the rows of a table of each network, direction and format.

    Args:
        device: Where; what is promised depends on it.
        networks: Keys of `DEPTHWISE`.
        batch: Images; None for what the network is usually measured with.
        formats: Keys of `FORMATS`.
        directions: Of `bench.work.conv.DIRECTIONS`.
        quick: Whether to make everything tiny: few channels and pixels of one image.
    """
    jobs = []
    for name in networks:
        network = DEPTHWISE[name]
        layers = _tiny(network.layers) if quick else network.layers
        for images in (batch,) if batch else (1,) if quick else network.batches:
            for direction in directions:
                for memory_format in formats:
                    known = FORMATS[memory_format]
                    group = f"{network.title}, batch {images}, {known}, {_WHAT[direction]}"
                    promised = (name, 8 if quick else images) == _PROMISED
                    kept = _promises(device, memory_format, direction) if promised else ()
                    jobs += [
                        Conv(row, images, memory_format, direction, group, kept) for row in layers
                    ]
    return jobs


def _promises(device: Device, memory_format: str, direction: str) -> tuple[Promise, ...]:
    """Return what is promised of MobileNetV2 on this device, beside peers on the same processor."""
    if not device.traits.is_cpu:
        return ()
    if direction != "forward":
        return (Promise("oneDNN", mean=1.5),)
    grouped = Promise(Grouped.name, mean=3)
    if memory_format == "channels_last":
        return (Promise("oneDNN prepacked", mean=1.05, least=0.9), grouped)
    return (Promise("oneDNN", mean=2.5), grouped)


def _tiny(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return one small layer of each kind: kernel, stride, dilation."""
    found: dict[tuple[int, int, int], Layer] = {}
    for layer in layers:
        kind = (layer.kernel, layer.stride, layer.dilation)
        small = layer_of(20, layer.kernel + 4, *kind[:2], layer.count, layer.dilation)
        found.setdefault(kind, small)
    return tuple(found.values())


def bandwidth_table(
    jobs: Sequence[Conv], device: Device, *, repeats: int, progress: Callable[[str, float], None]
) -> Table | None:
    """Return forward layers that are larger than the cache beside a copy of as many bytes.

    Args:
        jobs: All rows.
        device: Where; the current one.
        repeats: Runs of each contender.
        progress: Told what is under way.
    """
    lines = []
    for job in jobs:
        moved = 4 * (_elements(job.input_shape) + _elements(job.result_shape))
        if job.direction != "forward" or moved < _LARGE * device.traits.cache_bytes:
            continue
        progress(f"{job.group}: {job.title}: beside a copy", 0)
        try:
            copy, _ = best(copy_candidates(device, moved // 2))
        except DeviceError:
            continue
        own = Packs(device)
        inputs = Inputs(job)
        call = own.conv_forward(job, inputs)
        events: deque[Any] = deque(maxlen=1)  # of a queue that works in order, the last one will do
        ceiling = stream(
            "copy",
            copy.work,
            lambda copy=copy, events=events: events.append(copy.enqueue()),
            lambda events=events: events[0].wait(),
        )
        mine = stream(own.name, moved, call, own.finish)
        results = race([mine, ceiling], repeats)
        share = ratio(results[own.name], results["copy"], "host")
        rates = [results[name].rate("host") / 1e9 for name in (own.name, "copy")]
        lines.append(
            (
                f"{job.title}, {FORMATS[job.memory_format]}",
                f"{moved / 1e6:.1f}",
                *(f"{rate:.1f}" for rate in rates),
                f"{share.median:.0%} ({100 * share.low:.0f} to {100 * share.high:.0f})",
            )
        )
    if not lines:
        return None
    title = "Layers larger than the cache: bytes of input and result, next to a copy of as many"
    return Table(title, ("", "MB", "clprim GB/s", "copy GB/s", "share of the copy"), tuple(lines))


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
