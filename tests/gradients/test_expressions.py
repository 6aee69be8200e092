"""Derived gradients of some 190 expressions against PyTorch's, in float64."""

import re

import numpy as np
import pytest
from gradient_cases import CASES, FAMILIES, PREAMBLE, SPECIAL, data

import clprim as cp

torch = pytest.importorskip("torch")

BATCH = 12


def _joined(cases, gradients=1):
    """One snippet that computes all cases, each of arrays and a result of its own."""
    parts, first = [], []
    count = 0
    for n, c in enumerate(cases):
        first.append(count)
        names = {"abc"[k]: f"x{count + k}" for k in range(c.arity)} | {"r": f"y{n}"}
        text = c.text if re.search(r"\br = ", c.text) else f"r = {c.text}"
        text = re.sub(r"\b[abcr]\b", lambda m, names=names: names.get(m[0], m[0]), text)
        parts.append("{ " + text.rstrip(";") + ("; }" if not text.rstrip().endswith("}") else " }"))
        count += c.arity
    return "\n".join(parts), first


def _reference(c, arrays):
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    grad = torch.linspace(0.5, 1.5, len(arrays[0]), dtype=torch.float64)
    result = c.reference(*tensors)
    found = torch.autograd.grad(result, tensors, grad, allow_unused=True)
    return [
        np.zeros_like(a) if g is None else g.numpy() for g, a in zip(found, arrays, strict=True)
    ]


def _inputs(c):
    arrays = data(c.domain, c.arity)
    if c.special:
        arrays = [np.concatenate([a, np.roll(SPECIAL, n)]) for n, a in enumerate(arrays)]
        if c.arity > 1:  # one of them alone, too
            arrays = [
                np.concatenate([a, SPECIAL if n == 0 else np.ones(3)]) for n, a in enumerate(arrays)
            ]
    else:
        arrays = [np.concatenate([a, a[-6:]]) for a in arrays]
    return arrays


def _batches():
    for family, cases in FAMILIES.items():
        for special in (True, False):
            chosen = [c for c in cases if c.special == special]
            for start in range(0, len(chosen), BATCH):
                yield pytest.param(
                    chosen[start : start + BATCH], id=f"{family}-{'special-' * special}{start}"
                )


def test_there_are_enough():
    assert len(CASES) >= 150
    assert len({c.name for c in CASES}) >= 150


@pytest.mark.parametrize("cases", list(_batches()))
def test_gradients(double_device, cases):
    text, _ = _joined(cases)
    operator = cp.Pointwise(text, preamble=PREAMBLE)
    inputs = [_inputs(c) for c in cases]
    size = max(len(a) for arrays in inputs for a in arrays)
    padded = [[np.resize(a, size) for a in arrays] for arrays in inputs]
    uploaded = [cp.asarray(a) for arrays in padded for a in arrays]
    grad = np.linspace(0.5, 1.5, size)
    found = operator.gradient()(*uploaded, grad=(cp.asarray(grad),) * len(cases))
    found = list(found) if isinstance(found, tuple) else [found]
    wrong = []
    for c, arrays in zip(cases, padded, strict=True):
        for letter, expected in zip("abc", _reference(c, arrays), strict=False):
            result = found.pop(0).get()
            close = np.isclose(result, expected, rtol=1e-9, atol=1e-11, equal_nan=True)
            if not close.all():
                bad = np.flatnonzero(~close)[:4]
                at = [[float(a[k]) for a in arrays] for k in bad]
                wrong.append(f"{c.name}, in {letter}: at {at} {result[bad]}, not {expected[bad]}")
    assert not wrong, "\n".join(wrong)
