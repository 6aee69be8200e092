"""What operators make of complex numbers: a value, or a refusal in their own names.

Each is called with real arrays that it takes, then with complex ones in their places. What returns
is what it returns of real ones continued (Cauchy's and Riemann's equations hold, and imaginary
parts of 0 change nothing), and what is no such function is listed, with what NumPy has for it.
Gradients are those of directions, by central differences.
"""

import inspect
import re

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.ops.registry import OPERATORS

FUNCTIONS = {n: f for n in ops.__all__ if inspect.isfunction(f := getattr(ops, n))}
# Of those without a sample that takes more than one or two arrays.
SAMPLES = {
    "bincount": "index[0], weights=x[0, 0, 0, :3]",
    "cosine_embedding_loss": "x[0, 0], x[1, 0], empty(4, int64)",
    "ctc_loss": "empty((4, 2, 3)), empty((2, 2), int64), empty(2, int64), empty(2, int64)",
    "fold_batch_norm": "empty((2, 3, 3, 3)), None, *[empty(2)] * 4",
    "gru": "x[0], empty((1, 4, 2)), [empty((6, 4)), empty((6, 2)), empty(6), empty(6)]",
    "inverted_residual": "image(2), empty((4, 3, 1, 1)), empty(4), empty((4, 1, 3, 3)), empty(4), "
    "empty((3, 4, 1, 1)), empty(3)",
    "lstm": "x[0], [empty((1, 4, 2))] * 2, [empty((8, 4)), empty((8, 2)), empty(8), empty(8)]",
    "quantized_conv2d": "image(2).astype('int8'), empty((2, 3, 2, 2), 'int8'), empty(2, float32)",
    "quantized_matmul": "x[0, 0].astype('int8'), x[0, 1].astype('int8'), empty(4, float32)",
    "rnn": "x[0], empty((1, 4, 2)), [empty((2, 4)), empty((2, 2)), empty(2), empty(2)]",
    "mel_filterbank": "5, 0.0, 4000.0, 3, 8000",
    "istft": "x[0].astype('complex128'), 4",
    "decode": "index.astype('uint8'), 'float8_e4m3fn'",
    "depth_to_space": "empty((2, 4, 3, 3)), 2",
    "packed_weight": "{'qweight': empty((32, 1), 'int32'), 'qzeros': empty((1, 1), 'int32'), "
    "'scales': empty((1, 8), float32)}, 'awq'",
    "pixel_shuffle": "empty((2, 4, 3, 3)), 2",
    "dequantize": "index.astype('int8'), 1.0",
    "one_hot": "index, 3",
    "adaptive_max_pool1d_backward": "x[0, :, :, :2], x[0], empty((3, 4, 2), int64)",
    "adaptive_max_pool2d_backward": "x[..., :2, :2], x, empty((2, 3, 2, 2), int64)",
    "adaptive_max_pool3d_backward": "x[..., :2, :2], x, empty((2, 3, 2, 2), int64)",
    "fractional_max_pool2d_backward": "x[..., :2, :2], x, empty((2, 3, 2, 2), int64)",
    "fractional_max_pool3d_backward": "x[..., :2, :2], x, empty((2, 3, 2, 2), int64)",
    "batch_norm_backward": "x, x, empty(3), empty(3), empty(3)",
    "block_diag_backward": "x[0, 0], [(2, 2), (2, 2)]",
    "cat_backward": "x, [1, 1]",
    "split_backward": "[x]",
    "chunk_backward": "[x]",
    "unbind_backward": "[x]",
    "embedding_backward": "empty((2, 3, 4)), index, 5",
    "epilogue_backward": "x, x, 'y0 = y0 * y0;'",
    "gumbel_softmax_backward": "x, x",
    "kernel_sum_backward": "empty((2, 3, 4, 4)), x, x, empty((2, 3, 4, 4)), '1 / (1 + d2)'",
    "scaled_dot_product_attention_backward": "x, x, x, x, x, empty((2, 3, 4))",
}
# Their last argument is what another call saved, of complex numbers none.
SAVED = frozenset(n for n, f in FUNCTIONS.items() if "saved" in inspect.signature(f).parameters)
GUESSES = ("x", "x, x", "x[0, 0]", "x[0], x[0], x[0]")


def array(shape, dtype=np.float64, seed=0):
    """Numbers between 0 and 1, or indices 0 and 1."""
    values = np.random.default_rng([seed, *shape]).random(shape)
    return cp.asarray((values + 0.5 * (np.dtype(dtype).kind in "iu")).astype(dtype))


def space():
    """What samples of operators are written in; see `clprim.ops.registry.Facts`."""
    x = array((2, 3, 4, 4))

    def empty(shape, dtype=np.float64):
        return array(tuple(shape) if isinstance(shape, tuple | list) else (shape,), dtype)

    def cell(height, *, pair=False):
        h = empty((2, 2))
        return x[:, 0, 0], (h, h) if pair else h, empty((height, 4)), empty((height, 2))

    return {
        "x": x,
        "empty": empty,
        "cell": cell,
        "image": lambda ndim: empty((2, 3, 4, 4, 4)[: ndim + 2]),
        "index": empty((2, 3), np.int64),
        "number": np.float64,
        "int64": np.int64,
        "float32": np.float32,
    }


def call(name):
    """The arguments of a call with real arrays, by name, and its result."""
    function = FUNCTIONS[name]
    if name.endswith("_backward") and name not in SAMPLES:
        return backward(name)
    facts = OPERATORS.get(name)
    told = SAMPLES.get(name) or (facts.sample if facts else "")
    # Samples have no elements.
    told = re.sub(r"(?<=\()0,(?! \d+, \d+, \d+, 0)", "2,", re.sub(r"empty\(0,", "empty(2,", told))
    for text in (told,) if told else GUESSES:
        names = space() | {"f": lambda *a, **o: inspect.signature(function).bind(*a, **o)}
        try:
            bound = eval(f"f({text})", names)
            cp.random.seed(0)
            return bound, function(*bound.args, **bound.kwargs)
        except (cp.ClprimError, TypeError) as error:
            last = error
    raise last


def backward(name):
    """Likewise, of the gradient of an operator."""
    function, forward = FUNCTIONS[name], name.removesuffix("_backward")
    signature = inspect.signature(function)
    bound, found = call(forward)
    bound.apply_defaults()
    first, *more = found if isinstance(found, tuple) else (found,)
    known = dict(bound.arguments)
    arrays = [v for v in known.values() if isinstance(v, cp.Array)]
    known |= {"grad": first, "output": first, "result": first, "state": None}
    if arrays:
        known |= dict.fromkeys(("sizes", "input_shape", "input_size"), arrays[0].shape)
        known = {"input": arrays[0], "x": arrays[0]} | known
    if more:
        known["indices"] = more[0]
    given = {n: v for n, v in known.items() if n in signature.parameters and n != "out"}
    bound = signature.bind(**given)
    return bound, function(*bound.args, **bound.kwargs)


def changed(value, change):
    """An argument with its arrays of floats changed."""
    if isinstance(value, list | tuple):
        return type(value)(changed(v, change) for v in value)
    if isinstance(value, dict):
        return {n: changed(v, change) for n, v in value.items()}
    return change(value) if isinstance(value, cp.Array) and value.dtype.kind in "fc" else value


def leaves(value):
    """Arrays and numbers that were returned."""
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves(each)]
    if value is None:
        return []
    return [value.get() if isinstance(value, cp.Array) else np.asarray(value)]


def numbers(x, seed):
    return x.get() + 1j * np.random.default_rng([seed, *x.shape]).uniform(0.1, 1, x.shape)


class Complex:
    """A call's arguments with complex ones in their places, which may be moved."""

    def __init__(self, name, bound):
        self.function, self.bound = FUNCTIONS[name], bound
        self.values, self.steps = [], []
        changed((bound.args, bound.kwargs), self._add)

    def _add(self, x):
        n = len(self.values)
        self.values.append(numbers(x, n))
        self.steps.append(numbers(x, n + 100))

    def __call__(self, step=0, only=None):
        count = iter(range(len(self.values)))

        def moved(x):
            n = next(count)
            at = step if only in (None, n) else 0
            return cp.asarray(self.values[n] + at * self.steps[n])

        args, kwargs = changed((self.bound.args, self.bound.kwargs), moved)
        cp.random.seed(0)
        return self.function(*args, **kwargs)


# Of what is no continuation of a real function.
VALUES = {
    "abs": np.abs,
    "all": np.all,
    "allclose": np.allclose,
    "any": np.any,
    "corrcoef": np.corrcoef,
    "count_nonzero": np.count_nonzero,
    "cov": np.cov,
    "isclose": np.isclose,
    "nonzero": np.argwhere,
    "sign": np.sign,
    "std": lambda x: np.std(x, ddof=1),
    "std_mean": lambda x: (np.std(x, ddof=1), np.mean(x)),
    "var": lambda x: np.var(x, ddof=1),
    "var_mean": lambda x, axis: (np.var(x, ddof=1, axis=axis), np.mean(x, axis=axis)),
}
# Their values are not those of real numbers, on which they have none, or are real themselves.
ELSEWHERE = frozenset(["acosh", "istft"])
# Gradients that do more than to move and to scale.
GRADIENTS = frozenset(
    "cross cumprod deg2rad kron linear nan_to_num trapezoid cumulative_trapezoid".split()
)


def continued(name, z, real):
    """Holds a function to Cauchy's and Riemann's equations, and to its values of real numbers."""
    step = 1e-6
    slopes = [
        [(a - b) / (2 * step) for a, b in zip(leaves(z(at)), leaves(z(-at)), strict=True)]
        for at in (step, 1j * step)
    ]
    for along, across in zip(*slopes, strict=True):
        np.testing.assert_allclose(across, 1j * along, rtol=1e-6, atol=1e-7)
    z.values = [v.real + 0j for v in z.values]
    for found, wanted in zip(leaves(z()), leaves(real), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.alone
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in SAVED])
def test_complex_arguments(name, double_device):
    bound, real = call(name)
    z = Complex(name, bound)
    if not z.values:
        return
    try:
        found = z()
    except cp.ClprimError as error:
        assert re.match(rf"(gradient of )?{name}\b.*\Z", str(error))  # one line quotes nothing
        assert re.search(r"complex|real", str(error))
        return
    if name in VALUES:
        args, kwargs = changed((bound.args, bound.kwargs), lambda _: z.values.pop(0))
        for f, wanted in zip(leaves(found), leaves(VALUES[name](*args, **kwargs)), strict=True):
            np.testing.assert_allclose(f, wanted, rtol=1e-12)
    elif name.removesuffix("_backward") in GRADIENTS and name.endswith("_backward"):
        directional(name.removesuffix("_backward"))
    elif name not in ELSEWHERE and name != "epilogue_backward":
        continued(name, z, real)


def directional(name):
    """Holds a gradient to central differences in a direction."""
    bound, _ = call(name)
    bound.apply_defaults()
    z = Complex(name, bound)
    (before,), (after,) = leaves(z(-1e-6)), leaves(z(1e-6))
    grad = numbers(cp.asarray(before), 7)
    arrays = map(cp.asarray, z.values)
    args, kwargs = changed((bound.args, bound.kwargs), lambda _: next(arrays))
    known = inspect.signature(FUNCTIONS[name]).bind(*args, **kwargs).arguments
    known |= {"grad": cp.asarray(grad), "result": z(), "input": known.get("x")}
    known.pop("out", None)
    function = FUNCTIONS[f"{name}_backward"]
    given = {n: known[n] for n in inspect.signature(function).parameters if n in known}
    found = leaves(function(**given))
    wanted = (grad.conj() * (after - before) / 2e-6).real.sum()
    along = sum((f.conj() * d).real.sum() for f, d in zip(found, z.steps, strict=False))
    assert abs(wanted - along) < 1e-6 * abs(wanted)


# Of those whose gradients have rules or strings of their own, some of each kind.
TRACED = """
    adaptive_avg_pool2d affine_grid avg_pool2d corrcoef cov cross cumprod cumsum einsum embedding
    fftconvolve fold gather index_add kron lerp linear nan_to_num pad prod roll take
    trapezoid unfold
""".split()


@pytest.mark.alone
@pytest.mark.parametrize("name", TRACED)
def test_gradients_inside_of_functions(name, double_device):
    bound, _ = call(name)
    z = Complex(name, bound)
    grad = cp.asarray(numbers(z(), 7))

    def loss(*arrays):
        given = iter(arrays)
        args, kwargs = changed((bound.args, bound.kwargs), lambda _: next(given))
        return (FUNCTIONS[name](*args, **kwargs) * grad.conj()).real.sum()

    def moved(step):
        pairs = zip(z.values, z.steps, strict=True)
        return float(loss(*(cp.asarray(v + step * s) for v, s in pairs)))

    wrt = tuple(range(len(z.values)))
    _, found = cp.value_and_grad(loss, wrt=wrt)(*map(cp.asarray, z.values))
    wanted = (moved(1e-6) - moved(-1e-6)) / 2e-6
    along = sum((f.conj() * s).real.sum() for f, s in zip(leaves(found), z.steps, strict=True))
    assert abs(wanted - along) < 1e-6 * max(1, abs(wanted))


@pytest.mark.refusal
def test_what_points_at_a_string_is_the_users(device):
    z, real = cp.asarray(np.complex64([1 + 2j, 3])), cp.zeros((2,))
    for call, string in (
        (lambda: cp.Pointwise("y0 = fmax(x0, 1);")(z), "y0 = fmax(x0, 1);"),
        (lambda: ops.fft.fft(z, load="y0 = fmin(x0, 1);"), "y0 = fmin(x0, 1);"),
    ):
        with pytest.raises(cp.DTypeError, match=rf"(?s)no complex.*\n    {re.escape(string)}\n"):
            call()
    for call in (ops.relu, cp.jit(ops.relu)):
        with pytest.raises(cp.DTypeError, match=r"^relu: expected real numbers for x, got complex"):
            call(z)
    with pytest.raises(cp.DTypeError, match=r"^clip: expected real numbers for max, got complex64"):
        cp.clip(real, 0, z)
