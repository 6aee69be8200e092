"""A recurrent layer's variants against their equations in NumPy's float64, and PyTorch's."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops

torch = pytest.importorskip("torch")

T, N, F, H = 5, 3, 4, 6
GATES = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}
ACTIVATIONS = {
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "hardsigmoid": lambda v, a=0.2, b=0.5: np.clip(a * v + b, 0, 1),
    "relu": lambda v: np.maximum(v, 0),
    "softsign": lambda v: v / (1 + np.abs(v)),
    "leakyrelu": lambda v, a=0.01: np.where(v < 0, a * v, v),
}


def parameters(cell, seed=0):
    rng = np.random.default_rng(seed)
    rows = len(GATES[cell]) * H
    shapes = {"x": (T, N, F), "weight_ih": (rows, F), "weight_hh": (rows, H), "bias_ih": (rows,),
              "bias_hh": (rows,), "h_0": (N, H), "c_0": (N, H), "peepholes": (3 * H,)}  # fmt: skip
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def wanted(p, cell, activations, order, *, clip=None, lengths=None, coupled=False, after=True,
           reverse=False):  # fmt: skip
    def of(n):
        name, *more = (activations[n],) if isinstance(activations[n], str) else activations[n]
        bound = np.inf if clip is None else clip
        return lambda v: ACTIVATIONS[name](np.clip(v, -bound, bound), *more)

    f = [of(n) for n in range(len(activations))]
    at = {c: slice(n * H, (n + 1) * H) for n, c in enumerate(order)}
    peep = np.split(p["peepholes"], 3) if "peepholes" in p else [0, 0, 0]
    h, c, y = p["h_0"], p["c_0"], np.zeros((T, N, H))
    for t in range(T)[:: -1 if reverse else 1]:
        u = p["x"][t] @ p["weight_ih"].T + p["bias_ih"]
        v = h @ p["weight_hh"].T + p["bias_hh"]
        memory = c
        if cell == "rnn":
            new = f[0](u + v)
        elif cell == "gru":
            r, z = f[0]((u + v)[:, at["r"]]), f[0]((u + v)[:, at["z"]])
            inner = r * v[:, at["n"]]
            if not after:
                inner = (r * h) @ p["weight_hh"][at["n"]].T + p["bias_hh"][at["n"]]
            new = (1 - z) * f[1](u[:, at["n"]] + inner) + z * h
        else:
            s = {k: (u + v)[:, a] for k, a in at.items()}
            i = f[0](s["i"] + peep[0] * c)
            forget = 1 - i if coupled else f[0](s["f"] + peep[2] * c)
            memory = forget * c + i * f[1](s["g"])
            new = f[0](s["o"] + peep[1] * memory) * f[2](memory)
        on = np.ones((N, 1), bool) if lengths is None else (t < lengths)[:, None]
        y[t] = np.where(on, new, 0)
        h, c = np.where(on, new, h), np.where(on, memory, c)
    return y, h, c


USUAL = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}
VARIANTS = [
    ("lstm", {}),
    ("lstm", {"reverse": True, "lengths": np.array([5, 2, 0])}),
    ("lstm", {"coupled": True, "clip": 0.7}),
    ("lstm", {"activations": ["hardsigmoid", "softsign", ("leakyrelu", 0.3)], "order": "iofg"}),
    ("gru", {"lengths": np.array([1, 5, 3])}),
    ("gru", {"after": False}),
    ("gru", {"after": False, "order": "zrn", "reverse": True,
             "activations": [("hardsigmoid", 0.3, 0.4), "relu"]}),
    ("rnn", {"clip": 0.5, "activations": ["relu"]}),
]  # fmt: skip


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize(("cell", "how"), VARIANTS, ids=str)
def test_variants(device, cell, how, peepholes):
    if peepholes and cell != "lstm":
        pytest.skip("has no memory")
    p = parameters(cell)
    if not peepholes:
        del p["peepholes"]
    how = {"activations": USUAL[cell], "order": GATES[cell], **how}
    expected = wanted(p, cell, **how)
    arrays = {name: cp.asarray(a.astype(np.float32)) for name, a in p.items()}
    lengths = how.get("lengths")
    out = cp.zeros((T, 2, N, H))
    found = ops.recurrent_layer(
        **arrays, cell=cell, gates=how["order"], activations=how["activations"],
        clip=how.get("clip"), coupled=how.get("coupled", False), out=out[:, 1],
        lengths=None if lengths is None else cp.asarray(lengths),
        reset_after=how.get("after", True), reverse=how.get("reverse", False),
    )  # fmt: skip
    np.testing.assert_array_equal(found[0].get(), out.get()[:, 1])
    assert not out.get()[:, 0].any()
    for a, b in zip(found[: 3 if cell == "lstm" else 2], expected, strict=False):
        np.testing.assert_allclose(a.get(), b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", GATES)
def test_by_default_it_is_pytorchs_layer(device, cell):
    torch.manual_seed(0)
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[cell](F, H).double()
    x = np.random.default_rng(0).normal(size=(T, N, F))
    expected = module(torch.tensor(x))[0].detach()
    given = [cp.asarray(a.detach().numpy().astype(np.float32)) for a in module.parameters()]
    found = ops.recurrent_layer(cp.asarray(x.astype(np.float32)), *given, cell=cell)
    np.testing.assert_allclose(found[0].get(), expected, rtol=1e-4, atol=1e-5)


ROWS = {
    "relu": ops.relu, "sigmoid": ops.sigmoid, "tanh": ops.tanh, "softplus": ops.softplus,
    "softsign": ops.softsign, "elu": ops.elu, "leakyrelu": ops.leaky_relu,
    "thresholdedrelu": lambda x: ops.threshold(x, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_activations_are_the_operators(device, name):
    x = cp.asarray(np.float32([np.nan, -90, -1e-6, 0, 1e-6, 19, 90]).reshape(1, 7, 1))
    one, zero = cp.ones((1, 1)), cp.zeros((1, 1))
    found = ops.recurrent_layer(x, one, zero, cell="rnn", activations=[name])[0]
    np.testing.assert_array_equal(found.get(), ROWS[name](x).get())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cell": "mgu"}, "DefinitionError", "cell='mgu'"),
        ({"gates": "ifg"}, "DefinitionError", "letters of 'ifgo'"),
        ({"activations": ["tanh"]}, "DefinitionError", "expected 3"),
        ({"activations": ["tanh", "tanh", "twice"]}, "DefinitionError", "'twice' is unknown"),
        ({"activations": ["tanh", "tanh", 2]}, "DefinitionError", "activation 2 is unknown"),
        ({"activations": 3}, "DefinitionError", "activations=3: expected 3"),
        ({"bias_ih": "x"}, "DTypeError", "bias_ih"),
        ({"lengths": "x"}, "ShapeError", "lengths"),
        ({"cell": "gru"}, "ShapeError", r"weight_ih has shape \(24, 4\), expected \(18, 4\)"),
    ],
)
def test_errors(device, options, error, message):
    x, w, u = cp.zeros((T, N, F)), cp.zeros((4 * H, F)), cp.zeros((4 * H, H))
    given = {n: (x if n == "lengths" else "x") if v == "x" else v for n, v in options.items()}
    with pytest.raises(getattr(cp, error), match=message):
        ops.recurrent_layer(x, w, u, **given)
