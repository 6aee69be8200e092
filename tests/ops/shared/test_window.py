"""Settings of windows: convolutions, poolings and columns take the same forms, and refuse alike."""

import numpy as np
import pytest
from support import numbers

import clprim as cp
from clprim import ops
from clprim.ops.shared.window import axes, sides, transposed_axes

torch = pytest.importorskip("torch")
F = torch.nn.functional

CALLS = {
    "conv2d": lambda x, **how: ops.conv2d(x, cp.full((2, 2, 3, 3), 1.0), **how),
    "max_pool2d": lambda x, **how: ops.max_pool2d(x, 3, **{"stride": 1, **how}),
    "avg_pool2d": lambda x, **how: ops.avg_pool2d(x, 3, **{"stride": 1, **how}),
    "lp_pool2d": lambda x, **how: ops.lp_pool2d(x, 2, 3, **{"stride": 1, **how}),
    "unfold": lambda x, **how: ops.unfold(x, 3, **how),
}
THEIRS = {
    "conv2d": lambda t, p: F.conv2d(t, torch.ones(2, 2, 3, 3, dtype=t.dtype), padding=p),
    "max_pool2d": lambda t, p: F.max_pool2d(t, 3, 1, p),
    "avg_pool2d": lambda t, p: F.avg_pool2d(t, 3, 1, p),
    "lp_pool2d": lambda t, p: F.lp_pool2d(F.pad(t, [p] * 4), 2, 3, 1),
    "unfold": lambda t, p: F.unfold(t, 3, padding=p),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_padding_has_many_forms(device, name):
    host, call = numbers((1, 2, 6, 7)), CALLS[name]
    x, t = cp.asarray(host), torch.tensor(host.astype(np.float64))
    for padding in (0, 1):
        expected = THEIRS[name](t, padding).numpy()
        np.testing.assert_allclose(call(x, padding=padding).get(), expected, rtol=1e-6, atol=1e-6)
    alike = [
        ("valid", 0),
        ("same", 1, (1, 1), (1, 1, 1, 1), ((1, 1), (1, 1))),
        ((1, 0, 0, 1), ((1, 0), (0, 1))),
    ]
    for first, *others in alike:
        expected = call(x, padding=first).get()
        for padding in others:
            np.testing.assert_array_equal(call(x, padding=padding).get(), expected)


WRONG = [
    ({"padding": (1, 1, 1)}, r"padding=\(1, 1, 1\): expected a number, 2 or 4 of them, or pairs"),
    ({"padding": ((1, 1), 0)}, "expected 2 pairs"),
    ({"padding": -1}, "of at least 0 and below 2\\^31"),
    ({"padding": "all"}, "padding='all': expected a number, several, or same or valid"),
    ({"padding": "same", "stride": 2}, "padding='same' needs a stride of 1, got stride=2"),
    ({"stride": 0}, "stride=0: expected a number or 2 of them, of at least 1"),
    ({"dilation": (1, 2, 1)}, r"dilation=\(1, 2, 1\): expected a number or 2 of them"),
    ({"dilation": 4}, "is 9 high, larger than the padded input, 6 high, and has no window"),
]


@pytest.mark.refusal
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("how", "message"), WRONG, ids=[str(how) for how, _ in WRONG])
def test_what_is_wrong_is_said_alike(device, name, how, message):
    with pytest.raises(cp.ShapeError, match=f"{name}: .*{message}"):
        CALLS[name](cp.zeros((1, 2, 6, 7)), **how)


def test_axes():
    (axis,) = axes("x", (10,), (3,), 2, (1, 2), 2)
    assert (axis.size, axis.kernel, axis.stride, axis.dilation) == (10, 3, 2, 2)
    assert (axis.before, axis.after, axis.reach, axis.windows) == (1, 2, 5, 5)
    assert sides("x", "padding", (1, 2, 3), 3) == ((1, 1), (2, 2), (3, 3))
    (back,) = transposed_axes("x", (5,), (3,), 2, (1, 2), 0, 2)
    assert back.size == 10 and back.windows == 5
    with pytest.raises(cp.ShapeError, match="leaves a result of size 0"):
        transposed_axes("x", (1,), (2,), 1, 1, 0, 1)
