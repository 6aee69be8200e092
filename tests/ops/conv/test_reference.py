"""The reference that convolutions are compared with, and the cases they are tried on."""

import itertools

import conv_reference as reference
import numpy as np
import pytest
from conv_cases import FACTORS, PAIRS, SHAPED, THREES, make_case
from support import numbers


def test_the_reference_is_pytorchs():
    torch = pytest.importorskip("torch")
    for row in PAIRS[::2] + THREES[::4]:
        case = make_case(**row)
        x, w, bias = case.operands(np.float64)
        grad = numbers(case.y_shape, np.float64, seed=9)
        options = dict(case.options)
        top, bottom, left, right = reference.four(options.pop("padding"))
        a, b = (torch.from_numpy(h).requires_grad_() for h in (x, w))
        padded = torch.nn.functional.pad(a, (left, right, top, bottom))
        y = torch.nn.functional.conv2d(padded, b, torch.from_numpy(bias), **options)
        y.backward(torch.from_numpy(grad))
        pairs = [
            (y.detach(), reference.conv2d(x, w, bias, **case.options)),
            (a.grad, reference.conv2d_input(x.shape, w, grad, **case.options)),
            (b.grad, reference.conv2d_weight(x, w.shape, grad, **case.options)),
        ]
        for theirs, ours in pairs:
            np.testing.assert_array_equal(ours, theirs.numpy(), err_msg=str(case))


def test_the_transposed_reference_is_pytorchs():
    torch = pytest.importorskip("torch")
    x, w = numbers((2, 4, 5, 6), np.float64), numbers((4, 3, 2, 5), np.float64, seed=1)
    for stride, padding, extra, dilation, groups in itertools.product(
        (1, 2, (3, 2)), (0, (1, 2)), (0, (1, 0), 1), (1, (3, 2)), (1, 2)
    ):
        options = {"padding": padding, "output_padding": extra, "groups": groups}
        options |= {"stride": stride, "dilation": dilation}
        smallest = map(max, reference.both(stride), reference.both(dilation))
        if any(e >= s for e, s in zip(reference.both(extra), smallest, strict=True)):
            continue
        theirs = torch.nn.functional.conv_transpose2d(
            torch.from_numpy(x), torch.from_numpy(w), **options
        )
        found = reference.conv_transpose2d(x, w, **options)
        np.testing.assert_array_equal(found, theirs.numpy(), err_msg=str(options))


@pytest.mark.parametrize(
    ("rows", "factors", "strength"), [(PAIRS, FACTORS, 2), (THREES, FACTORS | SHAPED, 3)]
)
def test_the_cases_cover_every_combination(rows, factors, strength):
    for names in itertools.combinations(factors, strength):
        met = {tuple(row[name] for name in names) for row in rows}
        assert met == set(itertools.product(*(factors[name] for name in names)))
    for row in rows:
        assert min(make_case(**row).y_shape) > 0
