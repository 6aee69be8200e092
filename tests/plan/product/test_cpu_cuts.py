"""How the CPU strategies of contractions cut what caches and cores make dear."""

from dataclasses import replace

from clprim.plan.conv.dense import CPU, dense_convolution
from clprim.plan.conv.lowering import forward
from clprim.plan.product.in_place import FEW_ROWS, plan_in_place
from clprim.plan.product.panels import plan_panels


def test_rows_that_share_places_of_a_cache_are_few():
    def rows(channels):
        plan = plan_in_place(forward(dense_convolution(8, channels, 14, 256, 1, last=True)), CPU)
        return plan.main.code.rows

    assert rows(1024) <= FEW_ROWS < rows(1040)


def test_every_core_gets_as_many_splits():
    deep = forward(dense_convolution(1, 512, 14, 512, 3, stride=2, last=True))
    splits = plan_panels(deep, replace(CPU, compute_units=2)).main.global_size[2]
    assert splits > 2
    assert splits % 2 == 0
