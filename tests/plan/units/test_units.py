"""Fragment layouts by a model in NumPy: what work-items hold, by the data, multiplies exactly."""

import numpy as np
import pytest

from clprim.plan.units.known import UNITS, unit_of

everyone = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name.replace("/", "-"))


def places(unit, fragment):
    """Where every element of every work-item lies, (items, elements) each."""
    lane = np.arange(unit.items)[:, None]
    element = np.arange(fragment.elements)[None]
    names = {"lane": lane, "element": element}
    zero = np.zeros((unit.items, fragment.elements), int)
    line, along = (eval(t.replace("/", "//"), {}, names) for t in (fragment.line, fragment.along))
    return zero + line, zero + along


@everyone
def test_every_product_is_added_up_once(unit):
    rng = np.random.default_rng(7)
    a, b, c = (
        rng.integers(-8, 9, shape)
        for shape in (
            (unit.rows, unit.steps),
            (unit.steps, unit.columns),
            (unit.rows, unit.columns),
        )
    )
    # What work-items hold, and nothing else, is what the instruction sees.
    left, right = np.full_like(a, 99), np.full_like(b.T, 99)
    held_a, held_b, held_c = (places(unit, f) for f in (unit.a, unit.b, unit.c))
    for matrix, held, whole in ((left, held_a, a), (right, held_b, b.T)):
        matrix[held] = whole[held]
    found = np.full_like(c, 99)
    found[held_c] = c[held_c] + (left @ right.T)[held_c]
    np.testing.assert_array_equal(found, c + a @ b)


@everyone
def test_sums_are_held_once_and_operands_by_as_many(unit):
    sums = np.zeros((unit.rows, unit.columns), int)
    np.add.at(sums, places(unit, unit.c), 1)
    assert (sums == 1).all()
    for fragment, lines in ((unit.a, unit.rows), (unit.b, unit.columns)):
        held = np.zeros((lines, unit.steps), int)
        np.add.at(held, places(unit, fragment), 1)
        assert (held == held[0, 0]).all()
        assert held[0, 0] >= 1


@everyone
def test_elements_of_a_run_follow_each_other(unit):
    for fragment in (unit.a, unit.b):
        line, along = places(unit, fragment)
        runs = (unit.items, fragment.elements // fragment.run, fragment.run)
        line, along = line.reshape(runs), along.reshape(runs)
        assert (line == line[..., :1]).all()
        assert (along == along[..., :1] + np.arange(fragment.run)).all()
        # They are read at once: chunks of 16 bytes hold whole ones.
        assert (along[..., 0] % min(fragment.run, 16 // unit.itemsize) == 0).all()


@everyone
def test_words_hold_whole_elements(unit):
    for fragment, words in zip((unit.a, unit.b), unit.words, strict=True):
        assert words * 4 == fragment.elements * unit.itemsize


@pytest.mark.parametrize("unit", [u for u in UNITS if u.matrices], ids=lambda u: u.name)
def test_four_matrices_of_eight_lines_are_fragments(unit):
    """`ldmatrix` gives work-item l word l % 4 of line l / 4 of each of four matrices."""
    of_word, lane = 4 // unit.itemsize, np.arange(32)[:, None]
    chunk = 16 // unit.itemsize
    for fragment, below, behind in (
        (unit.a, lambda n: n % 2, lambda n: n // 2),
        (unit.b, lambda n: n // 2, lambda n: n % 2),
    ):
        line, along = places(unit, fragment)
        for n in range(fragment.elements // of_word):
            words = slice(n * of_word, (n + 1) * of_word)
            assert (line[:, words] == below(n) * 8 + lane // 4).all()
            wanted = behind(n) * chunk + lane % 4 * of_word + np.arange(of_word)
            assert (along[:, words] == wanted).all()


halves = pytest.mark.parametrize(
    "unit", [u for u in UNITS if u.itemsize == 2], ids=lambda unit: unit.name.replace("/", "-")
)


@halves
def test_partners_hold_what_others_lack_of_queries(unit):
    line, along = places(unit, unit.c)
    query, key = (along, line) if unit.turned else (line, along)
    lanes = np.arange(unit.items)
    reached = {0}
    for bit in unit.partners:
        assert (query == query[lanes ^ bit]).all()
        reached |= {n ^ bit for n in reached}
    for lane in lanes:
        assert len({*query[lane]}) == unit.queries
        together = [lane ^ n for n in reached]
        keys = sorted(k for n in together for k in key[n][query[n] == query[lane, 0]])
        assert keys == [*range(unit.rows if unit.turned else unit.columns)]
    rows = query.reshape(unit.items, unit.queries, -1)
    assert (rows == rows[..., :1]).all()


@halves
def test_sums_that_are_kept_lie_as_operands(unit):
    """Sums of units along keys, one after another, are elements of the operand of these steps."""
    held = unit.b if unit.turned else unit.a
    line, along = places(unit, unit.c)
    query, key = (along, line) if unit.turned else (line, along)
    keys = unit.rows if unit.turned else unit.columns
    every = 2 * max(unit.steps, keys)
    query = np.concatenate([query] * (every // keys), axis=1)
    key = np.concatenate([key + n for n in range(0, every, keys)], axis=1)
    line, along = places(unit, held)
    wanted = np.concatenate([along + n for n in range(0, every, unit.steps)], axis=1)
    same = wanted.shape == key.shape and (wanted == key).all()
    same = same and (np.concatenate([line] * (every // unit.steps), axis=1) == query).all()
    assert same == unit.kept


def test_names_tell_units_apart():
    assert len({unit.name for unit in UNITS}) == len(UNITS)
    for unit in UNITS:
        assert unit_of(unit.name) is unit
        emulated = unit_of(f"emulated/{unit.name}")
        assert emulated.emulated
        assert (emulated.a, emulated.b, emulated.c) == (unit.a, unit.b, unit.c)


@pytest.mark.parametrize("unit", [u for u in UNITS if u.blocks], ids=lambda u: u.name)
def test_blocks_are_read_as_fragments_hold_them(unit):
    """Eight numbers of each work-item: of one read all items' lie side by side, as rows do."""
    line, along = places(unit, unit.a)
    lies = line * unit.steps + along
    each = unit.a.elements // 8  # elements of a number: all of a row that an item has
    number, within = np.divmod(np.arange(unit.a.elements), each)
    lane = np.arange(unit.items)[:, None]
    np.testing.assert_array_equal(lies, (number * unit.items + lane) * each + within)
