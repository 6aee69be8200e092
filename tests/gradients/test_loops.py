"""Gradients of loops: of as many turns as the string says, or at most as it lets a count be."""

import numpy as np
import pytest

import clprim as cp

torch = pytest.importorskip("torch")

# How many turns an operand n asks for, as strings bound it, and as Python does.
COUNTS = {
    "min((int)n, 5)": lambda n: min(int(n), 5),
    "(int)fmin(n, 4.5)": lambda n: int(min(n, 4.5)),
    "(n < 6 ? (int)n : 6)": lambda n: min(int(n), 6),
    "(n > 6 ? 6 : (int)n)": lambda n: min(int(n), 6),
    "clamp((int)n, 1, 3)": lambda n: min(max(int(n), 1), 3),
    "((int)n & 3)": lambda n: int(n) & 3,
    "(int)n % 4": lambda n: int(np.fmod(int(n), 4)),
    "max(min((int)n, 3) + 1, 2)": lambda n: max(min(int(n), 3) + 1, 2),
    "(uchar)n / 64": lambda n: int(n) // 64,
}
# What is done so often.
TURN = "{ t = t * a + sin(t) / (i + 1); if (t > 3) t = 3 / t; }"
LOOPS = (
    "for (int i = 0; i < COUNT; ++i) TURN",
    "int i = 0; while (i < COUNT) { TURN ++i; }",
)


def _turns(a, counts):
    t, size = a, int(counts.max())
    for i in range(size):
        new = t * a + torch.sin(t) / (i + 1)
        new = torch.where(new > 3, 3 / new, new)
        t = torch.where(torch.tensor(counts > i), new, t)
    return t


def test_counts_that_are_bounded(double_device, unoptimised):
    pieces, rng = [], np.random.default_rng(0)
    texts = [loop.replace("COUNT", c) for c in COUNTS for loop in LOOPS]
    for n, text in enumerate(texts):
        body = text.replace("TURN", TURN)
        pieces.append(f"{{ typeof_y{n} a = x{n + 1}, n = x0, t = a; {body} y{n} = t; }}")
    # Every loop has an operand of its own: one kernel computes all gradients.
    operator = cp.Pointwise("\n".join(pieces))
    a, n = rng.normal(0, 1, 40), rng.uniform(0, 12, 40)
    n[:6] = [0, 1, 4.5, 5, 6, 255]
    args = [cp.asarray(n), *[cp.asarray(a)] * len(texts)]
    results = operator(*args)
    wrt = tuple(f"x{n + 1}" for n in range(len(texts)))
    grads = operator.gradient(wrt)(*args, grad=(1.0,) * len(texts))
    x = torch.tensor(a, requires_grad=True)
    for place, text in enumerate(texts):
        count = list(COUNTS.values())[place // len(LOOPS)]
        right = _turns(x, np.array([count(v) for v in n]))
        (expected,) = torch.autograd.grad(right.sum(), x)
        np.testing.assert_allclose(results[place].get(), right.detach().numpy(), rtol=1e-12)
        found = grads[place].get()
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-10, atol=1e-12, err_msg=text)


@pytest.mark.parametrize(
    "count", ["x1", "max((int)x1, 5)", "(int)x1", "(x1 > 6 ? (int)x1 : 6)", "min((int)x1, 200)"]
)
def test_counts_that_are_not_are_refused_with_their_line(count):
    text = f"typeof_y0 t = x0;\nfor (int i = 0; i < {count}; ++i)\n    t *= x0;\ny0 = t;"
    with pytest.raises(
        cp.DefinitionError, match=r"line 2: .*surely ends after 128 turns"
    ) as caught:
        cp.Pointwise(text).gradient("x0")
    assert "\n    for (int i" in str(caught.value) and "^^^" in str(caught.value)
