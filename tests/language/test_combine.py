"""Which steps tell how partials merge, and how; every other step is asked for its combine."""

import pytest

from clprim.errors import DefinitionError
from clprim.language.definition import define_reduction


def define(step, expr="y0 = x0; y1 = x1;", init=None, **options):
    partials = [n for n in range(3) if f"reduce_y{n}" in step]
    init = init or " ".join(f"reduce_y{n} = 0;" for n in partials)
    options = {"combine": None, "finalize": None, "name": None, "preamble": ""} | options
    return define_reduction(expr, init=init, step=step, **options)


SOUND = [
    ("reduce_y0 += y0;", "reduce_y0 += other_y0;"),
    ("reduce_y0 += y0", "reduce_y0 += other_y0;"),
    ("{ reduce_y0 += y0; }", "reduce_y0 += other_y0;"),
    ("reduce_y0 += y0 * y0;", "reduce_y0 += other_y0;"),  # partials are not squared again
    ("reduce_y0 += fabs(y0 - w0);", "reduce_y0 += other_y0;"),
    ("reduce_y0 -= y0;", "reduce_y0 += other_y0;"),  # partials of a neutral start add up
    ("reduce_y0 *= y0;", "reduce_y0 *= other_y0;"),
    ("reduce_y0 &= y0;", "reduce_y0 &= other_y0;"),
    ("reduce_y0 |= y0;", "reduce_y0 |= other_y0;"),
    ("reduce_y0 ^= y0;", "reduce_y0 ^= other_y0;"),
    ("reduce_y0 = reduce_y0 + y0;", "reduce_y0 = reduce_y0 + other_y0;"),
    ("reduce_y0 = y0 + reduce_y0;", "reduce_y0 = reduce_y0 + other_y0;"),
    ("reduce_y0 = reduce_y0 * (y0 + 1);", "reduce_y0 = reduce_y0 * other_y0;"),
    ("reduce_y0 = reduce_y0 && y0 > 0;", "reduce_y0 = reduce_y0 && other_y0;"),
    ("reduce_y0 = y0 || reduce_y0;", "reduce_y0 = reduce_y0 || other_y0;"),
    ("reduce_y0 = reduce_y0 | y0;", "reduce_y0 = reduce_y0 | other_y0;"),
    ("reduce_y0 = max(reduce_y0, y0);", "reduce_y0 = max(reduce_y0, other_y0);"),
    ("reduce_y0 = min(fabs(y0), reduce_y0);", "reduce_y0 = min(reduce_y0, other_y0);"),
    ("reduce_y0 = fmax(reduce_y0, y0);", "reduce_y0 = fmax(reduce_y0, other_y0);"),
    (
        "reduce_y0 += y0; reduce_y1 = fmin(reduce_y1, y1);",
        "reduce_y0 += other_y0;\nreduce_y1 = fmin(reduce_y1, other_y1);",
    ),
    # locals of the element, and conditions on it
    ("float t = y0; reduce_y0 += t;", "reduce_y0 += other_y0;"),
    ("float t = y0; if (t > 1) t = 1; reduce_y0 *= t;", "reduce_y0 *= other_y0;"),
    ("y0 *= 2; reduce_y0 += y0;", "reduce_y0 += other_y0;"),
    ("if (y0 > 0) reduce_y0 += y0;", "reduce_y0 += other_y0;"),
    ("if (y0 > 0) reduce_y0 += y0; else reduce_y0 -= y0;", "reduce_y0 += other_y0;"),
    (
        "if (y0 > 0) { reduce_y0 += y0; } else if (y0 < 0) reduce_y1 *= y0;",
        "reduce_y0 += other_y0;\nreduce_y1 *= other_y1;",
    ),
    (
        "float t = fabs(y0); if (t == t) if (t > reduce_y0) reduce_y0 = t;",
        "if (other_y0 > reduce_y0) {…0}",
    ),
    # the better one wins, as a whole
    ("reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;", "if (other_y0 > reduce_y0) {…0}"),
    ("reduce_y0 = reduce_y0 < y0 ? y0 : reduce_y0;", "if (other_y0 > reduce_y0) {…0}"),
    (
        "reduce_y0 = reduce_y0 > y0 ? reduce_y0 : y0;",
        "reduce_y0 = reduce_y0 > other_y0 ? reduce_y0 : other_y0;",
    ),
    (
        "reduce_y0 = y0 <= reduce_y0 ? reduce_y0 : y0;",
        "reduce_y0 = reduce_y0 >= other_y0 ? reduce_y0 : other_y0;",
    ),
    ("if (y0 < reduce_y0) reduce_y0 = y0;", "if (other_y0 < reduce_y0) {…0}"),
    ("if (reduce_y0 <= y0) { reduce_y0 = y0; }", "if (other_y0 >= reduce_y0) {…0}"),
    # with its position: ties go to the first one for < and >, to the last one for <= and >=
    (
        "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
        "if (other_y0 > reduce_y0 || (other_y0 == reduce_y0 && other_y1 < reduce_y1)) {…01}",
    ),
    (
        "if (y0 <= reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
        "if (other_y0 < reduce_y0 || (other_y0 == reduce_y0 && other_y1 > reduce_y1)) {…01}",
    ),
    (
        "if (reduce_y0 < y0) { reduce_y1 = index; reduce_y0 = y0; reduce_y2 = y1; }",
        "if (other_y0 > reduce_y0 || (other_y0 == reduce_y0 && other_y1 < reduce_y1)) {…102}",
    ),
]


@pytest.mark.parametrize(("step", "combine"), SOUND)
def test_a_sound_step_is_merged_in_its_own_way(step, combine):
    head, _, taken = combine.partition("{…")
    if taken:
        body = " ".join(f"reduce_y{n} = other_y{n};" for n in taken.rstrip("}"))
        combine = f"{head}{{ {body} }}"
    assert define(step).combine.text == combine


@pytest.mark.parametrize(
    "step",
    [
        "reduce_y0 = reduce_y0 * 2 + y0;",
        "reduce_y0 = reduce_y0 / y0;",
        "reduce_y0 /= y0;",
        "reduce_y0 = reduce_y0 - y0;",  # other_y0 would be subtracted: the sign turns
        "reduce_y0 = y0 - reduce_y0;",
        "reduce_y0 <<= 1;",
        "reduce_y0 = y0;",
        "reduce_y0 += reduce_y0;",
        "reduce_y0 += y0 * reduce_y0;",
        "reduce_y0 = reduce_y0 + reduce_y0;",
        "reduce_y0 = pow(reduce_y0, y0);",
        "reduce_y0 = max(reduce_y0, reduce_y0);",
        "reduce_y0 = fma(y0, y0, reduce_y0);",
        "reduce_y0 = hypot(reduce_y0, y0);",
        "reduce_y0 += y0; reduce_y0 *= 2;",
        "reduce_y0 += y0; reduce_y0 += y1;",
        "reduce_y0 += y0; reduce_y1 += reduce_y0;",
        "float t = reduce_y0; reduce_y0 += t;",
        "float t = y0; if (reduce_y0 > 0) t = 0; reduce_y0 += t;",
        "if (y0 > 0) reduce_y0 += y0; else reduce_y0 *= y0;",
        "if (y0 > 0) reduce_y0 += y0; reduce_y0 += 1;",
        "if (y0 > 0) { float t = reduce_y0; reduce_y0 += y0; y0 = t; }",
        "for (int i = 0; i < 2; i++) reduce_y0 += y0;",
        "reduce_y0++;",
        "if (y0 > reduce_y0) reduce_y0 = y1;",
        "if (y0 > reduce_y0) reduce_y0 = y0; else reduce_y0 = 1;",
        "if (y0 == reduce_y0) reduce_y0 = y0;",
        "if (y0 > reduce_y0 + 1) reduce_y0 = y0;",
        "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = y1; }",  # ties are left to chance
        "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item + 1; }",
        "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 += 1; }",
        "reduce_y0 = y0 > reduce_y0 ? reduce_y0 : y1;",
        "reduce_y0 = y0 > y1 ? y0 : reduce_y0;",
    ],
)
def test_any_other_step_is_asked_for_its_combine(step):
    with pytest.raises(DefinitionError, match="cannot derive how two partial results merge"):
        define(step)
    own = " ".join(f"reduce_y{n} += other_y{n};" for n in range(3) if f"reduce_y{n}" in step)
    assert define(step, combine=own).combine.text == own


def test_a_combine_of_ones_own_is_taken_to_the_letter():
    combine = "reduce_y0 += other_y0; // not what would be derived"
    assert define("reduce_y0 *= y0;", combine=combine).combine.text == combine


@pytest.mark.parametrize(
    ("expr", "step", "positions", "summed"),
    [
        ("y0 = x0;", "reduce_y0 += y0;", [], [0]),
        ("y0 = x0;", "reduce_y0 = y0 * reduce_y0;", [], [0]),
        ("y0 = x0;", "reduce_y0 -= y0; reduce_y1 *= y0;", [], [0, 1]),
        ("y0 = x0;", "if (y0 > 0) reduce_y0 += y0;", [], [0]),
        ("y0 = x0;", "reduce_y0 = max(reduce_y0, y0); reduce_y1 |= y0;", [], []),
        (
            "y0 = x0;",
            "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
            [1],
            [],
        ),
        (
            "y0 = x0; y1 = index;",
            "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = y1; }",
            [1],
            [],
        ),
        ("y0 = x0; y1 = x1;", "reduce_y0 += reduce_item;", [], [0]),
    ],
)
def test_positions_and_sums_are_recognised(expr, step, positions, summed):
    found = define(step, expr)
    assert (found.positions, found.summed) == (set(positions), set(summed))


def test_a_macro_may_stand_for_a_partial():
    step = "IT *= 2; reduce_y0 += y0; reduce_y1 += y0;"
    with pytest.raises(DefinitionError, match="cannot derive"):
        define(step, preamble="#define IT reduce_y0", init="reduce_y0 = 0; reduce_y1 = 0;")
