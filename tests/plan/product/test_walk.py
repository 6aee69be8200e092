"""Numbers of three digits: put in another order or merged, they reach the same places."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from clprim.plan.product.walk import Walk

steps = st.tuples(*[st.integers(-6, 12)] * 3)
walks = st.builds(
    lambda sizes, x, y: Walk(sizes, {"x": x, "y0": y}),
    st.tuples(*[st.integers(1, 4)] * 3),
    steps,
    steps,
)


def places(walk):
    """Where every number lies, in order."""
    return [
        tuple(
            sum(d * s for d, s in zip(digits, walk.steps[name], strict=True)) for name in walk.steps
        )
        for digits in itertools.product(*(range(size) for size in walk.sizes))
    ]


@given(walks)
def test_merged_walks_in_the_same_order(walk):
    merged = walk.merged()
    assert places(merged) == places(walk)
    assert merged.size == walk.size
    assert all(size > 1 for size in merged.sizes[3 - merged.digits :]) or merged.size == 1
    assert set(merged.sizes[: 3 - merged.digits]) <= {1}


@given(walks)
def test_any_order_reaches_the_same_pairs_of_places(walk):
    assert sorted(places(walk.ordered("x", "y0"))) == sorted(places(walk))


@given(walks)
def test_reach(walk):
    found = [x for x, _ in places(walk)]
    assert walk.reach("x") == (min(found), max(found))


def test_dense_images_merge_to_one_digit():
    assert Walk((8, 5, 7), {"x": (35, 7, 1), "y0": (70, 14, 2)}).merged().digits == 1
    # A row that is not followed by the next one.
    assert Walk((8, 5, 7), {"x": (40, 8, 1), "y0": (35, 7, 1)}).merged().digits == 2
    assert Walk((8, 5, 7), {"x": (40, 8, 1), "y0": (35, 7, 1)}).only("y0").digits == 1


def test_neighbours_come_last():
    # (y, x, channel) of a weight: its own order is (channel, y, x).
    taps = Walk((3, 3, 16), {"w": (3, 1, 9), "x": (100, 1, 1000)})
    assert taps.ordered("w", "x").sizes == (16, 3, 3)
    # By the second place, where the first one knows no neighbours.
    assert Walk((4, 5, 6), {"x": (2, 30, 8), "y0": (1, 4, 20)}).ordered("x", "y0").sizes == (
        5,
        6,
        4,
    )
    # A single step of 1 is no neighbour.
    assert Walk((1, 5, 6), {"x": (1, 7, 40), "y0": (9, 9, 9)}).ordered("x").sizes == (6, 5, 1)


def test_whole_vectors():
    assert Walk((2, 3, 8), {"x": (24, 8, 1)}).whole("x", 4)
    assert not Walk((2, 3, 6), {"x": (24, 8, 1)}).whole("x", 4)  # a vector over the end
    assert not Walk((2, 3, 8), {"x": (24, 9, 1)}).whole("x", 4)  # rows that begin anywhere
    assert not Walk((2, 3, 8), {"x": (24, 8, 2)}).whole("x", 4)
