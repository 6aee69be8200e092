"""``dim=`` and ``axis=`` are one argument of every operator that takes them."""

import inspect

import pytest

import clprim as cp
from clprim import ops

NAMES = ("dim", "dims")
TAKE_BOTH = sorted(
    name
    for name in ops.__all__
    if callable(getattr(ops, name))
    and "axis" in (names := {*inspect.signature(getattr(ops, name)).parameters})
    and names & {*NAMES}
)
OTHERS = {
    "chunks": 2,
    "k": 1,
    "q": 0.5,
    "repeats": 2,
    "shifts": 1,
    "sizes": (3, 4),
    "split_size_or_sections": 1,
}


@pytest.mark.parametrize("name", TAKE_BOTH)
def test_both_names_of_a_dimension_are_refused(name, double_device):
    x = cp.zeros((3, 4))
    given = {"arrays": [x, x], "grads": [x], **OTHERS}
    for label in ("index", "indices"):
        given[label] = cp.zeros((3, 4), "int64")
    if name == "index_select":
        given["index"] = cp.zeros((3,), "int64")
    values = {}
    for label, parameter in inspect.signature(getattr(ops, name)).parameters.items():
        if label in NAMES:
            if not values.keys() & {*NAMES}:  # one of them, beside axis=
                values[label] = 0
        elif parameter.default is parameter.empty or label in ("index", "src"):
            values[label] = given.get(label, x)
    with pytest.raises(cp.ShapeError, match=r"dims?=0 and axis=1 are one argument"):
        getattr(ops, name)(**values, axis=1)
