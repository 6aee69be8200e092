"""Convolutions whose outputs become pixels: what `depth_to_space` makes of them, bit for bit."""

from dataclasses import dataclass

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS
from support import BFLOAT16, equal, numbers

import clprim as cp
from clprim import ops
from clprim.errors import DefinitionError, DTypeError, ShapeError

LAST, FIRST = "channels_last", "contiguous"


@dataclass(frozen=True)
class Case:
    """A convolution and its squares; sizes as in `ops.conv2d`.

    Attributes:
        extra: What the epilogue reads: nothing, a value a ``channel``, or one a ``pixel``.
    """

    memory_format: str
    mode: str
    block: int
    channels: int
    outputs: int
    size: tuple[int, int]
    kernel: int = 3
    groups: int = 1
    algorithm: str = "auto"
    extra: str = ""
    bias: bool = True
    stride: int = 1


CASES = [
    # Vectors of channels, whole ones and a tail; pieces of vectors; element by element.
    Case(LAST, "CRD", 2, 16, 128, (5, 33), extra="pixel"),
    Case(LAST, "DCR", 2, 16, 160, (4, 20), extra="channel"),
    Case(LAST, "CRD", 4, 8, 48, (3, 17), extra="pixel"),
    Case(LAST, "CRD", 3, 6, 27, (4, 9), bias=False),
    # Planes as rows of a buffer, interleaved or not; few outputs as rows, two or three interleaved.
    Case(FIRST, "CRD", 2, 8, 32, (4, 21), extra="pixel"),
    Case(FIRST, "DCR", 2, 8, 72, (4, 21), extra="channel"),
    Case(FIRST, "CRD", 4, 4, 48, (3, 18)),
    Case(FIRST, "DCR", 2, 4, 8, (3, 40), kernel=1),
    Case(FIRST, "CRD", 3, 4, 9, (3, 33), extra="channel"),
    # Groups that end amid a square, and such that do not.
    Case(LAST, "CRD", 2, 8, 24, (5, 6), groups=4, extra="pixel"),
    Case(FIRST, "DCR", 2, 4, 24, (5, 18), groups=2),
    # One chain of additions, or splits: as many as without squares.
    Case(LAST, "DCR", 2, 1200, 8, (5, 5), kernel=1),
    Case(LAST, "CRD", 2, 128, 8, (6, 6), extra="channel"),
    Case(FIRST, "CRD", 2, 128, 8, (6, 6)),
    # Channels that are groups of their own.
    Case(LAST, "CRD", 2, 4, 16, (6, 7), groups=4, stride=2),
    # The strategy for GPUs, with and without splits.
    Case(LAST, "CRD", 2, 8, 32, (5, 9), algorithm="tiles", extra="pixel"),
    Case(FIRST, "CRD", 2, 8, 32, (5, 9), algorithm="tiles", extra="channel"),
    Case(LAST, "DCR", 3, 128, 18, (4, 4), algorithm="tiles", stride=2),
    Case(FIRST, "DCR", 2, 8, 24, (4, 6), groups=2, algorithm="tiles"),
]
ADD = "y0 = max(y0 + x0, 0);"


def some_numbers(shape, seed):
    """Numbers whose sums are rounded."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.everywhere
@pytest.mark.parametrize("case", range(len(CASES)))
def test_bits_are_those_of_two_calls(device, some, case):
    if case not in some(range(len(CASES)), 3):
        pytest.skip("every third case on this device")
    case = CASES[case]
    shape = (2, case.channels, *case.size)
    x = cp.asarray(some_numbers(shape, 0), memory_format=case.memory_format)
    weight = (case.outputs, case.channels // case.groups, case.kernel, case.kernel)
    w = cp.asarray(some_numbers(weight, 1))
    bias = cp.asarray(some_numbers((case.outputs,), 2)) if case.bias else None
    options = {
        "stride": case.stride,
        "padding": case.kernel // 2,
        "groups": case.groups,
        "algorithm": case.algorithm,
    }
    if case.groups == case.channels:
        options["algorithm"] = "panels"
    expected = ops.depth_to_space(ops.conv2d(x, w, bias, **options), case.block, case.mode)
    options["algorithm"] = case.algorithm
    more = {"depth_to_space": case.block, "mode": case.mode}
    if case.extra:
        full = expected.shape if case.extra == "pixel" else (expected.shape[1], 1, 1)
        arg = some_numbers(full, 3)
        on_device = cp.asarray(arg, memory_format=case.memory_format if arg.ndim == 4 else None)
        more.update(epilogue=ADD, epilogue_args=(on_device,))
        expected = np.maximum(expected.get() + arg, 0)
    found = ops.conv2d(x, w, bias, **options, **more)
    assert found.strides == cp.empty(found.shape, memory_format=case.memory_format).strides
    equal(found, expected if case.extra else expected.get())


def shuffled(y, block, mode):
    """NumPy's `depth_to_space`."""
    n, k, h, w = y.shape
    split = (n, block, block, -1, h, w) if mode == "DCR" else (n, -1, block, block, h, w)
    axes = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return y.reshape(split).transpose(axes).reshape(n, k // block**2, h * block, w * block)


TYPES = [("float16", LAST), (BFLOAT16, FIRST), ("float64", LAST), ("int8", FIRST), ("int64", LAST)]


@pytest.mark.parametrize("dtype, memory_format", TYPES, ids=str)
def test_dtypes(device, some, dtype, memory_format):
    if (dtype, memory_format) not in some(TYPES, 3):
        pytest.skip("every third dtype on this device")
    x, w = numbers((1, 3, 4, 18), dtype), numbers((12, 3, 3, 3), dtype, seed=1, high=3)
    y = ops.conv2d(
        cp.asarray(x, memory_format=memory_format), cp.asarray(w), padding=1, depth_to_space=2
    )
    equal(y, shuffled(reference.conv2d(x, w, padding=1), 2, "CRD"))


@pytest.fixture
def layer(device):
    """Operands on the host and on the device, channels last: 3 channels to 8 outputs."""
    host = [numbers((2, 3, 4, 6)), numbers((8, 3, 3, 3), seed=1), numbers((8,), seed=2)]
    x, w, bias = host
    return host, (cp.asarray(x, memory_format=LAST), cp.asarray(w), cp.asarray(bias))


@pytest.mark.parametrize("memory_format", FORMATS)
def test_into_memory_that_is_there(device, layer, memory_format):
    (x, w, bias), on_device = layer
    old = numbers((2, 2, 8, 12), seed=3)
    # Within a larger array, in either format, whatever the input's.
    around = np.full((2, 4, 10, 14), np.nan, np.float32)
    around[:, 1:3, 1:9, 1:13] = old
    large = cp.asarray(around, memory_format=memory_format)
    out = large[:, 1:3, 1:9, 1:13]
    options = {"padding": 1, "depth_to_space": 2, "mode": "DCR"}
    assert ops.conv2d(*on_device, out=out, beta=2, **options) is out
    around[:, 1:3, 1:9, 1:13] = 2 * old + shuffled(
        reference.conv2d(x, w, bias, padding=1), 2, "DCR"
    )
    np.testing.assert_array_equal(large.get(), around)


def test_a_packed_weight_serves_both(device, layer):
    (x, w, bias), (x_device, w_device, bias_device) = layer
    packed = ops.pack_weight(w_device)
    plain = reference.conv2d(x, w, bias, padding=1)
    for _ in range(2):
        equal(ops.conv2d(x_device, packed, bias_device, padding=1), plain)
        for mode in ("CRD", "DCR"):
            y = ops.conv2d(x_device, packed, bias_device, padding=1, depth_to_space=2, mode=mode)
            equal(y, shuffled(plain, 2, mode))
    with cp.profile() as profile:
        ops.conv2d(x_device, packed, bias_device, padding=1, depth_to_space=2)
    assert [event.name for event in profile.events] == ["conv2d"]


def test_a_block_of_one_changes_nothing(device, layer):
    (x, w, bias), on_device = layer
    y = ops.conv2d(*on_device, padding=1, depth_to_space=1)
    equal(y, reference.conv2d(x, w, bias, padding=1))


def test_weights_of_any_strides_and_nothing_at_all(device, layer):
    (x, w, _), (x_device, *_) = layer
    hwio = cp.asarray(np.ascontiguousarray(w.transpose(2, 3, 1, 0))).transpose(3, 2, 0, 1)
    y = ops.conv2d(x_device, hwio, padding=1, depth_to_space=2)
    equal(y, shuffled(reference.conv2d(x, w, padding=1), 2, "CRD"))
    empty = ops.conv2d(x_device[:0], hwio, padding=1, depth_to_space=2)
    assert empty.shape == (0, 2, 8, 12)


GRADIENTS = [
    (LAST, "CRD", 1, "auto"),
    (FIRST, "DCR", 1, "auto"),
    (LAST, "DCR", 2, "tiles"),
    (FIRST, "CRD", 4, "auto"),
]


@pytest.mark.parametrize("case", range(len(GRADIENTS)))
def test_gradients_take_the_large_pictures_gradient(device, some, case):
    if case not in some(range(len(GRADIENTS)), 2):
        pytest.skip("every second case on this device")
    memory_format, mode, groups, algorithm = GRADIENTS[case]
    x, w = numbers((2, 4, 4, 6)), numbers((24, 4 // groups, 3, 3), seed=1)
    small = numbers((2, 24, 4, 6), seed=2)
    grad = cp.asarray(shuffled(small, 2, mode), memory_format=memory_format)
    options = {"padding": 1, "groups": groups}
    more = {"depth_to_space": 2, "mode": mode, "algorithm": algorithm}
    x_device = cp.asarray(x, memory_format=memory_format)
    expected = reference.conv2d_weight(x, w.shape, small, **options)
    out = cp.full(w.shape, 1.0)
    equal(
        ops.conv2d_weight(x_device, w.shape, grad, out=out, beta=2, **options, **more), expected + 2
    )
    found = ops.conv2d_input(x.shape, cp.asarray(w), grad, **options, **more)
    equal(found, reference.conv2d_input(x.shape, w, small, **options))
    assert found.strides == x_device.strides


def test_the_weights_gradient_reads_it_where_it_lies(device):
    x, grad = cp.zeros((1, 4, 4, 6)), cp.zeros((1, 6, 8, 12))
    for _ in range(2):
        with cp.profile() as profile:
            ops.conv2d_weight(x, (24, 4, 3, 3), grad, padding=1, depth_to_space=2)
    assert {event.name for event in profile.events} <= {
        "conv2d_weight",
        "conv2d_weight_pack",
        "conv2d_weight_finish",
    }


WRONG = [
    (DefinitionError, "conv2d: mode='RCD' is unknown", {"mode": "RCD"}),
    (DTypeError, "conv2d: expected a string for mode", {"mode": None, "depth_to_space": None}),
    (ShapeError, r"8 outputs are not a multiple of depth_to_space² = 9", {"depth_to_space": 3}),
    (ShapeError, "conv2d: depth_to_space=0: expected at least 1", {"depth_to_space": 0}),
    (DTypeError, "conv2d: depth_to_space=2.0: expected an integer", {"depth_to_space": 2.0}),
    (DTypeError, "conv2d: depth_to_space='2': expected an integer", {"depth_to_space": "2"}),
    (DTypeError, "conv2d: depth_to_space=True: expected an integer", {"depth_to_space": True}),
]


@pytest.mark.parametrize("error, message, options", WRONG, ids=[m for _, m, _ in WRONG])
def test_what_cannot_be_is_refused(layer, error, message, options):
    out = cp.full((2, 2, 8, 12), 7.0)
    with pytest.raises(error, match=message):
        ops.conv2d(*layer[1], padding=1, out=out, **{"depth_to_space": 2, **options})
    assert (out.get() == 7).all()


def test_results_and_arguments_have_the_large_pictures_shape(layer):
    small = cp.zeros((2, 8, 4, 6))
    with pytest.raises(ShapeError, match=r"out=.*\(2, 8, 4, 6\), expected \(2, 2, 8, 12\)"):
        ops.conv2d(*layer[1], padding=1, depth_to_space=2, out=small)
    with pytest.raises(ShapeError, match=r"x0 .*\(2, 8, 4, 6\).*broadcast to \(2, 2, 8, 12\)"):
        ops.conv2d(*layer[1], padding=1, depth_to_space=2, epilogue=ADD, epilogue_args=(small,))
    with pytest.raises(ShapeError, match=r"grad has shape .*, expected \(2, 2, 8, 12\)"):
        ops.conv2d_weight(layer[1][0], (8, 3, 3, 3), small, padding=1, depth_to_space=2)
    with pytest.raises(ShapeError, match=r"5 × 12 pixels of grad.*not a multiple of"):
        ops.conv2d_input((2, 3, 4, 6), layer[1][1], cp.zeros((2, 2, 5, 12)), depth_to_space=2)


def test_planes_have_no_squares(device):
    x, w = cp.zeros((1, 4, 4, 6)), cp.zeros((16, 1, 3, 3))
    options = {"padding": 1, "groups": 4, "depth_to_space": 2}
    with pytest.raises(DefinitionError, match=r"'depthwise' cannot do.*depth_to_space=2"):
        ops.conv2d(x, w, algorithm="depthwise", **options)
    names = ops.conv2d.algorithms(x, w, **options)
    assert {"panels", "tiles"} <= {*names} <= {"in_place", "panels", "sub_groups", "tiles"}
    assert "depthwise" in ops.conv2d.algorithms(x, w, groups=4)


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("algorithm", ["panels", "tiles"])
def test_small(device, memory_format, algorithm):
    x, w, bias = numbers((1, 2, 2, 18)), numbers((16, 2, 3, 3), seed=1), numbers((16,), seed=2)
    a = cp.asarray(x, memory_format=memory_format)
    options = {"padding": 1, "algorithm": algorithm, "depth_to_space": 2}
    y = ops.conv2d(a, cp.asarray(w), cp.asarray(bias), **options)
    equal(y, shuffled(reference.conv2d(x, w, bias, padding=1), 2, "CRD"))
