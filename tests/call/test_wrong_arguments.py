"""Arguments of a wrong kind are refused by the library's own errors, by known calls as well."""

import inspect
import itertools
import re
import threading

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import clprim as cp
from clprim import ops


def kind(value):
    return type(value).__name__


BAD = [{}, b"x", "\ud800", 1j, object(), [1, "a"]]
CALLS = {
    "an epilogue": lambda f, m, image, bad: ops.matmul(m, f(5, 3), epilogue=bad),
    "an epilogue of a convolution": lambda f, m, image, bad: ops.conv2d(
        image, f(4, 4, 3, 3), epilogue=bad
    ),
    "out of relu": lambda f, m, image, bad: (ops.relu(m), ops.relu(m, out=bad)),
    "out of sum": lambda f, m, image, bad: (ops.sum(m), ops.sum(m, out=bad)),
    "out of a scan": lambda f, m, image, bad: (
        ops.cumsum(m, axis=1),
        cp.Scan("y0 = x0;", init="scan_y0 = 0;", step="scan_y0 += y0;")(m, axis=1, out=bad),
    ),
    "dtype of sum": lambda f, m, image, bad: ops.sum(m, dtype=bad),
    "dtype of one_hot": lambda f, m, image, bad: ops.one_hot(f(3).astype("int32"), 3, dtype=bad),
    "axis": lambda f, m, image, bad: ops.sum(m, axis=bad),
    "dims": lambda f, m, image, bad: ops.flip(m, bad),
    "stride": lambda f, m, image, bad: ops.conv2d(image, f(4, 4, 3, 3), stride=bad),
    "padding": lambda f, m, image, bad: ops.conv2d(image, f(4, 4, 3, 3), padding=bad),
    "weights": lambda f, m, image, bad: ops.bincount(f(3).astype("int32"), weights=bad),
    "quantile": lambda f, m, image, bad: ops.quantile(m, bad),
    "pad": lambda f, m, image, bad: ops.pad(m, bad),
}


@pytest.mark.parametrize("bad", BAD, ids=kind)
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_kind_is_refused(device, name, bad):
    def f(*shape):
        return cp.asarray(np.ones(shape, np.float32))

    with pytest.raises(cp.ClprimError):
        CALLS[name](f, f(4, 5), f(1, 4, 6, 6), bad)


SIZES = {
    "interpolate": ops.interpolate,
    "adaptive_avg_pool2d": ops.adaptive_avg_pool2d,
    "bincount": lambda image, size: ops.bincount(image[0, 0, 0].astype("int32"), minlength=size),
    "one_hot": lambda image, size: ops.one_hot(image[0, 0, 0].astype("int32"), size),
}


@pytest.mark.parametrize("size", [2**40, 10**400], ids=["large", "huge"])
@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_no_kernel_counts_to_is_refused(device, name, size):
    with pytest.raises(cp.ClprimError):
        SIZES[name](cp.asarray(np.ones((1, 4, 6, 6), np.float32)), size)


def test_no_array_at_all_as_out_is_refused(device):
    # The call was remembered, and taken for one without out=.
    x = cp.asarray(np.ones(3, np.float32))
    for operator in (cp.Pointwise("y0 = x0 + 7;"), ops.sum):
        operator(x)
        for out in ([], (), {}):
            with pytest.raises(cp.ClprimError, match="out"):
                operator(x, out=out)


NO_AXES = [{1}, frozenset([1]), {1: 0}, b"\x01", bytearray(b"\x01"), "", b"", object(), 1.5]


@pytest.mark.parametrize("bad", NO_AXES, ids=kind)
def test_what_has_no_order_names_no_axes_and_no_sizes(device, bad):
    x = cp.asarray(np.ones((3, 4), np.float32))
    for call in (
        lambda: ops.sum(x, axis=bad),
        lambda: x.sum(axis=bad),
        lambda: ops.var_mean(x, axis=bad),
        lambda: ops.flip(x, bad),
        lambda: x[None].squeeze(bad),
        lambda: cp.expand_dims(x, axis=bad),
        lambda: cp.moveaxis(x, bad, 0),
        lambda: x.reshape(bad),
        lambda: cp.broadcast_to(x[:1, :1], bad),
        lambda: cp.zeros(bad),
        lambda: cp.split(x, bad),
    ):
        with pytest.raises(cp.ClprimError):
            call()


@pytest.mark.parametrize("bad", ["abc", {1}, object(), 1.5, None, -1, [1, -1, 1], [1, 2]], ids=kind)
def test_what_counts_no_times_is_refused(device, bad):
    with pytest.raises(cp.ClprimError):
        cp.repeat(cp.zeros((3, 4)), bad, axis=0)


@pytest.mark.parametrize("bad", ["abc", b"x", object(), (3, 5), (7,)], ids=kind)
def test_statistics_are_looked_at_whether_or_not_both_are_given(device, bad):
    x, line = (cp.asarray(np.ones(shape, np.float32)) for shape in ((2, 4, 6), (4,)))
    given = cp.zeros(bad) if isinstance(bad, tuple) else bad
    for name in ("mean", "rstd"):
        for call in (
            lambda **one: ops.layer_norm_backward(x, x, (6,), **one),
            lambda **one: ops.group_norm_backward(x, x, 2, line, **one),
            lambda **one: ops.instance_norm_backward(x, x, line, **one),
        ):
            with pytest.raises(cp.ClprimError, match=name):
                call(**{name: given})


@pytest.mark.parametrize("bad", ["", "abc", {}, {1}, b"", 1, None, object(), [1], ["a"]], ids=kind)
def test_what_is_kept_of_a_group_is_a_list(bad):
    share = cp.Grouped(
        "y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", each="y0 = x0 / group_y0;"
    )
    x = cp.asarray(np.ones((3, 4), np.float32))
    share(x, axis=1, keep=[True])
    share(x, axis=1, keep=[cp.empty((3, 1))])
    for call in (share, share.source):
        with pytest.raises(cp.ClprimError, match="keep="):
            call(x, axis=1, keep=bad)


def test_bags_are_read_inside_of_their_arrays(device):
    # Weights of another shape, and offsets past the end, were read where there is nothing.
    indices, weight = cp.asarray(np.arange(6) % 4), cp.asarray(np.ones((4, 3), np.float32))
    offsets, grad = cp.asarray(np.array([0, 2])), cp.zeros((2, 3))
    for bad in (cp.zeros((2,)), cp.zeros((6, 1)), [1.0] * 6, 1.0):
        for call in (
            lambda **given: ops.embedding_bag(indices, weight, offsets, **given),
            lambda **given: ops.embedding_bag_backward(grad, indices, weight, offsets, **given),
        ):
            with pytest.raises(cp.ClprimError, match="per_sample_weights"):
                call(mode="sum", per_sample_weights=bad)
    for far, sizes in (([0, 10**12], [6, 0]), ([-(10**12), 4], [4, 2]), ([2, 5], [3, 1])):
        offsets = cp.asarray(np.array(far))
        sums = ops.embedding_bag(indices, weight, offsets, mode="sum")
        np.testing.assert_array_equal(sums.get(), np.repeat(sizes, 3).reshape(2, 3))
        for mode in ("sum", "mean", "max"):
            back = ops.embedding_bag_backward(cp.ones((2, 3)), indices, weight, offsets, mode=mode)
            assert np.isfinite(back[0].get()).all()


@pytest.mark.parametrize("bad", [10**5000, np.timedelta64(1, "s"), np.void(b"abc")], ids=kind)
def test_what_python_cannot_print_or_numpy_calls_a_number_is_refused(device, bad):
    x, image = cp.zeros((2, 4)), cp.zeros((1, 4, 4, 4))
    total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
    for call in (
        lambda: ops.cat(bad),
        lambda: ops.sum(x, bad),
        lambda: ops.channel_shuffle(image, bad),
        lambda: ops.adaptive_avg_pool2d(image, bad),
        lambda: ops.avg_pool2d(image, 2, divisor_override=bad),
        lambda: ops.conv2d(image, cp.zeros((4, 4, 1, 1)), groups=bad),
        lambda: ops.dropout(x, bad, training=True),
        lambda: total(x, alpha=bad),
        lambda: cp.zeros(bad),
        lambda: x.reshape(bad),
    ):
        with pytest.raises(cp.ClprimError):
            call()


@pytest.mark.parametrize("bad", [np.array(1.5), np.array(1), np.array(None)], ids=repr)
def test_a_host_number_is_no_result(device, bad):
    x = cp.zeros((2, 4))
    for operator in (ops.relu, ops.sum, ops.amax, cp.Pointwise("y0 = x0 + 3;")):
        with pytest.raises(cp.ClprimError):
            operator(x, out=bad)


LINE = cp.Pointwise("y0 = x0 * x0;")
NUMPYS = {
    "get": lambda x, bad: x.get(bad),
    "get into": lambda x, bad: x.get(ary=bad),
    "copy": lambda x, bad: x.copy(order=bad),
    "reshape": lambda x, bad: x.reshape(3, order=bad),
    "empty": lambda x, bad: cp.empty((3,), memory_format=bad),
    "out": lambda x, bad: cp.abs(x, out=bad),
    "one of several": cp.meshgrid,
    "round": lambda x, bad: x.round(bad),
    "windows": cp.windows,
    "swapaxes": lambda x, bad: cp.swapaxes(x, bad, 0),
    "split": lambda x, bad: cp.split(x, 3, bad),
    "take": lambda x, bad: x.take(0, bad),
    "vecdot": lambda x, bad: cp.vecdot(x, x, axis=bad),
    "tensordot": lambda x, bad: cp.tensordot(x, x, bad),
    "roll": lambda x, bad: cp.roll(x, (1, 1), bad),
    "a gradient's saves": lambda x, bad: LINE.gradient(saves=bad),
    "a gradient's wrt": lambda x, bad: LINE.gradient(bad),
    "a gradient": lambda x, bad: cp.check_gradient(LINE, np.ones(3), gradient=bad),
    "a gradient's step": lambda x, bad: cp.check_gradient(LINE, np.ones(3), step=bad),
    "a gradient's seed": lambda x, bad: cp.check_gradient(LINE, np.ones(3), seed=bad),
    "histogram": ops.histogram,
    "linear_backward": lambda x, bad: ops.linear_backward(
        x[None], x[None], cp.zeros((3, 3)), output_mask=bad
    ),
    "linear_backward out": lambda x, bad: ops.linear_backward(
        x[None], x[None], cp.zeros((3, 3)), out=bad
    ),
}
SEVERAL = {
    "0-d": np.array(1.5),
    "matrix": np.ones((4, 6)),
    "ragged": [[1, 2], [3]],
    "large": 2**62,
    "none": (),
    "words": ["a"],
    "surrogate": "\ud800",
    "time": np.datetime64("NaT", "s"),
    "set": {1},
}
RIGHT = {"a gradient's saves": "none", "a gradient's seed": "large"}


@pytest.mark.parametrize("name", NUMPYS)
def test_functions_of_numpys_names_refuse_by_our_errors(device, name):
    x = cp.zeros((3,))
    for kind_, bad in SEVERAL.items():
        if kind_ != RIGHT.get(name):
            with pytest.raises(cp.ClprimError):
                NUMPYS[name](x, bad)


@pytest.mark.parametrize(
    "bad", [np.complex64(1j), np.datetime64("NaT", "s"), np.array(1j)], ids=kind
)
def test_complex_numbers_and_times_are_not_converted_silently(device, bad):
    x = cp.zeros((3,))
    for call in (
        lambda: x.fill(bad),
        lambda: x.__setitem__(0, bad),
        lambda: x.__setitem__(slice(None), np.broadcast_to(bad, 3)),
        lambda: cp.asarray(np.broadcast_to(bad, 3), np.float32),
        lambda: cp.full_like(x, bad),
        lambda: cp.searchsorted(x, bad),
    ):
        with pytest.raises(cp.ClprimError):
            call()
    assert x.tolist() == [0, 0, 0]


STRINGS = {"init": "reduce_y0 = 0;", "step": "reduce_y0 += y0;"}
# What order and checks of launches are asked for with, and where: a function's every such name.
ORDERED = {
    ("Array.get", "queue"): lambda x, bad: x.get(bad),
    ("Array.set", "queue"): lambda x, bad: x.set(np.ones(3), bad),
    ("Array.set", "async_"): lambda x, bad: x.set(np.ones(3), async_=bad),
    ("Array.copy", "queue"): lambda x, bad: x.copy(bad),
    ("Array.astype", "queue"): lambda x, bad: x.astype(np.int32, queue=bad),
    ("Array.fill", "queue"): lambda x, bad: x.fill(1, bad),
    ("Array.fill", "wait_for"): lambda x, bad: x.fill(1, wait_for=bad),
    ("Array.to_device", "stream"): lambda x, bad: x.to_device(x.device, stream=bad),
    ("Exchange.__dlpack__", "stream"): lambda x, bad: x.__dlpack__(stream=bad),
    ("Pointwise.__init__", "check"): lambda x, bad: cp.Pointwise("y0 = x0;", check=bad),
    ("Reduction.__init__", "check"): lambda x, bad: cp.Reduction("y0 = x0;", **STRINGS, check=bad),
}


def test_every_name_of_a_queue_a_stream_an_event_and_a_check_is_tried():
    names = {"queue", "wait_for", "stream", "check", "async_"}
    public = [getattr(module, n) for module in (cp, ops, cp.random) for n in module.__all__]
    classes = [kind for found in public if inspect.isclass(found) for kind in found.__mro__]
    methods = [method for kind in classes for method in vars(kind).values()]
    functions = [f for f in (*public, *methods) if inspect.isfunction(f)]
    found = {
        (function.__qualname__, name)
        for function in functions
        if function.__module__.startswith("clprim")
        for name in names & {*inspect.signature(function).parameters}
    }
    assert found - {("Device.replace_queue", "queue")} == {*ORDERED}  # that one is profiles'


@pytest.mark.parametrize("called", ORDERED, ids=".".join)
def test_no_queue_no_stream_no_events_and_no_check_is_refused(device, called):
    x, name = cp.zeros((3,)), called[1]
    for bad in ("junk", 3.5, 7, np.ones(2), x, object(), [1], {}, ["abc"], (None,)):
        with pytest.raises(cp.DTypeError, match=f"expected .* for {name}, got"):
            ORDERED[called](x, bad)
    assert x.tolist() == [0, 0, 0]


def test_queues_and_events_are_taken(device):
    x, queue = cp.zeros((3,)), cl.CommandQueue(device.context)
    event = cl.enqueue_marker(queue)
    assert x.fill(2, queue, [event]).copy(queue).astype(np.int32, queue).get(queue).sum() == 6
    x.set(np.ones(3, np.float32), queue, True)
    assert x.fill(3, wait_for=()).to_device(device, stream=None).tolist() == [3, 3, 3]


@pytest.mark.parametrize("late", ["own", "users", "event"])
def test_queues_are_in_order(device, late):
    x, queue = cp.zeros((3,)), cl.CommandQueue(device.context)
    cp.synchronize()
    event = cl.UserEvent(device.context)
    timer = threading.Timer(0.1, event.set_status, [cl.command_execution_status.COMPLETE])
    timer.start()
    if late == "own":  # what it was given before is there for another queue
        cl.enqueue_barrier(device.queue, wait_for=[event])
        assert x.fill(2).get(queue).tolist() == [2, 2, 2]
    elif late == "users":
        cl.enqueue_fill(queue, x.base_data, np.float32(2), x.nbytes, wait_for=[event])
        assert x.copy(queue).tolist() == [2, 2, 2]
    else:
        assert x.fill(2, wait_for=[event]).tolist() == [2, 2, 2]
        assert event.command_execution_status == cl.command_execution_status.COMPLETE
    timer.join()


@pytest.mark.parametrize("bad", ["abc", 1, 1.5, (1,), (1, 2, 3), {1, 2}], ids=repr)
def test_versions_and_devices_of_an_exchange_are_two_integers(device, bad):
    for name in ("max_version", "dl_device"):
        with pytest.raises(cp.ShapeError, match=f"{name}=.* expected two integers"):
            cp.zeros((3,)).__dlpack__(**{name: bad})


@pytest.mark.parametrize("shape", [(4,), (2, 2, 3), (0,), (3, 2)], ids=str)
def test_what_does_not_broadcast_is_named_as_it_was_given(device, shape):
    # The message spoke of `copy` and its `out=`, which nobody had written.
    for dtype in (np.float32, np.int32):
        x, value = cp.zeros((2, 3)), np.ones(shape, dtype)
        for given in (value, cp.asarray(value)):
            with pytest.raises(
                cp.ShapeError, match=r"^set: ary of shape \(.*broadcast to \(2, 3\)"
            ):
                x.set(given)
            with pytest.raises(cp.ShapeError, match=r"^array\[1\] = value of shape \(.* to \(3,\)"):
                x[1] = given
        assert not x.any()


@pytest.mark.parametrize("bad", [None, "1.5", b"1.5", np.str_("2"), np.array("3"), 1j], ids=repr)
def test_what_is_no_number_fills_no_array(device, bad):
    # NumPy makes NaN of None, and numbers of texts.
    x = cp.zeros((2, 3))
    for call in (
        lambda: x.set(bad),
        lambda: x.__setitem__(0, bad),
        lambda: x.__setitem__(x == 0, bad),
        lambda: x.fill(bad),
        lambda: cp.full(3, bad, dtype="float32"),
        lambda: cp.asarray(bad, dtype="float32"),
    ):
        with pytest.raises(cp.ClprimError):
            call()
    assert not x.any()


ENDLESS = range(10**12)
UNEVEN = [[1], [2, 3]]
NEITHER = {
    "set": lambda x: x.set(ENDLESS),
    "an assignment": lambda x: x.__setitem__(0, ENDLESS),
    "fill": lambda x: x.fill(ENDLESS),
    "asarray": lambda x: cp.asarray(ENDLESS),
    "a large number": lambda x: cp.asarray(10**400, np.float32),
    "isin": lambda x: cp.isin(10**400, x),
    "full": lambda x: cp.full(3, ENDLESS),
    "full of an array": lambda x: cp.full(3, (x, "a")),
    "pad": lambda x: cp.pad(x, ENDLESS),
    "repeat": lambda x: cp.repeat(x, ENDLESS),
    "repeat too often": lambda x: cp.repeat(x[0], cp.asarray(np.full(3, 10**12))),
    "take": lambda x: cp.take(x, UNEVEN),
    "median": lambda x: cp.median(x, axis=UNEVEN),
    "stride": lambda x: ops.conv2d(x[None, None], x[None, None], stride=ENDLESS),
    "kernel_size": lambda x: ops.avg_pool1d(x, ENDLESS),
    "output_size": lambda x: ops.adaptive_avg_pool1d(x, ENDLESS),
    "fold": lambda x: ops.fold(x, ENDLESS, 2),
    "axis": lambda x: ops.sum(x, axis=itertools.count()),
    "zero_point": lambda x: ops.dequantize(x.astype("int32"), ENDLESS, 0),
    "broadcast_shapes": cp.broadcast_shapes,
    "scale_factor": lambda x: ops.interpolate(x[None, None], scale_factor=ENDLESS),
    "shapes": lambda x: ops.block_diag_backward(x, (4, 3)),
    "out of kron": lambda x: ops.kron(x, x, out=ENDLESS),
    "a class for x": lambda x: ops.linear(np.float32, x),
    "a class for w": lambda x: ops.linear(x, np.float32),
    "isin of no array": lambda x: cp.isin(1.5, {"a": x}),
    "casting": lambda x: cp.can_cast(x, x, casting="float32"),
    "__array__": lambda x: x.__array__(dtype=1j),
    "out of var": lambda x: x.var(out=[1]),
    "a class for grad": lambda x: ops.conv2d_bias(np.float32),
    "setitem": lambda x: x.setitem(0, 1),
    "a time for a seed": lambda x: cp.random.seed(np.timedelta64(3, "s")),
    "no state": lambda x: cp.random.set_state(None),
}


@pytest.mark.parametrize("called", NEITHER)
def test_what_has_no_end_or_is_no_array_is_refused(device, called):
    # Of these NumPy, Python or PyOpenCL raised errors of their own, after gigabytes or never.
    x = cp.zeros((4, 3))
    with pytest.raises(cp.ClprimError):
        NEITHER[called](x)
    assert not x.any()


def test_differences_end_where_none_are_left(device):
    x = cp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4) ** 2)
    assert cp.diff(x, n=2**62).shape == cp.diff(x, n=4).shape == (3, 0)


def test_methods_take_the_names_that_help_shows(device):
    x = cp.asarray(np.array([1.25, -3.75], np.float32))
    assert x.round(decimals=1).tolist() == pytest.approx([1.2, -3.8])
    assert x.take(indices=[1]).tolist() == [-3.75]
    assert x.repeat(repeats=2).tolist() == [1.25, 1.25, -3.75, -3.75]


def test_arrays_of_pyopencl_itself_are_taken(device):
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain = cl_array.to_device(device.queue, host)
    np.testing.assert_array_equal(cp.matrix_transpose(plain).get(), host.T)
    assert cp.vdot(plain, plain).get() == np.vdot(host, host)
    counts = cl_array.to_device(device.queue, np.array([2, 1], np.int32))
    np.testing.assert_array_equal(cp.repeat(plain, counts, axis=0).get(), host[[0, 0, 1]])
    np.testing.assert_allclose(ops.cdist(plain, plain).get()[0], [0, 27**0.5], rtol=1e-6)


OWN_NAMES = {
    "linear: expected a device array for x": lambda x: ops.linear(None, x),
    "linear: expected a device array for w": lambda x: ops.linear(x, None),
    "bucketize: expected a device array for boundaries": lambda x: ops.bucketize(x, [1, 2]),
    "addmm: x has shape (4,), which does not broadcast": lambda x: ops.addmm(x.ravel(), x, x),
    "index_put: out= for y0 has shape (4,)": lambda x: ops.index_put(x, (0,), x[0], out=x.ravel()),
    "chunk_backward: grads=1: expected a list": lambda x: ops.chunk_backward(1),
    "split_backward: expected a device array for grads[1]": lambda x: ops.split_backward([x, 1]),
    "unbind_backward: grads=[]: expected a list": lambda x: ops.unbind_backward([]),
    "diag_embed_backward: grad has shape (4,)": lambda x: ops.diag_embed_backward(x.ravel()),
    "state='a': expected a state": lambda x: ops.dropout_backward(x, "a"),
    **{
        f"{name}: expected a device array for grad": lambda x, name=name, rest=rest: getattr(
            ops, name
        )(None, *(x if r is None else r for r in rest))
        for name, rest in {
            "cumsum_backward": (0,),
            "flip_backward": (0,),
            "fold_backward": (2,),
            "index_fill_backward": (0, None),
            "masked_fill_backward": (None,),
            "roll_backward": (1,),
            "stack_backward": (),
        }.items()
    },
}


@pytest.mark.parametrize("message", OWN_NAMES)
def test_messages_use_the_names_of_what_was_called(device, message):
    x = cp.asarray(np.ones((2, 2), np.float32))
    with pytest.raises(cp.ClprimError, match=f"^{re.escape(message)}"):
        OWN_NAMES[message](x)
