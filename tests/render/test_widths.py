"""How wide the vectors of kernels are."""

import dataclasses
import re

from planning import CPU, where_possible

from clprim.plan.families import FAMILIES
from clprim.render import render

# Of 64 bytes and more: a runtime that compiles for 32 may pass them otherwise than its functions
# take them.
WIDE = re.compile(r"(?:\b|_)((?:half|float|u?int)16|(?:double|u?long)(?:8|16))\b")


def test_none_is_wider_than_the_devices():
    traits = dataclasses.replace(CPU, vector_bytes=32, registers=16)
    named, met = {}, 0
    for family in FAMILIES:
        for strategy, lower in family.own():
            for one in strategy.examples():
                decide = where_possible(
                    lambda s=strategy, e=one, lower=lower: s.decide(lower(e.problem), traits)
                )
                decision = decide()
                for stage in decision.plan().stages if decision else ():
                    met += 1
                    text = re.sub("//.*", "", render(stage.template, stage.code))
                    named.setdefault(stage.template, set()).update(WIDE.findall(text))
    assert met > 100
    # Draws multiply halves of 64 bits, and no function takes or gives them.
    assert {name: found for name, found in named.items() if found} == {
        "fused/attention": {"ulong8"},
        "fused/attention_gradient": {"ulong8"},
    }
