"""`Reduction.gradient` against PyTorch: what steps keep, finalize, axes, ties, refusals."""

import numpy as np
import pytest
from reduction_cases import CASES, SUM, arrays, norm
from support import numbers

import clprim as cp

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(double_device, name):
    expr, strings, reference = CASES[name]
    operator = cp.Reduction(expr, **strings)
    a, b = arrays(name)
    tensors = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    results = reference(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    grads = [np.linspace(0.5, 2, 12).reshape(4, 1, 3) + n for n in range(len(results))]
    expected = torch.autograd.grad(
        results, tensors, [torch.tensor(g) for g in grads], allow_unused=True
    )
    inputs = (a, b)[: operator.definition.inputs]
    args = [cp.asarray(v) for v in inputs]
    found = operator.gradient()(
        *args, axis=1, keepdims=True, grad=tuple(cp.asarray(g) for g in grads)
    )
    found = found if isinstance(found, tuple) else (found,)
    for result, right in zip(found, expected, strict=False):
        wanted = np.zeros_like(a) if right is None else right.numpy()
        np.testing.assert_allclose(result.get(), wanted, rtol=1e-10, atol=1e-10)
    flat = tuple(cp.asarray(g[:, 0]) for g in grads)
    again = operator.gradient()(*args, axis=1, grad=flat if len(flat) > 1 else flat[0])
    again = again if isinstance(again, tuple) else (again,)
    for result, same in zip(again, found, strict=True):
        np.testing.assert_array_equal(result.get(), same.get())


@pytest.mark.parametrize("axis", [None, 0, 2, (0, 2), (1, -1)])
def test_axes(device, axis):
    g = cp.Reduction("y0 = x0 * x0;", **norm("y0 = sqrt(reduce_y0);")).gradient()
    a = numbers((3, 4, 5))
    t = torch.tensor(a, requires_grad=True)
    result = t.norm(dim=axis)
    grad = numbers(tuple(result.shape), seed=1)
    (right,) = torch.autograd.grad(result, t, torch.tensor(grad))
    found = g(cp.asarray(a), axis=axis, grad=cp.asarray(grad))
    np.testing.assert_allclose(found.get(), right.numpy(), rtol=1e-5, atol=1e-6)


def test_broadcast_operands_are_summed(device):
    g = cp.Reduction("y0 = x0 * x1;", **SUM).gradient()
    a, b, grad = numbers((3, 4, 5)), numbers((4, 1), seed=1), numbers((3, 4), seed=2)
    ga, gb = g(cp.asarray(a), cp.asarray(b), axis=2, grad=cp.asarray(grad))
    np.testing.assert_array_equal(ga.get(), np.broadcast_to(grad[..., None] * b, a.shape))
    np.testing.assert_array_equal(gb.get(), (a * grad[..., None]).sum((0, 2))[:, None])


def test_an_operand_that_is_repeated_along_reduced_axes(device):
    g = cp.Reduction("y0 = x0 + x1;", **SUM).gradient()
    a, b, grad = numbers((3, 4)), numbers((4,), seed=1), numbers((3,), seed=2)
    ga, gb = g(cp.asarray(a), cp.asarray(b), axis=1, grad=cp.asarray(grad))
    np.testing.assert_array_equal(ga.get(), np.repeat(grad[:, None], 4, 1))
    np.testing.assert_array_equal(gb.get(), np.full(4, grad.sum()))


def test_scalars_of_elements_and_of_results(double_device):
    f = cp.Reduction("y0 = x0 * w0;", **norm("y0 = reduce_y0 * w0 + w1;"))
    g = f.gradient(("x0", "w0", "w1"))
    a, grad = numbers((3, 4), np.float64), numbers((3,), np.float64, seed=1)
    ga, g0, g1 = g(cp.asarray(a), 3.0, 1.0, axis=1, grad=cp.asarray(grad))
    np.testing.assert_allclose(ga.get(), np.repeat(9 * grad[:, None], 4, 1))
    assert g0.get() == pytest.approx(2 * 3 * (a.sum(1) * grad).sum())
    assert g1.get() == grad.sum()


def test_arrays_of_elements_and_of_results(double_device):
    f = cp.Reduction("y0 = x0 * x1;", **norm("y0 = reduce_y0 * x1 * x2 + w0;"))
    a, b, c = (numbers(s, np.float64, seed=n) for n, s in enumerate(((3, 4, 2), (3, 1, 2), (2,))))
    tensors = [torch.tensor(v, requires_grad=True) for v in (a, b, c)]
    result = (tensors[0] * tensors[1]).sum(1) * tensors[1][:, 0] * tensors[2] + 2
    grad = numbers((3, 2), np.float64, seed=3)
    args = [*map(cp.asarray, (a, b, c)), 2.0]
    for given, handed in ((cp.asarray(grad), grad), (0.5, np.full((3, 2), 0.5))):
        right = torch.autograd.grad(result, tensors, torch.tensor(handed), retain_graph=True)
        found = f.gradient()(*args, axis=1, grad=given)
        for one, other in zip(found, right, strict=True):
            np.testing.assert_allclose(one.get(), other.numpy(), rtol=1e-12)
    assert f.gradient("w0")(*args, axis=1, grad=0.5).get() == 3
    only = f.gradient("x2")  # no kernel runs over elements for what is read once a result
    assert only.source(*args, axis=1, grad=0.5).count("gradient(") == 1


def test_arrays_of_results_that_change_along_the_axes_are_refused(device):
    f = cp.Reduction("y0 = x0;", **norm("y0 = reduce_y0 * x1;"))
    for grad in (1.0, cp.zeros(3)):
        with pytest.raises(cp.ShapeError, match=r"finalize reads x1, whose shape \(4,\)"):
            f.gradient()(cp.zeros((3, 4)), cp.zeros(4), axis=1, grad=grad)


def test_second_derivatives_of_arrays_of_results(double_device):
    f = cp.Reduction("y0 = x0 * x0;", **norm("y0 = reduce_y0 * x1 * x1;"))
    a, b = numbers((3, 4), np.float64), numbers((3, 1), np.float64, seed=1)
    x, s = (torch.tensor(v, requires_grad=True) for v in (a, b))
    first = torch.autograd.grad(
        ((x * x).sum(1, keepdim=True) * s * s).sum(), [x, s], create_graph=True
    )
    right = torch.autograd.grad([*first], [x, s], [torch.ones(3, 4), torch.ones(3, 1)])
    ones = tuple(cp.full(v.shape, 1.0, np.float64) for v in (a, b))
    found = f.gradient().gradient(("x0", "x1"))(cp.asarray(a), cp.asarray(b), axis=1, grad=ones)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one.get(), other.numpy(), rtol=1e-12)


def test_the_position_of_the_greatest_takes_no_gradient(device):
    f = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0;",
        step="if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
    )
    a = np.array([[1, 5, 5, 2], [7, 0, 1, 2]], np.float32)
    found = f.gradient()(cp.asarray(a), axis=1, grad=(cp.full(2, 2.0), None))
    np.testing.assert_array_equal(found.get(), [[0, 1, 1, 0], [2, 0, 0, 0]])


def test_what_the_winner_brings_takes_the_gradient_at_its_place(device):
    f = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = lowest_reduce_y0; reduce_y1 = 0; reduce_y2 = 0;",
        step="""
            if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = x1 * x1; reduce_y2 = reduce_item; }
        """,
        finalize="y0 = reduce_y1;",
    )
    a = np.array([[1, 5, 5, 2], [7, 0, 1, 2]], np.float32)
    b = numbers((2, 4), seed=1)
    ga, gb = f.gradient()(cp.asarray(a), cp.asarray(b), axis=1, grad=cp.full(2, 1.0))
    expected = np.zeros((2, 4))
    expected[0, 1], expected[1, 0] = 2 * b[0, 1], 2 * b[1, 0]
    np.testing.assert_array_equal(ga.get(), np.zeros((2, 4)))
    np.testing.assert_array_equal(gb.get(), expected)


def test_saved_results_spare_the_partials(device):
    f = cp.Reduction("y0 = x0 * x0;", **norm("y0 = sqrt(reduce_y0);"))
    a = cp.asarray(np.array([[3, 4], [6, 8]], np.float32))
    g = f.gradient(saves="y0")
    assert "sqrt" not in str(g)
    found = g(a, axis=1, grad=1.0, saved=f(a, axis=1))
    np.testing.assert_allclose(found.get(), [[0.6, 0.8], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_formats_views_and_dtypes(device, dtype):
    g = cp.Reduction("y0 = x0 * x0;", **norm("y0 = reduce_y0 / count;")).gradient()
    a, grad = numbers((2, 3, 4, 4), dtype), numbers((2, 4), dtype, seed=1)
    for array in (cp.asarray(a), cp.asarray(a, memory_format="channels_last")):
        found = g(array, axis=(1, 3), grad=cp.asarray(grad))
        assert found.dtype == dtype and found.strides == array.strides
        expected = 2 * a * grad[:, None, :, None] / 12
        np.testing.assert_allclose(
            found.get(), expected, rtol=2e-3 if dtype == np.float16 else 1e-6
        )


def test_what_is_not_understood_is_refused_with_its_place():
    f = cp.Reduction(
        "y0 = x0;",
        init="reduce_y0 = 0;",
        step="reduce_y0 = 0.5 * reduce_y0 + y0;",
        combine="reduce_y0 += other_y0;",
    )
    with pytest.raises(cp.DefinitionError, match="Reduction step, line 1: what reduce_y0 keeps"):
        f.gradient()


def test_wrong_arguments(device):
    a = cp.asarray(numbers((3, 4)))
    g = cp.Reduction("y0 = x0;", **SUM).gradient()
    with pytest.raises(cp.ShapeError, match=r"grad= of y0 has shape \(4,\), expected \(3,\)"):
        g(a, axis=1, grad=cp.asarray(numbers((4,))))
    with pytest.raises(cp.ShapeError, match="grad= is missing"):
        g(a, axis=1)
    with pytest.raises(cp.ShapeError):
        g(a, axis=2, grad=1.0)
    with pytest.raises(cp.DTypeError, match="no argument is an array of a floating dtype"):
        g(cp.asarray(numbers((3, 4), np.int32)), axis=1, grad=1.0)


def test_partials_and_elements_are_one_kernel_where_the_group_is_near(device, unoptimised):
    if not device.traits.is_cpu:
        pytest.skip("runs are for CPUs")
    length = cp.Reduction("y0 = x0 * x0;", **SUM, finalize="y0 = sqrt(reduce_y0 + w0) * w1;")
    a, gy = numbers((6, 70)), numbers((6,), seed=1, low=1)
    g = length.gradient()
    found = g(cp.asarray(a), 0.5, 3.0, axis=1, grad=cp.asarray(gy))
    right = 3 * gy[:, None] * a / np.sqrt((np.float64(a) ** 2).sum(1, keepdims=True) + 0.5)
    np.testing.assert_allclose(found.get(), right, rtol=3e-6)
    one = g.source(cp.asarray(a), 0.5, 3.0, axis=1, grad=cp.asarray(gy))
    assert one.count("__kernel") == 1 and "sqrt" in one
    number = g(cp.asarray(a), 0.5, 3.0, axis=1, grad=2.0)
    np.testing.assert_allclose(number.get(), right * 2 / gy[:, None], rtol=3e-6)
    b = numbers((70,), seed=2)  # what is summed is a kernel of its own
    dot = cp.Reduction("y0 = x0 * x1;", **SUM, finalize="y0 = reduce_y0 * reduce_y0;").gradient()
    ga, gb = dot(cp.asarray(a), cp.asarray(b), axis=1, grad=cp.asarray(gy))
    dots = (np.float64(a) @ b) * 2 * gy
    np.testing.assert_allclose(ga.get(), dots[:, None] * b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gb.get(), dots @ np.float64(a), rtol=1e-4, atol=1e-4)
