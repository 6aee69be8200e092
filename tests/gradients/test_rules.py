"""The table of rules, and the page that shows it."""

from pathlib import Path

from clprim.language.gradient.derivatives import REFUSED, RULES, WHOLE, rules_table
from clprim.language.names import BUILTINS, COMPONENTWISE

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
START, END = "<!-- rules -->\n", "<!-- end of rules -->"


def test_the_page_shows_the_rules(request):
    text = PAGE.read_text()
    before, rest = text.split(START)
    shown, after = rest.split(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{before}{START}{rules_table()}{END}{after}")
        return
    assert shown == rules_table(), "run with --update-golden"


def test_every_function_that_vectors_compute_has_a_rule():
    assert not COMPONENTWISE - RULES.keys() - WHOLE - REFUSED.keys()


def test_rules_are_of_functions_that_there_are():
    assert RULES.keys() - {"digamma"} <= BUILTINS
