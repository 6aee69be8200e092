"""`Grouped.gradient` against PyTorch: what groups add up, what is saved, axes, refusals."""

import numpy as np
import pytest
import torch
from grouped_cases import CASES, WHOLE, arrays

import clprim as cp


def _references(case, inputs, grads):
    numbers = map(np.float64, case.scalars)
    tensors = [torch.tensor(a, requires_grad=True) for a in (*inputs, *numbers)]
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
