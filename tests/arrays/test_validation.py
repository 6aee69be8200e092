"""Flags, words, numbers and sizes of another kind are refused by every function."""

import functools
import inspect
import pickle

import numpy as np
import pytest

import clprim as cp
from clprim import functions, ops
from clprim.arrays import validation

FUNCTIONS = {
    f"{name}.{n}": getattr(module, n)
    for name, module in (("ops", ops), ("optim", ops.optim), ("cp", functions))
    for n in module.__all__
    if inspect.isfunction(getattr(module, n)) and n != "conv2d"  # which has a test of its own
}
DEEP = functools.reduce(lambda inner, _: [inner], range(3000), [])
MOVES = {"flip": ops.flip, "roll": functools.partial(ops.roll, shifts=1)}
# What is refused, whatever the other arguments are, by the parameter's annotation.
REFUSED = {
    "bool": ["abc", [], {}, None, 2, -1, 0.0, float("nan"), 10**400, np.ones(3), object()],
    "str": [None, [], {}, 1, True, b"mean", np.ones(3), object()],
    "float": [
        None,
        "abc",
        [],
        {},
        b"x",
        1j,
        np.complex64(1),
        np.datetime64(1, "s"),
        np.str_("1"),
        np.ones(3),
        object(),
    ],
    "int": [10**400, -(10**400), 2**63],
    "Sequence[int]": [None, "abc", b"x", {}, 1, 1.5, [1.5], [None], [True], object()],
    "Numbers": [b"x", {}, {1}, 1j, "", 10**400],
    "Array": [None, "abc", {}, 1, 1.5, [1.0], np.ones(3), np.void(b"abc"), object()],
    "Axis": [
        True,
        "abc",
        b"x",
        {},
        {1},
        1.5,
        [True],
        [None],
        np.timedelta64(1, "s"),
        np.array(1.5),
    ],
    "int | Sequence[int]": [None, True, "abc", b"x", {1}, 1.5, [1.5], [2**70], np.ones(())],
    "Sequence[bool]": [None, "abc", True, {}, {1}, [None], [2], ["a"], [0.0], object()],
    "Lists": [None, "abc", b"x", 1, {}, {1}, object(), np.ones(3)],
}


def refusals(functions=FUNCTIONS):
    for name, function in functions.items():
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            if parameter.kind is parameter.VAR_POSITIONAL:
                continue
            for bad in REFUSED.get(parameter.annotation, []):
                yield name, function, parameters, parameter.name, bad


def test_another_kind_is_refused_before_anything_is_looked_at():
    tried = 0
    for _, function, parameters, bad_name, bad in refusals():
        positional = [
            p.name
            for p in parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if bad_name in positional:
            before = positional[: positional.index(bad_name)]
            defaults = [parameters[p].default for p in before]
            args = [() if d is inspect.Parameter.empty else d for d in defaults]
            if not any(parameters[p].annotation in validation._CHECKS for p in before):
                with pytest.raises(cp.ClprimError, match=f"{bad_name}"):
                    function(*args, bad)
        with pytest.raises(cp.ClprimError, match=f"{bad_name}"):
            function(**{bad_name: bad})
        tried += 1
    assert tried > 2000


def test_a_known_convolution_refuses_as_a_new_one_does(device):
    x, w = cp.full((1, 2, 4, 4), 1.0), cp.full((2, 2, 3, 3), 1.0)
    ops.conv2d(x, w)
    tried = 0
    for *_, bad_name, bad in refusals({"ops.conv2d": ops.conv2d}):
        with pytest.raises(cp.ClprimError, match=f"conv2d: .*{bad_name}"):
            ops.conv2d(x, w, **{bad_name: bad})
        tried += 1
    assert tried > 25
    for beta in (np.ones(2), cp.full(2, 1.0), [1, 2]):
        with pytest.raises(cp.ClprimError, match="conv2d: expected a number for beta"):
            ops.conv2d(x, w, beta=beta)


def test_flags_may_be_numpys_and_integers(device):
    x = cp.asarray(np.ones((2, 3), np.float32))
    for yes in (True, np.bool_(True), 1, np.int64(1)):
        assert ops.sum(x, 1, keepdims=yes).shape == x.sum(1, keepdims=yes).shape == (2, 1)
    for no in (False, np.bool_(False), 0, np.uint8(0)):
        assert ops.sum(x, 1, keepdims=no).shape == (2,)
    assert cp.array([1.0], copy=None).shape == (1,)
    with pytest.raises(cp.DTypeError, match="expected True or False for keepdims, got an array"):
        ops.sum(x, 1, keepdims=x)


@pytest.mark.parametrize("alike", [True, 1.0, np.float32(1), np.bool_(True), 1 + 0j], ids=repr)
def test_what_equals_an_axis_is_none_after_it_was_remembered(device, alike):
    x = cp.asarray(np.ones((2, 3), np.float32))
    strings = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
    total = cp.Reduction("y0 = x0;", **strings)
    shares = cp.Grouped("y0 = x0;", **strings, each="y0 = x0 / group_y0;")
    running = cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    grad = cp.zeros((2,))
    for call in (
        lambda axis: ops.sum(x, axis),
        x.sum,
        lambda axis: ops.softmax(x, axis),
        lambda axis: total(x, axis=axis),
        lambda axis: total(x, axis=(axis,)),
        lambda axis: shares(x, axis=axis),
        lambda axis: running(x, axis=axis),
        lambda axis: total.gradient()(x, axis=axis, grad=grad),
        lambda axis: shares.gradient()(x, axis=axis, grad=x),
    ):
        call(1)
        with pytest.raises(cp.ClprimError):
            call(alike)


def test_numpys_integers_are_as_good_as_pythons(device):
    x = cp.asarray(np.ones((2, 3), np.float32))
    assert ops.sum(x, np.int8(1)).shape == ops.sum(x, (np.uint64(1),)).shape == (2,)
    assert ops.chunk(x, np.int16(3), 1)[0].shape == (2, 1)
    image, weight = cp.zeros((1, 2, 4, 4)), cp.zeros((2, 1, 3, 3))
    assert ops.conv2d(image, weight, groups=np.int64(2)).shape == (1, 2, 2, 2)


@pytest.mark.parametrize("bad", ["abc", [], None, 2, np.ones(2)], ids=repr)
def test_flags_of_kernels_from_strings_are_refused(device, bad):
    x = cp.asarray(np.ones((2, 3), np.float32))
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    running = cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")
    for call in (
        lambda: total(x, axis=1, keepdims=bad),
        lambda: total.gradient()(x, axis=1, keepdims=bad, grad=x),
        lambda: running(x, reverse=bad),
        lambda: running(x, exclusive=bad),
        lambda: cp.random.multinomial(x, 2, bad),
    ):
        with pytest.raises(cp.ClprimError):
            call()


def test_other_arguments_of_a_wrong_kind_are_refused(device):
    image, line = cp.asarray(np.ones((1, 2, 4, 4), np.float32)), cp.zeros((2,))
    for call in (
        lambda: ops.batch_norm_train(image, line, line, num_batches_tracked=float("nan")),
        lambda: ops.batch_norm_train(image, line, line, num_batches_tracked=float("inf")),
        lambda: ops.interpolate(image, scale_factor=float("inf")),
        lambda: ops.max_unpool2d(image, image.astype("int64"), 2, output_size=1.5),
        lambda: ops.adaptive_max_pool2d_backward(image, None, image),
        lambda: ops.gather_backward(None, (2,), 0, line),
        lambda: ops.dropout_backward(image, 0.5, "abc"),
        lambda: ops.histc(line, bins=10**400),
        lambda: cp.pad(line, (1, 2, 3)),
        lambda: cp.pad(line, {1}),
        lambda: cp.pad(line, [[1], [1, 2]]),
        lambda: ops.adaptive_avg_pool2d(image, np.timedelta64(1, "s")),
        lambda: ops.affine_grid(image, np.array(1.5)),
        lambda: ops.relu(DEEP),
        lambda: ops.cat(DEEP),
    ):
        with pytest.raises(cp.ClprimError):
            call()


@pytest.mark.parametrize("names", [("dims", "dim"), ("dims", "axis"), ("dim", "axis")])
@pytest.mark.parametrize("name", ["flip", "roll"])
def test_a_dimension_by_two_names_is_refused_in_these_names(device, name, names):
    first, second = names
    with pytest.raises(cp.ShapeError, match=f"{first}=0 and {second}=0 are one argument"):
        MOVES[name](cp.zeros((2, 3)), **dict.fromkeys(names, 0))


def test_a_norm_of_order_0_is_not_denied(device):
    x = cp.asarray(np.eye(3, dtype=np.float32))
    assert ops.pdist(x, p=0).tolist() == [2, 2, 2]
    with pytest.raises(cp.ShapeError, match="expected 0 or more than 0"):
        ops.pdist(x, p=-1)


def test_functions_are_found_by_pickle():
    for function in (ops.sum, ops.optim.adam, cp.sum, cp.array):
        assert pickle.loads(pickle.dumps(function)) is function


def test_strings_of_numpy_are_strings(device):
    word = np.str_
    x = cp.asarray(np.ones((1, 3, 5, 5), np.float32), memory_format=word("contiguous"))
    assert cp.empty(x.shape, memory_format=word("channels_last")).strides[1] == 4
    assert ops.contiguous(x, memory_format=word("contiguous")).strides == x.strides
    assert ops.conv2d(x, cp.full((2, 3, 3, 3), 1.0), padding=word("same")).shape == (1, 2, 5, 5)
    assert ops.mse_loss(x, x, reduction=word("sum")).get() == 0
    with pytest.raises(cp.ShapeError, match="padding='some': expected a number"):
        ops.conv2d(x, cp.full((2, 3, 3, 3), 1.0), padding=word("some"))
