"""Inverted residuals: one kernel or three, against NumPy, exact; nothing of the middle's size."""

from dataclasses import dataclass, replace

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FORMATS, upload
from odd_memory import has_format
from support import BFLOAT16, Guard, equal, numbers, same_bits

import clprim as cp
from clprim import ops

RELU = "if (y0 < 0) y0 = 0;"  # which is not one on vectors
CLIP = "y0 = clamp(y0, 0, 6);"
APPLY = {
    CLIP: lambda y: np.clip(y, 0, 6),
    RELU: lambda y: np.maximum(y, 0),
    None: lambda y: y,
}


@dataclass(frozen=True)
class Block:
    """One block; ``middle`` is 0 where there is no expansion."""

    x: tuple
    middle: int
    outputs: int
    kernel: tuple = (3, 3)
    stride: object = 1
    padding: object = 1
    dilation: object = 1
    activation: str | None = CLIP
    dtype: object = np.float32
    biased: bool = True

    @property
    def options(self):
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    def operands(self):
        """Of the call, on the host: the input, weights and biases."""
        channels, middle = self.x[1], self.middle or self.x[1]
        shapes = [
            ((middle, channels, 1, 1), (middle,)),
            ((middle, 1, *self.kernel), (middle,)),
            ((self.outputs, middle, 1, 1), (self.outputs,)),
        ]
        found = [numbers(self.x, self.dtype)]
        for n, (weight, bias) in enumerate(shapes):
            # Small enough for a half to hold every sum.
            found.append(numbers(weight, self.dtype, 1 + n, -1, 2))
            found.append(numbers(bias, self.dtype, 4 + n) if self.biased else None)
        if not self.middle:
            found[1:3] = None, None
        return found

    def expected(self, residual=None):
        x, w_expand, b_expand, w_taps, b_taps, w_project, b_project = self.operands()
        act = APPLY[self.activation]
        y = x if w_expand is None else act(reference.conv2d(x, w_expand, b_expand))
        y = act(reference.conv2d(y, w_taps, b_taps, **self.options, groups=y.shape[1]))
        y = reference.conv2d(y, w_project, b_project)
        same = y.shape == x.shape and self.stride == 1
        return y + x if (same if residual is None else residual) else y


def call(block, memory_format, algorithm="fused", *, pack=False, **options):
    """Runs a block on the device."""
    x, *rest = block.operands()
    rest = [None if a is None else cp.asarray(a) for a in rest]
    if pack:
        rest[::2] = [None if w is None else ops.pack_weight(w) for w in rest[::2]]
    options = block.options | {"activation": block.activation, "algorithm": algorithm} | options
    return ops.inverted_residual(upload(x, memory_format), *rest, **options)


def check(block, memory_format, algorithm="fused", **options):
    """Compares every element of a block's result."""
    found = call(block, memory_format, algorithm, **options)
    assert found.dtype == np.dtype(block.dtype)
    expected = block.expected(options.get("residual")).astype(block.dtype)
    np.testing.assert_array_equal(np.float64(found.get()), np.float64(expected), str(block))
    if min(found.shape[1:]) > 1:
        assert has_format(found, memory_format)


# Tails of channels, pixels and rows; images in one step and in several; several bands.
BLOCKS = [
    Block((2, 16, 10, 14), 48, 16),
    Block((1, 5, 9, 11), 18, 7, stride=2),
    Block((9, 20, 9, 12), 0, 20),
    Block((1, 6, 40, 15), 200, 6, kernel=(5, 5), padding=2),
    Block((1, 6, 13, 9), 21, 6, kernel=(2, 3), dilation=(2, 1), padding=(1, 0, 2, 1)),
    Block((1, 3, 30, 28), 400, 40, stride=(2, 1), biased=False),
    Block((2, 4, 1, 1), 2, 1, kernel=(1, 1), padding=0),
]


@pytest.mark.parametrize("memory_format", FORMATS)
def test_one_kernel(device, monkeypatch, some, memory_format):
    # The block of most channels wants more of a second cache than some processors have.
    cache = max(device.traits.l2_bytes, 1 << 21)
    traits = replace(device.traits, l2_bytes=cache)
    monkeypatch.setitem(device.__dict__, "traits", traits)
    few = not device.traits.is_cpu  # most rows of most blocks do not fit a GPU's local memory
    for block in some(BLOCKS[:1] if few else BLOCKS, 4):
        check(block, memory_format)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_three_convolutions(device, some, memory_format):
    for block in some(BLOCKS[:3], 3):
        check(block, memory_format, "separate")
        check(block, memory_format, "auto")


def test_dtypes(device, some):
    for dtype in some([np.float16, BFLOAT16, np.float64, np.int32], 4):
        for memory_format in some(FORMATS, 2):
            check(replace(BLOCKS[1], dtype=np.dtype(dtype)), memory_format)


HARD_SWISH = "y0 = y0 * clamp(y0 / 6 + 0.5, 0, 1);"


def test_activations(device, some):
    for activation in some((RELU, None, HARD_SWISH), 3):
        block = replace(BLOCKS[1], activation=activation)
        if activation in APPLY:
            check(block, "channels_last")
        else:  # sixths are not exact
            one, three = (call(block, "channels_last", how).get() for how in ("fused", "separate"))
            np.testing.assert_allclose(one, three, rtol=1e-4, atol=1e-3)


def test_the_input_is_added_where_it_fits(device, some):
    for algorithm in some(("separate", "fused"), 2):
        for residual in (None, True, False):
            check(BLOCKS[0], "channels_last", algorithm, residual=residual)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_into_memory_that_is_there(device, memory_format):
    block = BLOCKS[1]
    out = Guard(block.expected().shape)
    assert call(block, memory_format, out=out.array) is out.array
    out.check(block.expected())


def test_packed_weights_and_the_same_bits(device):
    block = BLOCKS[0]
    first = call(block, "channels_last", pack=True)
    equal(first, block.expected())
    assert same_bits(call(block, "channels_last", pack=True), first)


def test_weights_are_packed_once(device):
    x, *rest = BLOCKS[0].operands()
    a, arrays = upload(x, "channels_last"), [cp.asarray(r) for r in rest]
    kept = [ops.pack_weight(w) if n % 2 == 0 else w for n, w in enumerate(arrays)]
    ops.inverted_residual(a, *kept, padding=1, algorithm="fused")
    with cp.profile() as found:
        ops.inverted_residual(a, *kept, padding=1, algorithm="fused")
    assert [event.name for event in found.events] == ["inverted_residual"]


def test_nothing_of_the_middle_is_stored(device, monkeypatch):
    block = Block((2, 8, 28, 28), 48, 8, stride=2)
    sizes, pool = [], device.pool

    class Listening:
        """The device's pool, which tells how much is asked for."""

        def allocate(self, size):
            sizes.append(size)
            return pool.allocate(size)

        __call__ = allocate

    monkeypatch.setitem(device.__dict__, "pool", Listening())
    middle = 4 * 2 * 48 * 14 * 14  # the smaller one of the two
    x, *rest = block.operands()
    a, rest = upload(x, "channels_last"), [cp.asarray(r) for r in rest]
    largest = {}
    for algorithm in ("fused", "separate"):
        sizes.clear()
        ops.inverted_residual(a, *rest, **block.options, algorithm=algorithm)
        largest[algorithm] = max(sizes)
    assert largest["fused"] <= middle // 4 < middle <= largest["separate"]


def test_views(device):
    """Every second row, and channels of a larger tensor."""
    block = BLOCKS[1]
    x, *rest = block.operands()
    rest = [cp.asarray(r) for r in rest]
    wide = np.zeros((1, 9, 18, 11), np.float32)
    wide[:, 2:7, ::2] = x
    view = cp.asarray(wide)[:, 2:7, ::2]
    equal(ops.inverted_residual(view, *rest, **block.options), block.expected())
    with pytest.raises(cp.DefinitionError, match="without gaps"):
        ops.inverted_residual(view, *rest, **block.options, algorithm="fused")
    view = cp.asarray(wide[:, :, ::2].copy(), memory_format="channels_last")[:, 2:7]
    equal(ops.inverted_residual(view, *rest, **block.options, algorithm="fused"), block.expected())


def test_no_images(device):
    for algorithm in ("auto", "fused"):
        found = call(replace(BLOCKS[0], x=(0, 16, 10, 14)), "contiguous", algorithm)
        assert found.shape == (0, 16, 10, 14)


# --- errors ---------------------------------------------------------------------------------------


def changed(**changes):
    """The arguments of a right call, some replaced."""
    x, *rest = BLOCKS[0].operands()
    names = ("w_expand", "b_expand", "w_depthwise", "b_depthwise", "w_project", "b_project")
    found = {"x": cp.asarray(x), **dict(zip(names, map(cp.asarray, rest), strict=True))}
    return found | {"padding": 1} | changes


WRONG = [
    ({"w_expand": (48, 15, 1, 1)}, cp.ShapeError, r"w_expand.*\(48, 15, 1, 1\)"),
    ({"w_expand": (48, 16, 3, 3)}, cp.ShapeError, r"w_expand.*\(48, 16, 3, 3\).*\(O, C, 1, 1\)"),
    ({"w_depthwise": (48, 2, 3, 3)}, cp.ShapeError, r"w_depthwise.*\(48, 2, 3, 3\)"),
    ({"w_depthwise": (96, 1, 3, 3)}, cp.ShapeError, r"w_depthwise.*\(96, 1, 3, 3\).*48 channels"),
    ({"w_project": (16, 47, 1, 1)}, cp.ShapeError, r"w_project.*\(16, 47, 1, 1\)"),
    ({"b_expand": (47,)}, cp.ShapeError, r"b_expand.*\(47,\).*\(48,\)"),
    ({"b_depthwise": (1, 48)}, cp.ShapeError, r"b_depthwise.*\(1, 48\)"),
    ({"b_project": (17,)}, cp.ShapeError, r"b_project.*\(17,\)"),
    ({"w_expand": None}, cp.ShapeError, "b_expand= without w_expand"),
    ({"stride": 0}, cp.ShapeError, "stride=0"),
    ({"stride": 2, "residual": True}, cp.ShapeError, r"residual=True.*\(2, 16, 5, 7\)"),
    ({"activation": "y0 = x0;"}, cp.DefinitionError, r"the epilogue names 1 \(x0\)"),
    ({"activation": "y0 = z;"}, cp.DefinitionError, "unknown name 'z'"),
    ({"algorithm": "both"}, cp.DefinitionError, "'both'.*fused, separate"),
    ({"w_project": np.zeros((16, 48, 1, 1))}, cp.DTypeError, "w_project"),
]


@pytest.mark.parametrize(("changes", "error", "message"), WRONG, ids=lambda w: str(w)[:40])
def test_refused(device, changes, error, message):
    given = {k: cp.zeros(v) if type(v) is tuple else v for k, v in changes.items()}
    for algorithm in ("separate", "fused"):
        out = Guard((2, 16, 10, 14))
        options = {"algorithm": algorithm, "out": out.array} | given
        with pytest.raises(error, match=message):
            ops.inverted_residual(**changed(**options))
        out.check_untouched()


def test_refused_results(device):
    x = changed()["x"]
    for out in (x, cp.zeros((2, 16, 10, 15))):
        with pytest.raises(cp.ShapeError):
            ops.inverted_residual(**changed(x=x, out=out))


def test_refused_where_no_row_fits(modest):
    block = BLOCKS[3]
    with pytest.raises(cp.DefinitionError, match=r"4,096 bytes of local memory.*200 channels"):
        call(block, "channels_last", "fused")
    equal(call(block, "channels_last", "auto"), block.expected())


# --- other devices, and Oclgrind ------------------------------------------------------------------


def test_planned_for_other_devices(traits):
    check(BLOCKS[0], "channels_last", "auto")
    if traits.local_memory > 4096:
        check(BLOCKS[1], "contiguous", "fused")


@pytest.mark.oclgrind
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
def test_small(device, stride, memory_format):
    check(Block((1, 3, 5, 4), 6, 3, stride=stride), memory_format)
