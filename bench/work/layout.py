"""Operators that only move memory, beside the best copy kernel and PyTorch."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import clprim as cp
from bench.clock.bandwidth import Ceilings, Row
from bench.clock.timing import host_call, measured_call, race, ratio
from bench.page.targets import Target, judge
from bench.peers.peer import Peer
from bench.work.workloads import Workload
from clprim import ops
from clprim.runtime.device import Device

SHUFFLE = Target("share", 0.85, "of the best copy kernel")
FORMAT = Target("share", 0.80, "of the best copy kernel, between formats")

FORMATS = ("contiguous", "channels_last")


@dataclass(frozen=True)
class Move(Workload):
    """A row: every element is read once and written once.

    Attributes:
        dtype: Of the elements.
        factor: Block, or groups.
        mode: Of `depth_to_space` and `space_to_depth`.
        to_format: Of `contiguous`.
    """

    dtype: str = field(default="float32", kw_only=True)
    factor: int = field(default=1, kw_only=True)
    mode: str = field(default="", kw_only=True)
    to_format: str = field(default="", kw_only=True)

    @property
    def nbytes(self) -> int:
        """What must be moved."""
        return 2 * math.prod(self.shapes[0]) * np.dtype(self.dtype).itemsize

    def inputs(self) -> tuple[np.ndarray[Any, Any], cp.Array]:
        """Return the input on the host and on the device, in its format."""
        shape = self.shapes[0]
        host = np.random.default_rng(0).integers(0, 100, shape, np.uint8).astype(self.dtype)
        if self.memory_format == "channels_last":
            host = np.ascontiguousarray(host.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        return host, cp.asarray(host)

    def call(self, x: cp.Array) -> Callable[[], cp.Array]:
        """Return what computes the result into memory that is there."""
        if self.op == "contiguous":
            out = cp.empty(x.shape, x.dtype, memory_format=self.to_format)

            def convert() -> cp.Array:
                out[...] = x  # as `ops.contiguous` does, but for the allocation
                return out

            return convert
        arguments = (self.factor, self.mode) if self.mode else (self.factor,)
        operator = getattr(ops, self.op)
        out = operator(x, *arguments)
        return lambda: operator(x, *arguments, out=out)

    def reference(self, host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return NumPy's result."""
        n, c, h, w = host.shape
        r = self.factor
        if self.op == "depth_to_space":
            dcr = self.mode == "DCR"
            split = host.reshape((n, r, r, -1, h, w) if dcr else (n, -1, r, r, h, w))
            axes = (0, 3, 4, 1, 5, 2) if dcr else (0, 1, 4, 2, 5, 3)
            return split.transpose(axes).reshape(n, -1, h * r, w * r)
        if self.op == "space_to_depth":
            split = host.reshape(n, c, h // r, r, w // r, r)
            axes = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
            return split.transpose(axes).reshape(n, -1, h // r, w // r)
        if self.op == "channel_shuffle":
            return host.reshape(n, r, c // r, h, w).swapaxes(1, 2).reshape(host.shape)
        return host


class Torch(Peer):
    """PyTorch on all threads of the CPU, whatever the device."""

    name = "PyTorch"
    missing = "" if importlib.util.find_spec("torch") else "torch is not installed"
    remarks: ClassVar = {
        "depth_to_space": "`pixel_shuffle` on the CPU, which has no mode DCR",
        "space_to_depth": "`pixel_unshuffle`, likewise",
        "channel_shuffle": "`channel_shuffle`",
        "contiguous": "`x.contiguous(memory_format=…)`",
    }

    def move(self, workload: Move, host: np.ndarray[Any, Any]) -> Callable[[], Any] | None:
        """Return PyTorch's call, or None where it has none."""
        if self.missing or workload.mode == "DCR":
            return None
        import torch
        from torch.nn import functional

        x = torch.from_numpy(host)
        if workload.op == "contiguous":
            last = workload.to_format == "channels_last"
            kind = torch.channels_last if last else torch.contiguous_format
            return lambda: x.contiguous(memory_format=kind)
        function = {
            "depth_to_space": functional.pixel_shuffle,
            "space_to_depth": functional.pixel_unshuffle,
            "channel_shuffle": functional.channel_shuffle,
        }[workload.op]
        return lambda: function(x, workload.factor)


def layout_workloads(*, quick: bool = False) -> tuple[Move, ...]:
    """Return the rows of ``python -m bench layout``; ``quick`` ones are tiny."""
    if quick:
        return (
            *_shuffles((1, 16, 6, 20), 2, "float32"),
            *_formats((2, 16, 5, 8), "float32"),
            *_channels((2, 16, 5, 8), 2),
        )
    return (
        *_shuffles((8, 64, 180, 320), 2, "float32"),
        *_shuffles((8, 48, 90, 320), 4, "float32"),
        *_shuffles((16, 64, 180, 320), 2, "float16"),
        *_shuffles((32, 12, 360, 640), 2, "uint8"),
        *_shuffles((4, 27, 201, 319), 3, "float32", judged=False),
        *_formats((64, 128, 56, 56), "float32"),
        *_formats((64, 3, 448, 448), "float32"),
        *_formats((128, 128, 56, 56), "float16"),
        *_formats((16, 67, 113, 211), "float32", judged=False),
        *_channels((64, 128, 56, 56), 2),
    )


def _shuffles(
    shape: tuple[int, ...], block: int, dtype: str, *, judged: bool = True
) -> Iterable[Move]:
    n, c, h, w = shape
    for op in ("depth_to_space", "space_to_depth"):
        given = shape if op == "depth_to_space" else (n, c // block**2, h * block, w * block)
        for memory_format in FORMATS:
            for mode in ("DCR", "CRD"):
                yield Move(
                    f"{op}-{dtype}-{c}x{h}x{w}-{memory_format}-{mode}",
                    f"{memory_format}, {mode}",
                    f"{op} by {block} of {given}, {dtype}",
                    op,
                    (given,),
                    memory_format=memory_format,
                    targets=(SHUFFLE,) if judged else (),
                    beyond_cache=True,
                    dtype=dtype,
                    factor=block,
                    mode=mode,
                )


def _formats(shape: tuple[int, ...], dtype: str, *, judged: bool = True) -> Iterable[Move]:
    for given, wanted in (FORMATS, FORMATS[::-1]):
        yield Move(
            f"contiguous-{dtype}-{'x'.join(map(str, shape))}-{wanted}",
            f"{given} to {wanted}",
            f"contiguous: {shape}, {dtype}",
            "contiguous",
            (shape,),
            memory_format=given,
            targets=(FORMAT,) if judged else (),
            beyond_cache=True,
            dtype=dtype,
            to_format=wanted,
        )


def _channels(shape: tuple[int, ...], groups: int) -> Iterable[Move]:
    for memory_format in FORMATS:
        yield Move(
            f"channel_shuffle-{memory_format}",
            memory_format,
            f"channel_shuffle: {shape}, {groups} groups",
            "channel_shuffle",
            (shape,),
            memory_format=memory_format,
            beyond_cache=True,
            factor=groups,
        )


def run_layout(
    workloads: Sequence[Move],
    device: Device,
    *,
    repeats: int,
    quick: bool,
    progress: Callable[[str, float], None],
) -> tuple[list[Row], list[Peer], list[str]]:
    """Measure all rows; see `bench.clock.bandwidth.run_bandwidth` for arguments and results."""
    ceilings, torch = Ceilings(device), Torch(device)
    rows, refused = [], []
    part = 1 / (len(workloads) * repeats)
    for workload in workloads:
        about = f"{workload.group}: {workload.title}"
        progress(about, 0)
        try:
            rows.append(
                _measure(
                    workload,
                    device,
                    ceilings,
                    torch,
                    repeats=repeats,
                    quick=quick,
                    tick=lambda about=about: progress(about, part),
                )
            )
        except cp.DeviceError as error:
            refused.append(f"{about}: not measured: {error}")
        device.pool.free_held()
    return rows, [torch], refused


def _measure(
    workload: Move,
    device: Device,
    ceilings: Ceilings,
    torch: Torch,
    *,
    repeats: int,
    quick: bool,
    tick: Callable[[], None],
) -> Row:
    host, x = workload.inputs()
    call = workload.call(x)
    correct = np.array_equal(call().get(), workload.reference(host))
    finalists = ceilings.finalists("copy", workload.nbytes)
    contenders = [measured_call("clprim", workload.nbytes, call, device), *finalists]
    other = torch.move(workload, host)
    if other is not None:
        contenders.append(host_call(torch.name, workload.nbytes, other, torch.finish))
    results = race(contenders, repeats, before=ceilings.before(workload.nbytes), tick=tick)
    mine = results["clprim"]
    best = max((results[f.name] for f in finalists), key=lambda result: result.rate("device"))
    share = ratio(mine, best, "device")
    fits = workload.beyond_cache and workload.nbytes <= device.traits.cache_bytes
    excuse = "--quick" if quick else "fits the cache" if fits else ""
    return Row(
        workload,
        rate=mine.rate("device"),
        rate_with_launch=mine.rate("host"),
        ceiling=best.rate("device"),
        ceiling_name=best.name.removeprefix("ceiling: "),
        share=share,
        peers={torch.name: results[torch.name].rate("host") if other else None},
        verdicts=tuple(judge(workload.targets, workload.title, {"share": share.median}, excuse)),
        correct=correct,
    )
