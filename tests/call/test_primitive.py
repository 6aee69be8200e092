"""What a request says of its results is what a call gives; only `run` binds kernels."""

import ast
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.call import primitive as primitives
from clprim.call.primitive import Request, request_of
from clprim.traits import DeviceTraits

ROOT = Path(__file__).parents[2]


class Traits:
    """A device of which nothing but traits is known."""

    traits = DeviceTraits(is_cpu=True, fp64=True)


@pytest.fixture
def asked(monkeypatch):
    """Every request that a call makes, with what it gave."""
    found = []

    def run(primitive, arrays, numbers=(), outs=(), options=None, key=None, kept=None):
        device = cp.current_device()
        kept = kept or {}
        request = request_of(primitive, device, arrays, numbers, outs, options, kept)
        results = original(primitive, arrays, numbers, outs, options, key, kept)
        found.append((primitive, request, results))
        return results

    original = primitives.run
    for module in [*_importing("run")]:
        monkeypatch.setattr(module, "run", run)
    return found


def _importing(name):
    import sys

    for key, module in list(sys.modules.items()):
        if key.startswith("clprim.") and getattr(module, name, None) is primitives.run:
            yield module


def _calls():
    x = cp.asarray(np.ones((2, 8, 6, 6), np.float32), memory_format="channels_last")
    w, taps = cp.full((8, 8, 3, 3), 1.0), cp.full((8, 1, 3, 3), 1.0)
    half, flat = x.astype(np.float16), cp.asarray(np.arange(24).reshape(2, 3, 4))
    yield lambda: cp.Pointwise("y0 = x0 + x1; y1 = x0 > w0;")(x, cp.full((6,), 1.0), 2.0)
    yield lambda: cp.Pointwise("y0 = x0 + 1;")(half.transpose(3, 1, 0, 2))
    yield lambda: cp.Pointwise("y0 = index;")(out=cp.zeros((3, 4)))
    sums = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    for axis, keep in ((None, False), ((0, 2, 3), True), (1, False)):
        yield lambda axis=axis, keep=keep: sums(x, axis=axis, keepdims=keep)
    yield lambda: sums(flat, axis=1, out=cp.zeros((2, 4)), alpha=2.0, beta=0.5)
    yield lambda: cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")(half, axis=1)
    yield lambda: ops.layer_norm(x, (6,), return_stats=True)
    yield lambda: ops.softmax(half, dim=1)
    yield lambda: ops.conv2d(x, w, cp.full((8,), 1.0), padding=1, epilogue="y0 = max(y0, 0);")
    yield lambda: ops.conv2d(x, w, depth_to_space=2)
    yield lambda: ops.conv2d(x, taps, groups=8, stride=2)
    yield lambda: ops.conv2d_input(x.shape, w, x, padding=1)
    yield lambda: ops.conv2d_weight(x, w.shape, x, padding=1)
    yield lambda: ops.conv_transpose2d(x, w, stride=2)
    yield lambda: ops.matmul(half, half, transpose_b=True)
    yield lambda: ops.matmul(cp.full((4,), 1.0), ops.pack_weight(cp.full((4, 5), 1.0)))
    yield lambda: ops.sort(flat, dim=0)
    yield lambda: ops.topk(flat, 2)
    yield lambda: ops.cat([flat, flat], dim=1)
    yield lambda: ops.scatter_add(flat, 1, cp.zeros((2, 3, 4), np.int64), flat)
    narrow, wide = cp.full((32, 8, 1, 1), 1.0), cp.full((8, 32, 1, 1), 1.0)
    deep = cp.full((32, 1, 3, 3), 1.0)
    block = (narrow, None, deep, None, wide, None)
    yield lambda: ops.inverted_residual(x, *block, padding=1)


@pytest.mark.usefixtures("unoptimised")
def test_results_are_known_without_a_device(device, asked):
    kinds = set()
    for call in _calls():
        call()
    for primitive, request, results in asked:
        told = primitive.results(request, Traits())
        given = [(a.shape, a.dtype, a.strides) for a in results]
        assert [(o.shape, o.dtype, o.strides) for o in told] == given, primitive.what
        kinds.add(type(primitive).__name__)
    # Where a device has no strategy of its own, layers are reductions and products.
    assert len(kinds) >= (9 if device.traits.is_cpu else 6), kinds


@pytest.mark.alone
def test_requests_compare_by_what_they_say(device):
    double = cp.Pointwise("y0 = x0 * 2;")
    made = [request_of(double, cp.current_device(), (cp.zeros((2, 3)),)) for _ in range(2)]
    assert made[0] == made[1] and hash(made[0]) == hash(made[1])
    assert made[0] != Request(made[0].operands, options=(2, 3))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))])
def test_operators_are_copied_after_calls(device, way):
    total = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    x = cp.asarray(np.float32([1, 2, 6]))
    for op, expected in (
        (cp.Pointwise("y0 = x0 * 2;"), [2, 4, 12]),
        (cp.Reduction("y0 = x0;", **total), 9),
        (cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;"), [1, 3, 9]),
        (
            cp.Grouped(
                "y0 = x0;", **total, finalize="group_y0 = reduce_y0;", each="y0 = x0 - group_y0;"
            ),
            [-8, -7, -3],
        ),
    ):
        assert op(x).get().tolist() == expected
        assert way(op)(x).get().tolist() == expected


def test_one_place_looks_up_and_binds():
    binds, looks_up = set(), set()
    for path in [*(ROOT / "clprim").rglob("*.py"), *(ROOT / "ops").rglob("*.py")]:
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "clprim.call.call":
                binds |= {name for alias in node.names if alias.name == "bind"}
            if isinstance(node, ast.Attribute) and node.attr == "look_up":
                looks_up.add(name)
    # The tuner's plans are of tiles that no call would choose.
    assert binds == {"clprim/call/primitive.py", "clprim/tune/measure.py"}
    # Gradients are programs of primitives; which one a call is, is looked up once a signature.
    assert looks_up == {"clprim/call/primitive.py", "clprim/gradients/operator.py"}
