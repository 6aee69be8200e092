"""Random complex strings and their gradients, against NumPy in complex128 and central differences.

``python tests/gradients/test_random_complex_strings.py 250`` tries a thousand of them.
"""

import random
import sys

import numpy as np
import pytest

import clprim as cp

TOGETHER, DEEP, COUNT = 2, 3, 64
# Of numbers: what is printed, and what NumPy computes. Small or far from 0, so that all is finite.
PLAIN = {
    "({} + {})": np.add,
    "({} - {})": np.subtract,
    "({} * {})": np.multiply,
    "({} / (4 + 0.3 * sin({})))": lambda a, b: a / (4 + 0.3 * np.sin(b)),
    "conj({})": np.conj,
    "(-{})": np.negative,
    "exp(0.3 * {})": lambda a: np.exp(0.3 * a),
    "log({} + 5)": lambda a: np.log(a + 5),
    "sqrt({} + 4i)": lambda a: np.sqrt(a + 4j),
    "sin(0.4 * {})": lambda a: np.sin(0.4 * a),
    "cos(0.4 * {})": lambda a: np.cos(0.4 * a),
    "tanh(0.3 * {})": lambda a: np.tanh(0.3 * a),
    "sinh(0.3 * {})": lambda a: np.sinh(0.3 * a),
    "tan(0.2 * {})": lambda a: np.tan(0.2 * a),
    "pow({}, 2)": lambda a: a**2,
    "pow(3 + 0.2 * sin({}), {} * 0.2)": lambda a, b: (3 + 0.2 * np.sin(a)) ** (b * 0.2),
    "reciprocal(5 + 0.3 * cos({}))": lambda a: 1 / (5 + 0.3 * np.cos(a)),
    "complex(real({}), abs({}))": lambda a, b: a.real + 1j * np.abs(b),
    "complex(imag({}), arg({} + 6))": lambda a, b: a.imag + 1j * np.angle(b + 6),
    "(real({0}) > 0.1 ? {0} : {1})": lambda a, b: np.where(a.real > 0.1, a, b),
    "(abs({}) * {})": lambda a, b: np.abs(a) * b,
}
LEAVES = ["x0", "x1", "x2", "w0", "1i", "0.5", "(2 - 0.5i)"]


def drawn(choose, deep):
    """A string, and what computes it of x0, x1, x2 and w0."""
    if not deep or choose.random() < 0.15:
        text = choose.choice(LEAVES[:4] if choose.random() < 0.8 else LEAVES)
        value = {"1i": 1j, "0.5": 0.5, "(2 - 0.5i)": 2 - 0.5j}.get(text)
        if value is not None:
            return text, lambda _: np.complex128(value)
        return text, lambda given: given[text]
    form, function = choose.choice(sorted(PLAIN.items()))
    count = form.count("{}") or 2
    parts = [drawn(choose, deep - 1) for _ in range(count)]
    texts = [text for text, _ in parts]
    return form.format(*texts), lambda given: function(
        *(np.asarray(f(given), np.complex128) for _, f in parts)
    )


def check(seed, wide):
    """Some strings of one kernel: their values, and the gradient of all."""
    choose, draw = random.Random(seed), np.random.default_rng(seed)
    strings = [drawn(choose, DEEP) for _ in range(TOGETHER)]
    text = " ".join(f"y{n} = complex(0, 0) + {s};" for n, (s, _) in enumerate(strings))
    text += " (void)x0; (void)x1; (void)x2; (void)w0;"
    given = {
        "x0": draw.standard_normal(COUNT) + 1j * draw.standard_normal(COUNT),
        "x1": draw.standard_normal(COUNT) + 1j * draw.standard_normal(COUNT),
        "x2": draw.standard_normal(COUNT),
        "w0": 0.75 - 0.5j,
    }
    dtype = np.complex128 if wide else np.complex64
    given = {
        k: np.asarray(v, dtype if np.iscomplexobj(v) else dtype(0).real.dtype)
        for k, v in given.items()
    }
    exact = {k: v.astype(np.complex128) for k, v in given.items()}
    op = cp.Pointwise(text)
    arrays = [cp.asarray(given[k]) for k in ("x0", "x1", "x2")]
    number = complex(given["w0"])
    close = 1e-11 if wide else 2e-4
    for y, (string, f) in zip(op(*arrays, number), strings, strict=True):
        expected = np.broadcast_to(f(exact), COUNT)
        assert np.allclose(y.get(), expected, rtol=close, atol=close * abs(expected).max()), string
    weights = [draw.standard_normal(COUNT) + 1j * draw.standard_normal(COUNT) for _ in strings]

    def loss(given):
        values = (f(given) for _, f in strings)
        return sum((w.conj() * y).real for w, y in zip(weights, values, strict=True))

    grads = tuple(cp.asarray(w.astype(dtype)) for w in weights)
    found = op.gradient(("x0", "x1", "x2"))(*arrays, number, grad=grads)
    for name, g in zip(("x0", "x1", "x2"), found, strict=True):
        for part, unit in ((g.get().real, 1), (g.get().imag, 1j))[: 1 if name == "x2" else 2]:
            slopes = [
                (
                    loss(exact | {name: exact[name] + h * unit})
                    - loss(exact | {name: exact[name] - h * unit})
                )
                / (2 * h)
                for h in (1e-5, 5e-6)
            ]
            size = 1 + abs(slopes[0])
            smooth = abs(slopes[0] - slopes[1]) < 1e-7 * size  # no step nearby
            assert smooth.mean() > 0.8, text
            error = abs(part - slopes[1]) / size
            assert (error[smooth] < (1e-6 if wide else 2e-3)).all(), (name, unit, text)


@pytest.mark.parametrize("seed", range(10))
def test_values_and_gradients(device, seed):
    check(seed, device.traits.fp64)


if __name__ == "__main__":
    first, count = (int(a) for a in (["0", *sys.argv[1:]])[-2:])
    for seed in range(first, first + count):
        check(seed, cp.current_device().traits.fp64)
    print(f"{count * TOGETHER} strings are right")
