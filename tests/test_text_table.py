import pytest

from clprim.text_table import format_table


def test_numbers_stand_right_and_words_left():
    table = format_table(["kernel", "calls", "ms"], [["sum", 12, 0.5], ["a_long_name", 3, 1234.0]])
    assert table.split("\n") == [
        "kernel       calls    ms",
        "-----------  -----  ----",
        "sum             12   0.5",
        "a_long_name      3  1234",
    ]


def test_none_is_a_rule():
    table = format_table(["a"], [["x"], None, ["yy"]])
    assert table.split("\n") == ["a", "--", "x", "--", "yy"]


def test_alignment_can_be_asked_for():
    assert format_table(["a", "b"], [["xx", 1], ["y", 100]], align="rl").split("\n") == [
        " a  b",
        "--  ---",
        "xx  1",
        " y  100",
    ]


def test_without_rows_the_head_remains():
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


@pytest.mark.parametrize("align", ["l", "lrr", "lc"])
def test_a_wrong_alignment_is_refused(align):
    with pytest.raises(ValueError, match="align must be 2 letters"):
        format_table(["a", "b"], [[1, 2]], align=align)


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells, the table 2"):
        format_table(["a", "b"], [[1]])
