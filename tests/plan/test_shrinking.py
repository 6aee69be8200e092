"""A device with less of everything gets smaller kernels, of every family, and always some."""

import dataclasses
import itertools
import math
import re

import pytest
from planning import (
    ARGMAX,
    CPU,
    GPU,
    array,
    convolution,
    depthwise,
    depthwise_weight,
    map_plan,
    plan_depthwise,
    product,
    reduce_plan,
)

from clprim.plan.product.family import PRODUCTS
from clprim.render import render

LAST = (0, 2, 3, 1)
IMAGES = (8, 64, 28, 28)


def contraction(what, strategy="auto"):
    return lambda traits: PRODUCTS.plan(what, traits, strategy).stages


def lanes(what):
    """Of a device whose sub-groups pass values between lanes, while its work-groups hold one."""
    lane = {"sub_groups": (8, 16), "block_reads": True, "short_block_reads": True}
    return lambda traits: PRODUCTS.plan(what, dataclasses.replace(traits, **lane)).stages


def planes(what):
    return lambda traits: plan_depthwise(what, traits).stages


def reduction(order, axes, **options):
    given = array(IMAGES, order=order)
    return lambda traits: reduce_plan(given, axes, traits, **options).stages


def pointwise(*orders, shape=IMAGES):
    given = [array(shape, order=order) for order in orders]
    expr = "y0 = " + " + ".join(f"x{n}" for n in range(len(given))) + ";"
    return lambda traits: [map_plan(expr, *given, traits=traits)]


FAMILIES = {
    **{
        f"product, {strategy}": contraction(product(300, 200, 500), strategy)
        for strategy in ("panels", "tiles")
    },
    **{
        f"{'NHWC' if last else 'NCHW'}, {strategy}": contraction(
            convolution(8, 64, 28, 64, last=last), strategy
        )
        for strategy, last in itertools.product(("panels", "tiles"), (False, True))
    },
    **{
        f"sub-groups{', transposed' if transposed else ''}": lanes(
            product(300, 200, 500, transposed=(transposed, False))
        )
        for transposed in (False, True)
    },
    "split depth": contraction(product(16, 16, 20_000), "tiles"),
    **{
        f"depthwise {'NHWC' if last else 'NCHW'}{', adjoint' if adjoint else ''}": planes(
            depthwise(8, 64, 28, stride=2, last=last, adjoint=adjoint)
        )
        for last, adjoint in itertools.product((False, True), repeat=2)
    },
    **{
        f"depthwise weight {'NHWC' if last else 'NCHW'}": planes(
            depthwise_weight(8, 64, 28, last=last)
        )
        for last in (False, True)
    },
    "reduction, rows": reduction(None, (3,)),
    "reduction, all": reduction(None, (0, 1, 2, 3)),
    "reduction, channels": reduction(None, (0, 2, 3)),
    "reduction, channels last": reduction(LAST, (0, 2, 3)),
    "reduction, positions": reduction(
        None, (0, 2, 3), definition=ARGMAX, partials=["float32", "int64"]
    ),
    "pointwise": pointwise(None, None),
    "pointwise, odd": pointwise(None, shape=(3, 5, 7)),
    "transposition": pointwise(None, LAST),
}
each_family = pytest.mark.parametrize("plans", FAMILIES.values(), ids=FAMILIES)
each_device = pytest.mark.parametrize("traits", [GPU, CPU], ids=["gpu", "cpu"])

BYTES = {"char": 1, "short": 2, "half": 2, "int": 4, "uint": 4, "float": 4}
BYTES |= {"long": 8, "ulong": 8, "double": 8}


def local_bytes(plan):
    """Bytes of local memory that a kernel declares; records count as they are aligned."""
    text = render(plan.template, plan.code)
    aliases = dict(re.findall(r"typedef (\w+) (\w+);", text))
    aliases = {alias: kind for kind, alias in aliases.items()}
    total = 0
    for kind, count in re.findall(r"__local (\w+) \w+\[(\d+)\]", text):
        if kind == "step_t":
            size = plan.code.aligned or plan.code.record
        else:
            base, width = re.fullmatch(r"(.*?)(\d*)", aliases.get(kind, kind)).groups()
            size = BYTES[base] * int(width or 1)
        total += size * int(count)
    assert ("__local" in text.replace("__local_", "")) == (total > 0)
    return total


def check(plan, traits):
    items = math.prod(plan.local_size or (1,))
    assert items <= traits.max_work_group_size
    assert local_bytes(plan) <= traits.local_memory
    for size, group in zip(plan.global_size, plan.local_size or (), strict=True):
        assert size > 0
        assert size % group == 0
    return items


@each_family
@each_device
def test_smaller_work_groups(plans, traits):
    largest = None
    for most in (1024, 256, 100, 64, 16, 3, 1):
        shrunk = dataclasses.replace(traits, max_work_group_size=most)
        items = max(check(plan, shrunk) for plan in plans(shrunk))
        assert largest is None or items <= largest
        largest = items
    assert largest == 1


@each_family
@each_device
def test_less_local_memory(plans, traits):
    most = None
    for memory in (65536, 32768, 16384, 8192, 4096):
        shrunk = dataclasses.replace(traits, local_memory=memory)
        used = max([local_bytes(plan) for plan in plans(shrunk)])
        for plan in plans(shrunk):
            check(plan, shrunk)
        assert most is None or used <= most
        most = used


@each_family
def test_a_device_with_little_of_everything(plans):
    for items, memory, units, registers in itertools.product(
        (64, 8, 1), (32768, 4096), (1, 64), (1024, 256)
    ):
        shrunk = dataclasses.replace(
            GPU,
            max_work_group_size=items,
            local_memory=memory,
            compute_units=units,
            register_bytes=registers,
        )
        for plan in plans(shrunk):
            check(plan, shrunk)


def test_shrinking_changes_what_gpus_run():
    # Not one plan for all that happens to fit.
    small = dataclasses.replace(GPU, max_work_group_size=32, local_memory=4096)
    changed = []
    for name, plans in FAMILIES.items():
        before, after = plans(GPU), plans(small)
        if any(math.prod(plan.local_size or (1,)) > 32 for plan in before):
            assert before != after, name
            changed.append(name)
    assert len(changed) > len(FAMILIES) // 2
