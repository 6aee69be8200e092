"""Operators of ranks: one body, whose names have signatures and docstrings of their own."""

import inspect
import pickle
import re

import pytest

from clprim import ops
from clprim.ops.shared.ranks import Store, of_rank, rank_of

FUNCTIONS = {n: f for n in ops.__all__ if inspect.isfunction(f := getattr(ops, n))}


def _scaled_pool(what, x: int, factor: float = 2.0, **store: "Unpack[Store]"):  # noqa: F821
    """Returns what `scaled_pool2d` is made of.

    Args:
        x: A number.
    """
    return what, rank_of(what), x, factor, store["out"]


def test_a_name_binds_itself_and_its_rank():
    two, three = (of_rank(_scaled_pool, f"scaled_pool{n}d") for n in (2, 3))
    assert two(5, out=7) == ("scaled_pool2d", 2, 5, 2.0, 7)
    assert three(5, 1.5) == ("scaled_pool3d", 3, 5, 1.5, None)
    assert list(inspect.signature(three).parameters) == [
        "x", "factor", "epilogue", "epilogue_args", "out",
    ]  # fmt: skip
    assert inspect.signature(three).parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert two.__doc__ == _scaled_pool.__doc__
    assert three.__doc__ == (
        "Returns what `scaled_pool3d` is made of, of (N, C, D, H, W) or (C, D, H, W); "
        "see `scaled_pool2d`."
    )
    with pytest.raises(TypeError, match=r"scaled_pool3d\(\) missing 1 required .* 'x'"):
        three()


def test_operators_of_ranks_stand_where_their_bodies_do():
    of_ranks = [n for n in ops.__all__ if re.search(r"\dd", n) and n in FUNCTIONS]
    assert len(of_ranks) > 40
    for name in of_ranks:
        assert pickle.loads(pickle.dumps(FUNCTIONS[name])) is FUNCTIONS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_list_of_arguments_names_all_of_them_and_errors_are_said(name):
    doc = inspect.getdoc(FUNCTIONS[name])
    assert "\n\nRaises:\n    " in doc
    if "\nArgs:\n" in doc:
        told = re.findall(r"^    \**(\w+)(?: \(.*\))?:", doc.partition("\nArgs:\n")[2], re.M)
        assert set(inspect.signature(FUNCTIONS[name]).parameters) <= set(told)
