"""A row of a page: what is computed, on what, by whom."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import clprim as cp

Host = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Call = Callable[[], Any]
#: Makes a contender's call of a case's data; None where the library has no such call.
Make = Callable[[Any], Call | None]
Options = argparse.Namespace

_TESTS = Path(__file__).resolve().parents[1] / "tests"
#: For `Case.nbytes`: everything that is given and returned, once each.
ALL = -1
#: Memory formats, with the names that readers know them by.
FORMATS = {"channels_last": "NHWC", "contiguous": "NCHW"}


def last(array: Host) -> Host:
    """Return an image (N, C, H, W) whose channels lie next to each other."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def whole(shape: Shape, memory_format: str = "", seed: int = 0, most: int = 4) -> Host:
    """Return small whole numbers, of which float32 holds sums up to 2²⁴ exactly in any order."""
    found = np.random.default_rng(seed).integers(-most, most + 1, shape, np.int8)
    array = found.astype(np.float32)
    return last(array) if memory_format == "channels_last" else array


def normal(shape: Shape, memory_format: str = "", seed: int = 0) -> Host:
    found = np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)
    return last(found) if memory_format == "channels_last" else found


def of_tests(name: str) -> Any:
    """Return a module that tests share."""
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    return importlib.import_module(name)


def into(operator: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    """Return a call of ours whose results go into memory that is there."""
    return partial(operator, *arguments, out=operator(*arguments, **options), **options)


def marked(call: Call, **facts: Any) -> Call:
    """Return a call that ``differs`` from what others compute, or has a ``finish`` of its own."""
    found = partial(call)
    found.__dict__.update(facts)
    return found


class Data:
    """The arrays of a case, and the same ones in each library that asks for them."""

    def __init__(self, *host: Host) -> None:
        self.host = host

    @cached_property
    def device(self) -> list[Any]:
        return [cp.asarray(array) for array in self.host]

    @cached_property
    def torch(self) -> list[Any]:
        """As tensors: copies, as PyTorch aligns memory as libraries like it, and NumPy does not."""
        return self.tensors("cpu")

    def tensors(self, place: str) -> list[Any]:
        import torch

        return [torch.from_numpy(array).clone().to(place) for array in self.host]


@dataclass(frozen=True)
class Case:
    """One row; the first of its contenders is the one that the others are compared with.

    Attributes:
        group: The table that it stands in.
        title: For readers, unique in its group.
        work: What a call does, in the page's unit.
        data: Makes what all contenders work on.
        makers: By contender.
        expected: Every contender's result; by default that of PyTorch or NumPy, whoever is there.
        tolerance: Of a result, by the largest number in it; None where results are not compared.
        limit: ``copy``, ``read`` or ``peak``: the kernels that show what the device can do; with
            ``calm``, the last one only tells which rounds were disturbed.
        nbytes: That a call moves; of more than the cache holds it is emptied before each sample.
        count: How often the whole has it.
        extra: Further columns, of the data and the first contender's call; ``!`` is a failure.
    """

    group: str
    title: str
    work: float
    data: Callable[[], Any]
    makers: Mapping[str, Make]
    expected: Callable[[Any], Any] | None = None
    tolerance: float | None = 0.0
    limit: str = ""
    nbytes: int = 0
    count: int = 1
    extra: Callable[[Any, Call], dict[str, str]] | None = None

    @property
    def label(self) -> str:
        return f"{self.group}: {self.title}"


@dataclass(frozen=True)
class Page:
    """A command of ``python -m bench`` that times cases.

    Attributes:
        title: For readers.
        unit: Of its rates or times: a key of `bench.table.UNITS`.
        cases: Of the options.
        options: Names of those that it has beside the common ones: see `bench.__main__`.
        note: What is particular about it.
        sample: Seconds that a sample takes at least; 0 for batches of calls that nobody waits for.
        least: Calls of a sample.
        keep: Whether the C library is told to keep freed memory.
        more: Measures further tables, where the whole page is asked for: title, head, rows.
    """

    title: str
    unit: str
    cases: Callable[[Options], list[Case]]
    options: tuple[str, ...] = ()
    note: str = ""
    sample: float = 0.004
    least: int = 1
    keep: bool = True
    more: Callable[[Options], list[tuple[str, list[str], list[list[str]]]]] | None = None


@dataclass
class Row:
    """What was measured of a case: spreads are (median, low, high), by contender.

    Attributes:
        group: Of the case; so are title, work, nbytes and count.
        seconds: Of a call.
        times: How many times as fast as each other contender the first one is, round by round.
        share: Of the limit, likewise.
        limit: What the limit's kernel does in a second.
        error: Of the first one's result.
        wrong: Contenders whose results are others; they are not timed.
        absent: Contenders that could not run it, and why.
        calm: Whether half of the rounds were undisturbed.
        extra: Further columns.
    """

    group: str
    title: str
    work: float
    nbytes: int = 0
    count: int = 1
    seconds: dict[str, Sequence[float]] = field(default_factory=dict)
    times: dict[str, Sequence[float]] = field(default_factory=dict)
    share: Sequence[float] | None = None
    limit: float = 0.0
    error: float = 0.0
    wrong: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    calm: bool = True
    extra: dict[str, str] = field(default_factory=dict)


def elements(shape: Sequence[int]) -> int:
    return math.prod(shape)


def times(*sizes: int) -> str:
    return "×".join(map(str, sizes))
