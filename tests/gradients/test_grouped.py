"""`Grouped.gradient` against PyTorch: what groups add up, what is saved, axes, refusals."""

import re

import numpy as np
import pytest
from grouped_cases import CASES, WHOLE, arrays
from support import BFLOAT16, numbers

import clprim as cp

torch = pytest.importorskip("torch")


def _references(case, inputs, grads):
    scalars = map(np.float64, case.scalars)
    tensors = [torch.tensor(a, requires_grad=True) for a in (*inputs, *scalars)]
    count = case.reference.__code__.co_argcount
    results = case.reference(*tensors[:count])
    results = results if isinstance(results, tuple) else (results,)
    used = torch.autograd.grad(
        results, tensors, [torch.tensor(g) for g in grads], allow_unused=True
    )
    names = [f"x{n}" for n in range(len(inputs))] + [f"w{n}" for n in range(len(case.scalars))]
    zeros = (torch.zeros_like(t) for t in tensors)
    return {n: z if g is None else g for n, g, z in zip(names, used, zeros, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(double_device, unoptimised, name):
    case = CASES[name]
    operator = cp.Grouped(**case.strings)
    inputs = arrays(case)
    args = [*map(cp.asarray, inputs), *case.scalars]
    wrt = case.wrt or tuple(f"x{n}" for n in range(len(inputs)))
    definition = operator.definition
    kept = operator(*args, keep=[True] * definition.group_values)
    saved = dict(zip([f"y{n}" for n in range(definition.results)], kept, strict=False))
    saved |= {f"group_y{n}": v for n, v in enumerate(kept[definition.results :])}
    grads = [np.cos(np.arange(792)).reshape(WHOLE) + n for n in range(definition.results)]
    expected = _references(case, inputs, grads)
    grad = tuple(map(cp.asarray, grads))
    grad = grad if len(grad) > 1 else grad[0]
    for saves in ((), *case.saves):
        names = (saves,) if isinstance(saves, str) else saves
        gradient = operator.gradient(wrt, saves=saves)
        found = gradient(*args, grad=grad, saved=tuple(saved[n] for n in names))
        found = found if isinstance(found, tuple) else (found,)
        for n, result in zip(wrt, found, strict=True):
            right = expected[n].numpy()
            assert result.shape == right.shape
            np.testing.assert_allclose(
                result.get(), right, rtol=1e-9, atol=1e-10, err_msg=f"{n} with {saves}\n{gradient}"
            )


SUM = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
RMS = {
    "expr": "y0 = x0 * x0;",
    "init": "reduce_y0 = 0;",
    "step": "reduce_y0 += y0;",
    "finalize": "group_y0 = 1 / sqrt(reduce_y0 / count + 0.1);",
    "each": "y0 = x0 * group_y0 * x1;",
}


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        (1, (12, 1, 1)),  # a weight for every channel of a group
        ((2, 3), (12, 1, 1)),  # one for every group, summed with it
        ((0, 2, 3), (12, 1, 1)),
        ((-3, -2, -1), (12, 6, 1)),
        (None, ()),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("order", "dtype"),
    [("C", np.float32), ("channels_last", np.float16), ("channels_last", BFLOAT16)],
    ids=["float32", "float16-nhwc", "bfloat16-nhwc"],
)
def test_axes_formats_and_short_floats(device, unoptimised, axis, shape, order, dtype):
    a = (numbers((5, 12, 6, 18)) / 8).astype(dtype)
    weight, grad = numbers(shape, seed=1).astype(dtype), numbers(a.shape, seed=2).astype(dtype)
    x = cp.asarray(a) if order == "C" else cp.asarray(a, memory_format=order)
    gx, gw = cp.Grouped(**RMS).gradient()(x, cp.asarray(weight), grad=cp.asarray(grad), axis=axis)
    t, w = (torch.tensor(v.astype(np.float64), requires_grad=True) for v in (a, weight))
    dims = tuple(range(4)) if axis is None else axis
    result = t / torch.sqrt((t * t).mean(dims, keepdim=True) + 0.1) * w
    expected = torch.autograd.grad(result, (t, w), torch.tensor(grad.astype(np.float64)))
    unit = 2.0**-22 if dtype is np.float32 else 2.0 ** (-7 if dtype is BFLOAT16 else -10)
    assert gx.strides == x.strides and gx.dtype == gw.dtype == dtype and gw.shape == shape
    for found, tensor in zip((gx, gw), expected, strict=True):
        right = tensor.numpy()
        scale = np.abs(right).max()
        # A value near the greatest is rounded twice; sums of a thousand, in their order.
        assert np.abs(found.get().astype(np.float64) - right).max() <= 4 * unit * scale


def test_views_and_memory_that_is_there(device, unoptimised):
    a, gy = numbers((9, 70)), numbers((9, 70), seed=1)
    mean = "group_y0 = reduce_y0 / count;"
    g = cp.Grouped("y0 = x0;", **SUM, finalize=mean, each="y0 = x0 - group_y0;").gradient()
    x, grad = cp.asarray(a)[::-1, 1::2], cp.asarray(gy)[:, ::-1][:, :35]
    seen = np.ascontiguousarray(gy[:, ::-1][:, :35])
    expected = seen - np.float64(seen).mean(1, keepdims=True)
    place = cp.zeros((9, 35))
    assert g(x, grad=grad, out=place) is place
    np.testing.assert_allclose(place.get(), expected, rtol=2e-6, atol=2e-6)
    assert "__kernel" in g.source(x, grad=grad)
    np.testing.assert_allclose(g(x, grad=1.0).get(), 0, atol=1e-6)


def test_one_kernel_where_the_group_is_near(device, unoptimised):
    if not device.traits.is_cpu:
        pytest.skip("runs are for CPUs")
    saved = cp.zeros((64, 1))
    x, w = cp.full((64, 256), 1.0), cp.full(256, 1.0)
    g = cp.Grouped(**RMS).gradient("x0", saves="group_y0")
    assert g.source(x, w, grad=x, saved=saved).count("__kernel") == 1
    again = cp.Grouped(**RMS).gradient("x0")  # with the operator's own sum beside its own
    assert again.source(x, w, grad=x).count("__kernel") == 1


STANDARD = {
    "expr": "y0 = x0;",
    "init": "reduce_y0 = 0; reduce_y1 = 0;",
    "step": "reduce_y0 += y0; reduce_y1 += y0 * y0;",
    "finalize": """
        typeof_group_y0 mean = reduce_y0 / count;
        group_y0 = mean;
        group_y1 = 1 / sqrt(reduce_y1 / count - mean * mean + 0.1);
    """,
    "each": "y0 = (x0 - group_y0) * group_y1 * x1 + x2;",
}


@pytest.mark.parametrize("nearest", ["pixels", "channels"])
@pytest.mark.parametrize("saves", [(), ("group_y0", "group_y1")], ids=["again", "saved"])
@pytest.mark.parametrize("wrt", [("x0", "x1", "x2"), ("x0",), ("x2", "x0"), ("x1",)], ids=str)
def test_groups_of_channels_add_up_a_channel_first(double_device, unoptimised, nearest, saves, wrt):
    shape, weights = (3, 2, 5, 4, 3), (2, 5, 1, 1)  # images, groups, their channels, pixels
    a, gy = numbers(shape).astype(np.float64), numbers(shape, seed=1).astype(np.float64)
    w, b = (numbers(weights, seed=n).astype(np.float64) for n in (2, 3))

    def laid(array):
        if nearest == "pixels":
            return cp.asarray(array)
        return cp.asarray(np.ascontiguousarray(array.transpose(0, 3, 4, 1, 2))).transpose(
            0, 3, 4, 1, 2
        )

    operator = cp.Grouped(**STANDARD)
    args = [laid(a), cp.asarray(w), cp.asarray(b)]
    kept = operator(*args, axis=(2, 3, 4), keep=[True, True])[1:]
    g = operator.gradient(wrt, saves=saves)
    found = g(*args, grad=laid(gy), axis=(2, 3, 4), saved=kept if saves else ())
    t = [torch.tensor(v, requires_grad=True) for v in (a, w, b)]
    dims = (2, 3, 4)

    def expected(grad):
        mean, variance = t[0].mean(dims, keepdim=True), t[0].var(dims, False, keepdim=True)
        y = (t[0] - mean) / torch.sqrt(variance + 0.1) * t[1] + t[2]
        return torch.autograd.grad(y, [t[int(n[1:])] for n in wrt], grad)

    def close(found, grad):
        found = found if len(wrt) > 1 else (found,)
        for result, right in zip(found, expected(grad), strict=True):
            np.testing.assert_allclose(result.get(), right.numpy(), rtol=1e-9, atol=1e-9)

    close(found, torch.tensor(gy))
    text = g.source(*args, grad=laid(gy), axis=dims, saved=kept if saves else ())
    if wrt == ("x0", "x1", "x2") and saves:  # only the first sums and the map read the elements
        names = re.findall(r"void (gradient\w*)\(", text)
        kinds = ["_values", "_sums", "_sums", "_values", "", ""]
        assert names == [f"gradient{kind}" for kind in kinds]
    once = g(*args, grad=1.0, axis=dims, saved=kept if saves else ())
    close(once, torch.ones(shape, dtype=torch.float64))


def test_the_operator_of_a_gradient_is_checked(double_device, unoptimised):
    rng = np.random.default_rng(0)
    cp.check_gradient(cp.Grouped(**RMS), rng.normal(size=(3, 40)), rng.normal(size=40), axis=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"init": "reduce_y0 = 1;", "step": "reduce_y0 *= y0;"}, "what reduce_y0 keeps"),
        ({"each": "y0 = as_float(as_int(x0)) * group_y0;"}, "'as_"),
        ({"each": "for (int i = 0; i < x0; ++i) y0 = group_y0;"}, "each, line 1: a gradient needs"),
    ],
)
def test_what_has_no_gradient_is_refused_with_its_place(change, message):
    strings = {"expr": "y0 = x0;", **SUM, "each": "y0 = x0 * group_y0;"} | change
    with pytest.raises(cp.DefinitionError, match=message):
        cp.Grouped(**strings).gradient()


def test_wrong_arguments_are_refused(device):
    operator = cp.Grouped(**RMS)
    x, w = cp.zeros((4, 8)), cp.zeros(8)
    with pytest.raises(cp.DefinitionError, match="saves="):
        operator.gradient(saves="group_y1")
    g = operator.gradient(saves="group_y0")
    with pytest.raises(
        cp.ShapeError, match=r"saved= of group_y0 has shape \(8,\), expected \(4, 1"
    ):
        g(x, w, grad=x, saved=w)
    with pytest.raises(cp.ShapeError, match=r"grad= of y0 has shape \(8,\)"):
        g(x, w, grad=w, saved=cp.zeros((4, 1)))
    with pytest.raises(cp.ShapeError, match="saved= holds 0 arrays"):
        g(x, w, grad=x)
    with pytest.raises(cp.ShapeError, match="out= is for one gradient"):
        g(x, w, grad=x, saved=cp.zeros((4, 1)), out=x)
    with pytest.raises(cp.DTypeError, match="no argument is an array of a floating dtype"):
        operator.gradient()(cp.zeros((4, 8), np.int32), cp.zeros(8, np.int32), grad=1.0)


def test_cubes_of_large_values_of_a_group_do_not_overflow(device):
    # 1 / deviation is 1e14, whose cube no float32 holds.
    x = cp.asarray((np.arange(12.0).reshape(2, 6) ** 2 * 1e-14).astype(np.float32))
    grad = np.float32([[1, -2, 3, 1, 0, 2], [2, 1, 0, -1, 1, 3]])
    rms = cp.Grouped(
        "y0 = x0 * x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 += y0;",
        finalize="group_y0 = 1 / sqrt(reduce_y0 / count);",
        each="y0 = x0 * group_y0;",
    )
    _, r = rms(x, axis=1, keep=[True])
    found = rms.gradient(saves="group_y0")(x, grad=cp.asarray(grad), axis=1, saved=r)
    scale = 1 / np.sqrt(np.mean(x.get().astype(np.float64) ** 2, axis=1, keepdims=True))
    y = x.get() * scale
    expected = scale * (grad - y * np.mean(grad * y, axis=1, keepdims=True))
    np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5 * scale.max())


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((1, 8), (8,), (8,)), 1),
        (((1, 1, 8), (1, 8), (8,)), (1, 2)),
        (((9, 1), (9, 9), (9, 9)), (0, 1)),
        (((9, 8, 9), (9, 8, 1), (9, 8, 9)), (0, 2)),
    ],
    ids=str,
)
def test_operands_of_fewer_dimensions_and_one_value_a_part(
    double_device, unoptimised, shapes, axis
):
    operator = cp.Grouped("y0 = x0 * x1 + x2 * x2;", **SUM, each="y0 = x0 * x2 / group_y0 * x1;")
    inputs = [numbers(s, seed=n) for n, s in enumerate(shapes)]
    whole = np.broadcast_shapes(*shapes)
    tensors = [torch.tensor(a).double().requires_grad_() for a in inputs]
    a, b, c = tensors
    total = torch.broadcast_to(a * b + c * c, whole).sum(axis, keepdim=True)
    expected = torch.autograd.grad(a * c / total * b, tensors, torch.ones(whole).double())
    grad = cp.full(whole, 1, np.float64)
    found = operator.gradient()(*map(cp.asarray, inputs), grad=grad, axis=axis)
    for result, right in zip(found, expected, strict=True):
        assert result.shape == right.shape
        np.testing.assert_allclose(result.get(), right.numpy(), rtol=1e-5, atol=1e-6)
