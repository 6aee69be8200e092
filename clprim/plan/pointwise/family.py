"""The strategies of elementwise kernels, in order of preference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from clprim.language.definition import define_pointwise
from clprim.plan.conv.dense import CPU
from clprim.plan.pointwise.planner import Mapped, plan_tiled, plan_walked
from clprim.plan.strategy import Example, Family, Strategy, single
from clprim.plan.strides import Operand, dense_array

_COMPLEX64 = np.dtype(np.complex64)


def _map(text: str, *inputs: Operand, out: Operand | None = None, scalars: int = 0) -> Mapped:
    definition = define_pointwise(text, name=None, preamble="")
    result = dense_array(inputs[0].shape) if out is None else out
    numbers = (np.dtype(np.float32),) * scalars
    return Mapped(definition, result.shape, (result,), inputs, numbers)


def _examples_transpose() -> Iterator[Example[Mapped]]:
    shape, narrow = (8, 64, 400, 500), replace(CPU, vector_bytes=16)
    last = dense_array(shape, order=(0, 2, 3, 1))
    yield Example("", _map("y0 = x0;", dense_array(shape), out=last), narrow)


def _examples_rows() -> Iterator[Example[Mapped]]:
    """A part of a picture: short rows."""
    whole = dense_array((64, 64, 64))
    part = replace(whole, shape=(64, 50, 50), offset=4 * whole.dtype.itemsize)
    yield Example("", _map("y0 = x0 + 1;", part), CPU)


def _examples_periodic() -> Iterator[Example[Mapped]]:
    image = dense_array((2, 3, 20, 20), order=(0, 2, 3, 1))
    yield Example("", _map("y0 = x0 + x1;", image, dense_array((3, 1, 1)), out=image), CPU)


def _examples_elements() -> Iterator[Example[Mapped]]:
    line = dense_array((100,))
    yield Example("", _map("y0 = x0 * w0 + x1;", line, line, scalars=1), CPU)
    pairs = dense_array((100,), dtype=_COMPLEX64)
    yield Example(
        "complex", _map("y0 = x0 * conj(x1) / w0;", pairs, pairs, out=pairs, scalars=1), CPU
    )


def _strategy(
    name: str, plan: Callable[..., Any], examples: Callable[[], Any], needs: str = ""
) -> Strategy[Mapped]:
    return single(name, partial(plan, name), examples, needs)


POINTWISE: Family[Mapped] = Family(
    "pointwise",
    None,
    (
        _strategy("pointwise/transpose", plan_tiled, _examples_transpose, "two orders in memory"),
        _strategy("pointwise/rows", plan_tiled, _examples_rows, "short rows on a CPU"),
        _strategy("pointwise/periodic", plan_walked, _examples_periodic, "values that repeat"),
        _strategy("pointwise/elements", plan_walked, _examples_elements),
    ),
)
