"""What a user of NumPy types: each line once with NumPy's arrays, once with the device's."""

import copy
import pickle
import subprocess
import sys
import types

import numpy as np
import pytest
from support import BFLOAT16, equal

import clprim as cp
from clprim import ops
from clprim.errors import ClprimError, DeviceError, DTypeError, MissingNameError, ShapeError
from clprim.ops.registry import OPERATORS

pytestmark = pytest.mark.usefixtures("unoptimised")

A = np.float32([[3, -1, 2, 0], [0.5, 7, -2, 4], [1, 1, 6, -5]])
I = np.int32([[3, 1, 2], [0, -7, 7]])  # noqa: E741
LINE = np.float32([3, -1, 2, 2])

# Of the module (NumPy or clprim), a matrix, integers and a line.
METHODS = [
    lambda xp, a, i, v: a.mean(),
    lambda xp, a, i, v: a.mean(axis=0),
    lambda xp, a, i, v: i.mean(axis=1, keepdims=True),
    lambda xp, a, i, v: (a.max(), a.min(), a.max(axis=1)),
    lambda xp, a, i, v: (a.std(), a.var(axis=0), a.var(ddof=1)),
    lambda xp, a, i, v: (a.sum(axis=(0, 1)), i.sum(), i.prod(axis=0)),
    lambda xp, a, i, v: (a.argmax(), a.argmin(axis=1)),
    lambda xp, a, i, v: (a.argsort(), i.argsort(axis=0)),
    lambda xp, a, i, v: ((a > 0).any(), (a > 0).all(axis=1)),
    lambda xp, a, i, v: (a.clip(0, 2), a.clip(min=1), a.clip(max=1)),
    lambda xp, a, i, v: (a.round(), (a / 8).round(2)),
    lambda xp, a, i, v: (a.astype(np.int8), i.astype("float32")),
    lambda xp, a, i, v: (a.flatten(), a.ravel(), a.T.ravel()),
    lambda xp, a, i, v: (a[None, :, None].squeeze(), a[:1].squeeze(0), a[:1].squeeze(axis=0)),
    lambda xp, a, i, v: (a.copy(), a.T, a.transpose(1, 0), a.swapaxes(0, 1)),
    lambda xp, a, i, v: (a @ a.T, a @ v, v @ v, a.dot(v)),
    lambda xp, a, i, v: (a.cumsum(), a.cumsum(axis=1), i.cumprod(axis=0)),
    lambda xp, a, i, v: (v.repeat(2), a.repeat(2, axis=0), a.take(xp.asarray([2, 0]), axis=1)),
    lambda xp, a, i, v: (a.trace(), a.diagonal(1), a.ptp(axis=0) if xp is cp else np.ptp(a, 0)),
    lambda xp, a, i, v: a.nonzero(),
    lambda xp, a, i, v: xp.sort(v).searchsorted(xp.asarray(np.float32([0, 2]))),
    lambda xp, a, i, v: tuple(row.sum() for row in a),
    lambda xp, a, i, v: (-a, abs(a), ~i, a**2, i // 2, i % 3, 2 - a, i << 1, (a > 0) & (a < 3)),
]
INDEXING = [
    lambda xp, a, i, v: (a[a > 0], i[i == 100], a[~(a > 0)]),
    lambda xp, a, i, v: a[xp.asarray([True, False, True])],
    lambda xp, a, i, v: a[:, xp.asarray([True, False, True, True])],
    lambda xp, a, i, v: (a[[2, 0, 2]], a[xp.asarray([[0, -1], [1, 1]])], a[np.array([1, 2])]),
    lambda xp, a, i, v: (a[:, [3, 0]], a[1:, [3, 0]], a[[0, 1], [1, 2]], a[[0, 2], 1:3]),
    lambda xp, a, i, v: (a[0, [1, 2]], a[..., [1, 2]], a[None, [1, 2]], a[[1], ..., 2]),
    lambda xp, a, i, v: a[xp.argmax(a, axis=0)],
    lambda xp, a, i, v: a[v.argmax()],
]
FUNCTIONS = [
    lambda xp, a, i, v: (xp.sin(a), xp.exp(a), xp.tanh(a), xp.sqrt(xp.abs(a))),
    lambda xp, a, i, v: (xp.sum(a), xp.mean(a, axis=1), xp.std(a), xp.max(a, axis=0), xp.min(a)),
    lambda xp, a, i, v: (
        xp.maximum(a, 1),
        xp.minimum(a, v),
        xp.where(a > 0, a, 0),
        xp.where(a > 2),
    ),
    lambda xp, a, i, v: (xp.add(a, v), xp.subtract(1, a), xp.multiply(a, 2), xp.divide(a, v + 10)),
    lambda xp, a, i, v: (xp.power(a, 2), xp.remainder(i, 3), xp.floor_divide(i, 2)),
    lambda xp, a, i, v: (xp.equal(a, v), xp.less(a, 1), xp.logical_and(a, v), xp.logical_not(a)),
    lambda xp, a, i, v: (xp.isnan(a / v), xp.isinf(v / (v - v[0])), xp.isfinite(v), xp.signbit(a)),
    lambda xp, a, i, v: (xp.arctan2(a, v), xp.hypot(a, 3), xp.copysign(2, a), xp.logaddexp(a, v)),
    lambda xp, a, i, v: (xp.concatenate([a, a]), xp.stack([v, v], axis=1), xp.vstack([a, v])),
    lambda xp, a, i, v: (xp.hstack([v, v]), xp.tile(v, 2), xp.repeat(i, 2, axis=1), xp.roll(v, 1)),
    lambda xp, a, i, v: (xp.flip(a), xp.flip(a, 1), xp.expand_dims(v, 0), xp.squeeze(a[:1])),
    lambda xp, a, i, v: (xp.reshape(a, (4, 3)), xp.transpose(a), xp.moveaxis(a, 0, 1)),
    lambda xp, a, i, v: (xp.broadcast_to(v, (2, 4)), xp.ravel(i), xp.split(v, 2), xp.split(v, [1])),
    lambda xp, a, i, v: (xp.pad(v, 1), xp.pad(a, ((1, 0), (0, 2)), mode="edge")),
    lambda xp, a, i, v: (
        xp.sort(a),
        xp.argsort(v),
        xp.unique(v),
        xp.median(v),
        xp.median(a, axis=0),
    ),
    lambda xp, a, i, v: (xp.cumsum(v), xp.clip(a, 0, 1), xp.round(a), xp.argmax(a, axis=1)),
    lambda xp, a, i, v: (xp.matmul(a, v), xp.dot(v, v), xp.outer(v, v), xp.einsum("ij,j->i", a, v)),
    lambda xp, a, i, v: (xp.tensordot(a, a, axes=([1], [1])), xp.inner(a, v), xp.trace(a)),
    lambda xp, a, i, v: (xp.tril(a), xp.triu(a, k=1), xp.diag(v), xp.diagonal(a), xp.rot90(a)),
    lambda xp, a, i, v: (xp.all(a), xp.any(a, axis=0), xp.count_nonzero(a), xp.ptp(a)),
    lambda xp, a, i, v: (xp.average(a, axis=1), xp.average(a, axis=1, weights=v + 2)),
    lambda xp, a, i, v: (xp.zeros_like(a), xp.ones_like(i), xp.full_like(v, 7)),
    lambda xp, a, i, v: (xp.allclose(a, a + 1e-7), xp.array_equal(a, a), xp.isclose(v, 2)),
    lambda xp, a, i, v: (xp.take_along_axis(a, xp.argsort(a), axis=1), xp.take(v, xp.asarray([3]))),
    lambda xp, a, i, v: tuple(xp.meshgrid(v, i[0])),
]
CREATION = [
    lambda xp: (xp.arange(5), xp.arange(2, 11, 3), xp.arange(5, 0, -2), xp.arange(3, 3)),
    lambda xp: (xp.arange(0, 1, 0.25, dtype=np.float32), xp.arange(4, dtype=np.int8)),
    lambda xp: xp.linspace(0, 1, 7, dtype=np.float32),
    lambda xp: (xp.linspace(-2, 3, 5, dtype=np.float32), xp.linspace(0, 4, 4, endpoint=False)),
    lambda xp: (xp.eye(3), xp.eye(2, 4, k=1), xp.identity(2)),
    lambda xp: (xp.ones((2, 3)), xp.ones(3, np.int16), xp.zeros(2), xp.full((2,), 7)),
    lambda xp: (xp.array([[1, 2], [3, 4]]), xp.array(5), xp.array([True, False])),
]


def names(lines):
    return [f"{n}" for n in range(len(lines))]


def run(line, *given):
    with np.errstate(all="ignore"):
        found = line(*given)
    return found if isinstance(found, tuple) else (found,)


def compare(found, expected):
    assert len(found) == len(expected)
    for x, a in zip(found, expected, strict=True):
        if isinstance(a, list | tuple):
            compare(x, a)
            continue
        y = x.get() if isinstance(x, cp.Array) else x
        assert np.shape(y) == np.shape(a)
        np.testing.assert_allclose(y, a, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("line", METHODS + INDEXING, ids=names(METHODS + INDEXING))
def test_methods_and_indices(double_device, line):
    given = run(line, cp, *map(cp.asarray, (A, I, LINE)))
    compare(given, run(line, np, A, I, LINE))
    assert all(isinstance(x, cp.Array | tuple) for x in given)


@pytest.mark.parametrize("line", FUNCTIONS, ids=names(FUNCTIONS))
def test_functions(double_device, line):
    expected = run(line, np, A, I, LINE)
    compare(run(line, cp, *map(cp.asarray, (A, I, LINE))), expected)


# NumPy's own functions, of arrays on the device: they stay there.
@pytest.mark.parametrize("line", FUNCTIONS, ids=names(FUNCTIONS))
def test_numpys_functions_compute_on_the_device(double_device, line):
    module = types.SimpleNamespace(**{**vars(np), "asarray": cp.asarray})
    found = run(line, module, *map(cp.asarray, (A, I, LINE)))
    compare(found, run(line, np, A, I, LINE))
    assert not any(isinstance(x, np.ndarray) for x in found)


def test_sums_of_short_integers_have_numpys_dtypes(double_device):
    host, weights = np.array([200, 100, 250], np.uint8), np.array([1, 200, 7], np.uint8)
    x, w = cp.asarray(host), cp.asarray(weights)
    for found, expected in (
        (cp.sum(x, dtype=np.uint8), np.sum(host, dtype=np.uint8)),
        (cp.prod(x, dtype=np.int16), np.prod(host, dtype=np.int16)),
        (cp.vecdot(x, w), np.vecdot(host, weights)),
        (cp.average(x, weights=w), np.average(host, weights=weights)),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.get(), expected, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint64"])
def test_products_of_integers_have_numpys_dtypes_and_wrap(device, dtype):
    a = np.random.default_rng(0).integers(0, 127, (3, 40)).astype(dtype)
    x = cp.asarray(a)
    lines = [
        lambda xp, a: (a @ a.T, a[0] @ a[1], a[0].dot(a[1]), xp.inner(a, a)),
        lambda xp, a: (xp.tensordot(a, a, ((), ())), xp.tensordot(a, a, ([1], [1]))),
        lambda xp, a: (xp.einsum("ij,kj->ik", a, a), xp.vecdot(a, a), xp.outer(a[0], a[1])),
    ]
    for line in lines:
        for found, expected in zip(line(cp, x), line(np, a), strict=True):
            equal(found, expected, expected.dtype)


def test_numpys_questions(device):
    x = cp.asarray(A)
    assert (np.ndim(x), np.shape(x), np.size(x)) == (2, (3, 4), 12)
    assert np.add.reduce(x).shape == (4,)
    assert np.array_equal(x, A)
    assert not np.array_equal(A + 1, x)
    assert np.allclose(x, A)
    equal(np.tril(x, -1), np.tril(A, -1))
    equal(np.roll(x, 1, 0), np.roll(A, 1, 0))
    equal(divmod(x, 2)[1], A % 2)
    assert np.result_type(np.float32, x.dtype) == np.float32
    x = np.float32(2) * x
    assert isinstance(x, cp.Array)
    equal(np.negative(x, out=x), -2 * A)


@pytest.mark.parametrize("line", CREATION, ids=names(CREATION))
def test_arrays_from_rules(double_device, line):
    compare(run(line, cp), run(line, np))


def test_dtypes_of_what_rules_make(device):
    assert cp.arange(3).dtype == cp.int64
    assert cp.arange(3.0).dtype == cp.linspace(0, 1, 3).dtype == cp.eye(2).dtype == cp.float32
    assert cp.ones_like(cp.ones(2, np.int8)).dtype == np.int8
    assert cp.arange(4, dtype="bfloat16").dtype == BFLOAT16
    nhwc = cp.zeros((2, 3, 4, 5), memory_format="channels_last")
    assert cp.ones_like(nhwc).strides == nhwc.strides
    last = cp.linspace(0.1, 0.7, 11)
    assert last[-1].item() == np.float32(0.7)
    with pytest.raises(ShapeError, match="step=0"):
        cp.arange(1, 2, 0)
    for end in (np.nan, np.inf):
        with pytest.raises(ShapeError, match="no end"):
            cp.arange(end)
    with pytest.raises(ShapeError, match="expected integers"):
        cp.zeros(4).reshape(np.nan)


# --- what changes an array ------------------------------------------------------------------------


def put(a):
    a[a > 3] = 0
    a[:, 1][a[:, 1] < 0] += 10


def put_indices(a):
    a[[0, 2]] += 1
    a[:, [3, 0]] = 9


def put_lines(a, xp=np):
    a[[0, 2], 1:3] = xp.asarray(np.float32([[1, 2], [3, 4]]))
    a[xp.asarray([True, False, True])] *= 2


def put_masked(a, xp=np):
    a @= xp.asarray(np.float32(np.eye(4)[::-1]))
    mask = a > 1
    a[mask] = a[mask] * 2
    a[..., [1, 1]] = xp.asarray(np.float32([5, 6]))


@pytest.mark.parametrize("change", [put, put_indices])
def test_assignment_at_masks_and_indices(double_device, change):
    a, x = A.copy(), cp.asarray(A)
    change(a)
    change(x)
    equal(x, a)


@pytest.mark.parametrize("change", [put_lines, put_masked])
def test_assignment_of_arrays_at_masks_and_indices(double_device, change):
    a, x = A.copy(), cp.asarray(A)
    change(a)
    change(x, cp)
    equal(x, a)


def test_indices_on_every_device(device):
    x = cp.asarray(A)
    equal(x[x > 1], A[A > 1])
    equal(x[[2, 0]], A[[2, 0]])
    x[x > 1] = 1
    equal(x, np.minimum(A, 1))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([3], "index 3 is out of bounds for axis 0 of size 3"),
        (([0], [1], [2]), "3 dimensions is one of too many"),
        (np.zeros((2, 4), bool), r"a mask of shape \(2, 4\) where the array has \(3, 4\)"),
        ([0.5], "not list of float64"),
        (([0, 1], [1, 2, 3]), "do not broadcast|broadcast"),
    ],
)
def test_indices_that_do_not_fit(device, index, message):
    x = cp.asarray(A)
    with pytest.raises(ShapeError, match=message):
        x[index]
    with pytest.raises(ShapeError, match=message):
        x[index] = 1
    with pytest.raises(ShapeError, match="does not broadcast"):
        x[[0, 1]] = cp.zeros(3)
    equal(x, A)


# --- Python's own ---------------------------------------------------------------------------------


def test_numbers_lists_and_text(device):
    x = cp.array([[1.5, 2], [3, 4]])
    assert x.tolist() == [[1.5, 2], [3, 4]]
    assert (x[0, 0].item(), x.item(1), x.item(1, 0)) == (1.5, 2, 3)
    assert (float(x.sum()), int(x.max()), bool(x.min())) == (10.5, 4, True)
    assert f"{x.sum():.2f}" == "10.50"
    assert f"{x.sum()}" == "10.5"
    assert len(x) == 2
    assert [row.tolist() for row in x] == x.tolist()
    assert [10, 20, 30][cp.array(1)] == 20
    assert 3 in x
    with pytest.raises(TypeError, match=r"shape \(2, 2\)"):
        f"{x:.2f}"
    with pytest.raises(ShapeError, match=r"x\.any\(\)"):
        bool(x)


def test_repr_is_numpys_with_device_and_format(device):
    x = cp.array([[1.5, 2], [3, 4]])
    lines = repr(x).split("\n")
    assert lines[0] == "Array([[1.5, 2. ],"
    assert lines[1].startswith("       [3. , 4. ]], dtype=float32, device=") or (
        lines[1:] == ["       [3. , 4. ]],", lines[2]]
    )
    assert f"device='{device.index}: {device.platform}'" in repr(x)
    nhwc = cp.zeros((2, 3, 4, 5), memory_format="channels_last")
    assert "memory_format='channels_last'" in repr(nhwc)
    assert "shape=(0, 3)" in repr(cp.zeros((0, 3)))
    assert str(x) == str(x.get())
    assert "..." in repr(cp.arange(2000))
    assert "<pre" in x._repr_html_()
    assert "float32" in x._repr_html_()


def test_only_the_corners_of_a_large_array_are_downloaded(device, monkeypatch):
    from clprim.arrays import display

    monkeypatch.setattr(display, "host_view", lambda array: None)
    monkeypatch.setattr(display, "_DOWNLOADED", 4000)
    x = cp.arange(4000).reshape(40, 100)
    assert str(x) == str(x.get())


def test_copies_and_pickles(device, tmp_path):
    nhwc = cp.asarray(np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5))
    nhwc = cp.asarray(nhwc, memory_format="channels_last")
    for other in (
        pickle.loads(pickle.dumps(nhwc)),
        copy.deepcopy(nhwc),
        copy.copy(nhwc),
        copy.deepcopy({"weights": [nhwc]})["weights"][0],
    ):
        assert other is not nhwc
        assert other.base_data is not nhwc.base_data
        equal(other, nhwc.get(), nhwc.dtype)
    assert copy.deepcopy(nhwc).strides == pickle.loads(pickle.dumps(nhwc)).strides == nhwc.strides
    half = cp.asarray(np.float32([1, 2]), "bfloat16")
    equal(pickle.loads(pickle.dumps(half)), [1, 2], BFLOAT16)
    np.save(tmp_path / "x.npy", nhwc)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), nhwc.get())
    np.savez(tmp_path / "x.npz", x=nhwc)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["x"], nhwc.get())
    np.testing.assert_allclose(nhwc, nhwc.get())


# --- names ----------------------------------------------------------------------------------------


def test_completion_shows_what_there_is():
    x = cp.Array
    shown = set(dir(cp.zeros(2)))
    assert {"mean", "argsort", "shape", "dtype", "T", "device", "get", "strides"} <= shown
    assert not {n for n in shown if "pudb" in n or n in ("mul_add", "map_to_host", "setitem")}
    assert all(hasattr(x, n) or hasattr(cp.zeros(2), n) for n in shown)
    for module in (cp, ops, ops.fft, ops.optim):
        assert dir(module) == sorted(module.__all__)
        assert all(hasattr(module, n) for n in module.__all__)


def test_importing_the_package_loads_no_operators():
    code = (
        "import sys, clprim; print('clprim.ops' in sys.modules, 'clprim.functions' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_name_is_an_operator_or_the_gradient_of_one():
    names = {*ops.__all__} - {"fft", "linalg", "optim", "KeyValueCache"}
    assert names >= {*OPERATORS}
    assert {n.removesuffix("_backward") for n in names - {*OPERATORS}} <= {*OPERATORS}
    assert all(n.endswith("_backward") for n in names - {*OPERATORS})
    assert len(names) >= 440


def test_no_folder_stands_before_a_function():
    from clprim import functions

    assert frozenset(functions.__all__) == cp._FUNCTIONS
    modules = {n for n in cp.__all__ if isinstance(getattr(cp, n), types.ModuleType)}
    assert modules == {"random"}
    folders = {n for n in ops.__all__ if isinstance(getattr(ops, n), types.ModuleType)}
    assert folders == {"fft", "linalg", "optim"}
    assert callable(cp.array)
    assert callable(cp.repeat)
    assert callable(ops.fold)
    assert callable(ops.sort)
    assert not hasattr(ops, "reduce")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (lambda x: x.numpy(), r"x\.get\(\) downloads"),
        (lambda x: x.cuda(), r'x\.to_device\("gpu"\)'),
        (lambda x: x.unsqueeze(0), r"cp\.expand_dims"),
        (lambda x: x.permute(1, 0), r"x\.transpose"),
        (lambda x: x.relu(), r"ops\.relu\(x\)"),
        (lambda x: x.exp(), r"cp\.exp\(x\)"),
        (lambda x: x.backward(), "gradient"),
        (lambda x: cp.relu(x + 1), r"ops\.relu"),
        (lambda x: cp.concatenat([x]), r"did you mean cp\.concatenate"),
        (np.cov, r"numpy\.cov\(x\.get\(\), …\) computes on the host"),
        (lambda x: np.i0(x) + 1, r"i0\(x\.get\(\), …\)"),
        (lambda x: np.add.outer(x, x), r"numpy\.add\.outer\(x\.get\(\), …\)"),
        (lambda x: np.add(x, np.ones(2)), r"got ndarray: upload it with cp\.asarray"),
        (lambda x: [1, 2] * x, r"got list: upload it with cp\.asarray"),
        (lambda x: ops.relu(np.ones(2)), r"relu: .*got ndarray: upload it with cp\.asarray"),
        (lambda x: ops.exp([1.0]), r"exp: .*got list: upload it with cp\.asarray"),
        (lambda x: ops.amax(np.ones(2)), r"amax: .*got ndarray: upload it with cp\.asarray"),
        (lambda x: cp.sin(1.0), "sin: expected a device array for x"),
        (lambda x: cp.array([x, x]), r"cp\.stack or cp\.concatenate"),
        (lambda x: np.add(x, 1, out=np.ones(2)), r"out=, got ndarray"),
    ],
)
def test_what_is_not_there_says_what_to_write(device, line, instead):
    with pytest.raises(ClprimError, match=instead) as caught:
        line(cp.zeros(2))
    assert not type(caught.value).__name__.startswith("_")


def test_missing_names_are_attribute_errors(device):
    x = cp.zeros(2)
    assert not hasattr(x, "numpy")
    assert getattr(x, "__cuda_array_interface__", None) is None
    with pytest.raises(MissingNameError):
        x.numpy()
    missing = {"numpy", "exp", "relu"}
    assert not missing & {*dir(x), *dir(cp.Array)}
    assert {"shape", "mean", "get"} <= {*dir(x)}
    with pytest.raises(AttributeError, match="maen"):
        x.maen()
    with pytest.raises(ImportError):
        from clprim import relu  # noqa: F401


def test_operators_are_found_without_an_import_of_their_own():
    code = """
import clprim as cp
print(cp.ops.relu.__name__)
try:
    cp.torch
except cp.MissingNameError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "relu\nclprim.torch is there after `import clprim.torch`\n"


# --- devices --------------------------------------------------------------------------------------


def test_arrays_move_between_devices(device):
    other = next((d for d in cp.devices() if d != device and d.compiles), None)
    if other is None:
        pytest.skip("there is one device")
    x = cp.asarray(A)
    y = cp.asarray(x[:, ::2], device=other)
    assert (x.device, y.device) == (device, other)
    assert cp.current_device() == device
    equal(y, A[:, ::2])
    equal(y[:, ::-1], A[:, ::2][:, ::-1])  # gathered on its own device
    with cp.on(other):
        equal(y + 1, A[:, ::2] + 1)
    assert cp.asarray(x, device=device) is x
    assert cp.zeros(3, device=other).device == other
    assert cp.ones_like(y).device == other
    with pytest.raises(DeviceError, match="share no memory"):
        cp.asarray(x, device=other, copy=False)
    with pytest.raises(DeviceError, match="another OpenCL context"):
        x + y[:, :1]


def test_shape_names_of_dtypes():
    assert cp.bool is np.bool_
    assert cp.float32 is np.float32
    with pytest.raises(DTypeError, match="kind='float'"):
        cp.isdtype(cp.float32, "float")


def test_convolutions_take_pytorchs_positional_arguments(device):
    x, w = cp.ones((1, 2, 5, 5)), cp.ones((2, 2, 3, 3))
    named = ops.conv2d(x, w, None, stride=2, padding=1)
    equal(ops.conv2d(x, w, None, 2, 1, 1, 1), named.get())
    back = ops.conv_transpose2d(named, w, None, stride=2, padding=1, output_padding=0)
    equal(ops.conv_transpose2d(named, w, None, 2, 1, 0, 1, 1), back.get())


@pytest.mark.parametrize("name", "less less_equal greater greater_equal equal not_equal".split())
def test_a_number_is_compared_with_an_array(device, name):
    # It was compared the other way round.
    values = np.float32([-1, 0, 1, np.nan])
    x, ours, theirs = cp.asarray(values), getattr(cp, name), getattr(np, name)
    for number in (0, 0.0, np.float32(0), np.int64(0)):
        np.testing.assert_array_equal(ours(number, x).get(), theirs(number, values))
        np.testing.assert_array_equal(theirs(number, x).get(), theirs(number, values))
        np.testing.assert_array_equal(ours(x, number).get(), theirs(values, number))
    assert ((np.float32(0) < x).get() == (np.float32(0) < values)).all()


def test_numbers_of_numpys_before_an_array_keep_their_dtype(double_device):
    # They became Python's, which adapt, as those behind an array do not.
    for dtype in (np.uint8, np.int32, np.float32, np.complex64):
        values = np.array([1, 2, 3], dtype)
        x = cp.asarray(values)
        for number in (np.int16(4), np.float32(4), np.float64(4), np.complex64(4)):
            for call in (lambda n, x: n - x, np.divide, np.power, lambda n, x: x * n):
                found, wanted = call(number, x), call(number, values)
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found.get(), wanted, rtol=1e-6)
    assert cp.maximum(np.float64(1), cp.ones((2,))).dtype == np.float64


def test_extrema_of_nothing_are_the_initial_number(device):
    for name in ("max", "min"):
        for shape, axis in (((0,), None), ((2, 0), 1), ((0, 3), 0), ((0, 3), 1)):
            values = np.zeros(shape, np.float32)
            found = getattr(cp, name)(cp.asarray(values), axis=axis, initial=5.0)
            wanted = getattr(np, name)(values, axis=axis, initial=5.0)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.get(), wanted)
