"""The value of what becomes of sums: one epilogue behind another."""

from dataclasses import replace

import numpy as np
import pytest

from clprim import DefinitionError
from clprim.language.epilogue_snippet import define_epilogue
from clprim.plan.epilogue import Epilogue, Read, positions
from clprim.plan.strides import Operand

SHAPE = (2, 3)
ARRAY = Operand(SHAPE, (12, 4), 0, np.dtype(np.float32))


def epilogue(text, *, arrays=0, numbers=0, coords=(), bias=False):
    snippet = define_epilogue("test", text)
    reads = [Read("bias", ARRAY)] * bias + [Read(f"x{n}", ARRAY) for n in range(arrays)]
    reads += positions(snippet, coords, SHAPE)
    return Epilogue(snippet, tuple(reads), numbers, coords, (), SHAPE)


def test_a_second_epilogue_reads_what_follows_the_operands_of_the_first():
    first = epilogue("y0 = y0 * w0 + x1 - x0 + index", arrays=2, numbers=1, bias=True)
    second = epilogue(
        "y0 = max(y0, x0 + w1 * w0);\ny0 += coord(1) + index;",
        arrays=1,
        numbers=2,
        coords=((1, 1),),
    )
    both = first.then(replace(second, beta=True))
    assert both.snippet.text == (
        "y0 = y0 * w0 + x1 - x0 + index;\n"
        "{\ny0 = max(y0, x2 + w2 * w1);\ny0 += coord(1) + index;\n}"
    )
    assert [a.name for a in both.arrays] == ["bias", "x0", "x1", "x2", "index", "coord_1"]
    assert (both.numbers, both.coords, both.beta) == (3, ((1, 1),), True)


def test_nothing_is_added_to_nothing():
    one = epilogue("y0 += x0;", arrays=1)
    assert Epilogue().then(one).arrays == one.arrays
    assert Epilogue().then(one).snippet == one.snippet
    assert one.then(Epilogue()) == one


def test_the_order_is_bias_snippet_old_value():
    one = epilogue("y0 += x0;", arrays=1)
    with pytest.raises(ValueError, match="in this order"):
        replace(one, beta=True).then(one)
    with pytest.raises(ValueError, match="in this order"):
        one.then(epilogue("y0 += x0;", arrays=1, bias=True))


def test_complaints_name_the_line_that_was_written():
    first = epilogue("y0 += x0;\ny0 *= 2;", arrays=1)
    both = first.then(epilogue("y0 -= 1;\ny0 = y0 / x0", arrays=1))
    assert both.texts["epilogue"] == first.snippet.text or "epilogue" in both.texts
    assert both.texts["epilogue 2"] == "y0 -= 1;\ny0 = y0 / x0"
    assert '#line 1 "snippet:epilogue 2"\ny0 -= 1;\ny0 = y0 / x1;' in both.snippet.body
    with pytest.raises(DefinitionError, match=r"line 1(.|\n)*y0 = q;(.|\n)*\^"):
        epilogue("y0 = q;")


def test_vectors_compute_the_same_where_no_position_is_read():
    float32, int32 = np.dtype(np.float32), np.dtype(np.int32)
    assert Epilogue().on_vectors(int32)
    assert epilogue("y0 = max(y0, 0);").on_vectors(float32)
    assert not epilogue("y0 += index;").on_vectors(float32)
    assert not epilogue("y0 = sqrt(y0);").on_vectors(int32)
