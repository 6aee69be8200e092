"""Every condition of every template is met by some kernel, and missed by some other one."""

import re

import jinja2
import pytest
from branches import kernels as more_kernels
from jinja2 import nodes
from rendered import kernels

from clprim.render import environment, render

WATCH = "watch_condition"
# Kernels that measure a device have tests of their own.
ELSEWHERE = "measure/"


class Watched(jinja2.Environment):
    """An environment whose templates say which way each condition went."""

    def __init__(self):
        plain = environment()
        super().__init__(
            loader=plain.loader,
            undefined=plain.undefined,
            trim_blocks=plain.trim_blocks,
            lstrip_blocks=plain.lstrip_blocks,
            keep_trailing_newline=plain.keep_trailing_newline,
        )
        self.filters.update(plain.filters)
        self.globals.update(plain.globals)
        self.outcomes = {}
        self.globals[WATCH] = self._watch

    def _watch(self, place, value):
        self.outcomes[place].add(bool(value))
        return value

    def _parse(self, source, name, filename):
        tree = super()._parse(source, name, filename)
        lines = source.split("\n")
        found = list(tree.find_all((nodes.If, nodes.CondExpr)))
        for number, node in enumerate(found):
            place = f"{name}:{node.lineno}, condition {number}: {lines[node.lineno - 1].strip()}"
            self.outcomes.setdefault(place, set())
            name_of = nodes.Name(WATCH, "load")
            call = nodes.Call(name_of, [nodes.Const(place), node.test], [], None, None)
            node.test = call.set_lineno(node.lineno).set_environment(self)
        return tree


@pytest.fixture(scope="module")
def outcomes():
    watched = Watched()
    for _, template, code in (*kernels(), *more_kernels()):
        watched.get_template(f"{template}.cl.jinja").render(code=code)
    return watched.outcomes


def test_every_condition_goes_both_ways(outcomes):
    missing = [
        f"never {way}: {place}"
        for place, seen in sorted(outcomes.items())
        for way in (True, False)
        if way not in seen and not place.startswith(ELSEWHERE)
    ]
    assert len(outcomes) > 500  # they were watched
    assert not missing, "tests/branches.py needs a plan for\n" + "\n".join(missing)


def test_what_no_golden_file_shows_is_clean_as_well():
    for name, template, code in more_kernels():
        text = render(template, code)
        assert text.endswith("}\n"), name
        assert text.count("{") == text.count("}"), name
        assert not any(line != line.rstrip() for line in text.split("\n")), name
        assert "\n\n\n" not in text, name
        assert text.isascii(), name
        _, _, rest = text.partition(f"void {code.name}(\n")
        head, _, _ = rest.partition(")\n{")
        found = [line.strip().replace(" cp_", " ") for line in head.split(",\n")]
        declared = [p.declaration.replace(" cp_", " ") for p in code.parameters]
        assert found == declared, name


def test_drawings_are_printed_with_the_numbers_of_a_kernel():
    drawn = {}
    for _, template, code in (*kernels(), *more_kernels()):
        drawn.setdefault(template, render(template, code))
    assert re.search(r"// .*\d+ side by side, \d+ elements each", drawn["reduction/inner"])
    assert sum(text.startswith("// ") for text in drawn.values()) > 30
