"""Which matrix units a device has, by products of whole numbers through them; see `probe`.

An extension says which instruction set is tried, and the driver's own program which of its
processors compiles it: what it does not know may end the process.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyopencl as cl

from clprim.plan.kernel import Buffer, KernelPlan
from clprim.plan.product.dense import dense_product
from clprim.plan.product.matrix import plan_matrix
from clprim.plan.product.matrix_tile import MatrixTile
from clprim.plan.units import mma_sync
from clprim.plan.units.known import BEHIND, PARTS, unit_of
from clprim.plan.units.unit import MatrixUnit
from clprim.render import render
from clprim.runtime.query import query_traits

_NOTHING = "__kernel void probe(__global int *a) { a[0] = 1; }"
_TERMS = 4096  # of the sums whose errors are compared


def is_so(queue: cl.CommandQueue, question: str) -> bool:
    """Answers a question of `unit_questions`, in the child."""
    if question == PARTS:
        tf32 = next(unit for unit in mma_sync.UNITS if "tf32" in unit.operands)
        return _may_have(queue, tf32) and adds_parts(queue, tf32)
    unit = unit_of(question)
    return _may_have(queue, unit) and multiplies(queue, unit)


def _may_have(queue: cl.CommandQueue, unit: MatrixUnit) -> bool:
    raw = cl._cl._Program(queue.context, _NOTHING)
    raw._build(options=b"-cl-std=CL1.2", devices=[queue.device])
    (binary,) = cast("list[bytes]", raw.get_info(cl.program_info.BINARIES))
    text = binary.decode(errors="replace")
    patterns = (p for sets in BEHIND.values() for units, p in sets if unit in units)
    return any(re.search(pattern, text) for pattern in patterns)


def multiplies(queue: cl.CommandQueue, unit: MatrixUnit) -> bool:
    """Tells whether a unit's products of whole numbers are right, whichever way operands lie."""
    rng = np.random.default_rng(7)
    m, n, k = 4 * unit.rows, 4 * unit.columns, 5 * 64 // unit.itemsize
    # Elements of few bits are made of float32, which NumPy knows.
    few = {"tf32", "bfloat16"}
    kinds = ["float32" if operand in few else operand for operand in unit.operands]
    low = 0 if "uint8" in unit.operands else -4
    a, b = (rng.integers(low, 5, s).astype(d) for s, d in zip(((m, k), (k, n)), kinds, strict=True))
    wide = a.astype(np.int64) @ b.astype(np.int64)
    for form in ("NN", "NT", "TN"):
        found = _product(queue, unit, a, b, form)
        if found is None or not np.array_equal(found.astype(np.int64), wide):
            return False
    return True


def adds_parts(queue: cl.CommandQueue, unit: MatrixUnit) -> bool:
    """Tells whether products of float32 in three parts are as exact as sums in float32 are."""
    rng = np.random.default_rng(7)
    for low in (-1, 0):
        # As many tiles as keep the sums whole.
        shapes = (4 * unit.rows, _TERMS), (_TERMS, 8 * unit.columns)
        a, b = (rng.uniform(low, 1, shape).astype(np.float32) for shape in shapes)
        found = _product(queue, unit, a, b, "NN", "highest")
        plain = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(_TERMS):
            product = a[:, k : k + 1].astype(np.float64) * b[k]
            plain = (plain + product).astype(np.float32)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        if found is None or np.linalg.norm(found - exact) > np.linalg.norm(plain - exact):
            return False
    return True


def _product(
    queue: cl.CommandQueue,
    unit: MatrixUnit,
    a: np.ndarray[Any, Any],
    b: np.ndarray[Any, Any],
    form: str,
    precision: str = "medium",
) -> np.ndarray[Any, Any] | None:
    """Runs the kernel that products have; None where the device has no room for it."""
    (m, k), n = a.shape, b.shape[1]
    traits = replace(query_traits(queue.device), matrix_units=(unit.name,), matrix_parts=True)
    tile = MatrixTile(1, 2, 2, 2, max(1, 64 // (unit.steps * unit.itemsize)), 2)
    if tile.across * unit.items > traits.max_work_group_size:
        return None
    value = np.dtype(np.int32 if unit.value == "int" else np.float32)
    problem = dense_product(m, n, k, form, dtype=a.dtype, precision=precision)
    problem = replace(
        problem,
        value=value,
        packed=replace(problem.packed, dtype=b.dtype),
        y=replace(problem.y, dtype=value),
    )
    plan = plan_matrix(problem, replace(traits, compute_units=1), tile)
    operands = (a.T if form[0] == "T" else a), (b.T if form[1] == "T" else b)
    found = np.full((m, n), -1, value)
    _run(queue, plan.main, {"x": operands[0], "w": operands[1], "y0": found})
    return found


def _run(queue: cl.CommandQueue, plan: KernelPlan, arrays: dict[str, Any]) -> None:
    """Runs a kernel on arrays of the host, by the names of its buffers; ``y0`` is read back."""
    raw = cl._cl._Program(queue.context, render(plan.template, plan.code))
    options = " ".join(("-cl-std=CL1.2", *plan.code.options))
    raw._build(options=options.encode(), devices=[queue.device])
    raw.get_info(cl.program_info.BINARIES)  # as the cache on disk asks, of which some die
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = {
        name: cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(array).view(np.uint8))
        for name, array in arrays.items()
    }
    kernel = cl.Kernel(cl.Program(raw), plan.code.name)
    kernel.set_args(
        *(
            buffers[argument.name]
            if isinstance(argument, Buffer)
            else np.dtype(parameter.format).type(argument)
            for argument, parameter in zip(plan.arguments, plan.code.parameters, strict=True)
        )
    )
    cl.enqueue_nd_range_kernel(queue, kernel, plan.global_size, plan.local_size)
    cl.enqueue_copy(queue, arrays["y0"], buffers["y0"])
