"""The kernels to build and run: those that tests print, and what users write most, by dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from bench.case import of_tests
from clprim.call.launch import build_options
from clprim.errors import ClprimError
from clprim.plan.kernel import KernelCode, KernelPlan
from clprim.plan.units.unit import MatrixUnit
from clprim.render import render
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits

DTYPES = [np.dtype(t) for t in "f4 f2 f8 i1 u1 i2 u2 i4 u4 i8 u8 ?".split()] + [
    np.dtype(ml_dtypes.bfloat16)
]
# Of the kernels that tests print, those that move or calculate with anything.
_PRINTED = [np.dtype(t) for t in ("f4", "f2", "f8", "i4", "i1", "u1", "i8")] + DTYPES[-1:]
_GROUPS = ("maps", "reductions", "strategies")
_LARGEST = "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }"
_SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
_REDUCTIONS: dict[str, dict[str, Any]] = {
    "sum": {},
    "sum of |x|": {"step": "reduce_y0 += fabs((typeof_reduce_y0)x0);"},
    "sum of exp(x)": {"step": "reduce_y0 += exp((typeof_reduce_y0)x0);"},
    "norm": {"expr": "y0 = x0 * x0;", "finalize": "y0 = sqrt((typeof_y0)reduce_y0);"},
    "number": {"expr": "y0 = x0 != 0;"},
    "product": {"init": "reduce_y0 = 1;", "step": "reduce_y0 *= y0;"},
    "max": {"init": "reduce_y0 = lowest_reduce_y0;", "step": "reduce_y0 = max(reduce_y0, y0);"},
    "argmax": {"init": "reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;", "step": _LARGEST},
    "quotient": {"expr": "y0 = x0 / x1;"},
}
_SHAPES = (
    ((255, 3), (0,)),
    ((5000, 3), (0,)),
    ((300, 15), (0,)),
    ((1000, 64), (0,)),
    ((40, 1000), (1,)),
    ((7, 33), (1,)),
    ((4, 50, 6), (0, 2)),
    ((100_000,), (0,)),
)
_MAPS = (
    "y0 = x0 * w0 + x1;",
    "y0 = exp((typeof_y0)x0);",
    "if (x0 > 0) y0 = x0; else y0 = x1;",
    "y0 = x0 / x1;",
)


@dataclass(frozen=True)
class Kernel:
    """A kernel that may be built: what it is of, what prints it, and its options."""

    name: str
    plan: KernelPlan
    options: bytes
    own: bool


@dataclass(frozen=True)
class Build:
    """A program to build and run: what it is of, and the first plan that prints it."""

    name: str
    plan: KernelPlan
    own: bool = True


def kernels(device: Device) -> Iterator[Kernel]:
    """Yields every kernel once, as it is planned for a device."""
    seen: set[tuple[str, KernelCode]] = set()
    found = [(*one, False) for one in _printed()] + [(*one, True) for one in written(device.traits)]
    for name, plan, own in found:
        if not plan or (plan.template, plan.code) in seen:  # not planned of this dtype, or known
            continue
        seen.add((plan.template, plan.code))
        if plan.code.doubles and not device.traits.fp64:
            continue
        try:
            options = " ".join(build_options(plan.code, device)).encode()
        except ClprimError:  # OpenCL C that the device does not know
            continue
        yield Kernel(f"{plan.template}: {name}", plan, options, own)


def printed(some: Iterable[Kernel], device: Device) -> Iterator[Build]:
    """Yields the programs of kernels, each once, but for what a device's compiler lacks."""
    seen: set[tuple[str, bytes]] = set()
    for kernel in some:
        source = render(kernel.plan.template, kernel.plan.code)
        if kernel.plan.code.doubles and "native_" in source:  # OpenCL C has these of float alone
            continue
        if "sub_group" in source and not device.traits.sub_groups:
            continue
        unit = getattr(kernel.plan.code, "unit", None)
        if isinstance(unit, MatrixUnit) and not unit.emulated:
            continue
        if (source, kernel.options) not in seen:
            seen.add((source, kernel.options))
            yield Build(kernel.name, kernel.plan, kernel.own)


def written(traits: DeviceTraits) -> Iterator[tuple[str, KernelPlan]]:
    """Yields reductions, elementwise kernels and scans of every dtype, as a user gets them."""
    planning, rendered = (of_tests(name) for name in ("planning", "branches"))
    array, floats = planning.array, np.dtype(np.float32)
    for dtype in DTYPES:
        real = dtype if dtype.kind not in "iub" else floats
        for what, strings in _REDUCTIONS.items():
            definition = planning.define(**(_SUM | strings))
            whole = dtype if dtype.kind != "b" else np.dtype(np.int64)
            partial = floats if dtype.itemsize == 2 and dtype.kind not in "iu" else whole
            if what in ("sum of |x|", "sum of exp(x)", "norm"):
                partial = np.dtype(np.float64) if dtype == np.float64 else floats
            partials = [partial, np.dtype(np.int64)][: definition.partials]
            results = [real if partial.kind == "f" else partial, *partials[1:]]
            for shape, axes in _SHAPES:
                inputs = [array(shape, dtype)] * definition.inputs
                given = (inputs, axes, traits, definition, partials, None, results)
                for stage in planning.reduce_plan(*given).stages:
                    yield f"{what} of {dtype.name} {shape} along {axes}", stage
        for text in _MAPS:
            for layout, options in (
                ("", {}),
                ("every second", {"steps": 2}),
                ("transposed", {"order": (1, 0)}),
            ):
                a, b = array((300, 40), dtype, **options), array((300, 40), dtype)
                given = (a, b) if "x1" in text else (a,)
                number = (1.0,) if "w0" in text else ()
                plan = planning.map_plan(text, *given, dtype=real, scalars=number, traits=traits)
                yield f"{text} of {dtype.name} {layout}", plan
        for axis in (0, 1):
            for stage in rendered.scan((300, 70), axis, dtype=dtype, traits=traits):
                yield f"scan of {dtype.name} along {axis}", stage


@lru_cache(maxsize=1)
def _printed() -> tuple[tuple[str, KernelPlan], ...]:
    return tuple(_plans_of_tests())


def _plans_of_tests() -> Iterator[tuple[str, KernelPlan]]:
    """The kernels that tests print, each of every dtype that it is planned for."""
    planning, rendered, branches = map(of_tests, ("planning", "rendered", "branches"))
    for dtype in _PRINTED:
        for group in _GROUPS:
            with planning.stored_as(dtype):
                for name, plan in _all_of(getattr(rendered, group)):
                    for stage in getattr(plan, "stages", (plan,)):
                        yield f"{name} of {dtype.name}", stage
        with planning.stored_as(dtype):
            for n, stages in enumerate(_all_of(branches.plans)):
                for stage in stages:
                    yield f"branch {n} of {dtype.name}", stage


def _all_of(make: Callable[[], Iterator[Any]]) -> list[Any]:
    """What there is before a kernel that cannot be planned of a dtype."""
    found: list[Any] = []
    try:
        for one in make():
            found.append(one)  # noqa: PERF402 - what came before an error counts
    except (ClprimError, AssertionError, AttributeError, TypeError, ValueError):
        pass
    return found
