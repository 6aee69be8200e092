"""Nodes are planned when their kernels are asked for, and equal ones once."""

import numpy as np
import pytest

import clprim as cp
from clprim import ops
from clprim.errors import ShapeError
from clprim.plan.strategy import Family

pytestmark = pytest.mark.usefixtures("unoptimised")


def test_elementwise_nodes_are_planned_when_they_are_joined(device, monkeypatch):
    planned = []
    plan = Family.plan

    def counted(family, problem, *rest):
        planned.append(problem.definition.expr.text)
        return plan(family, problem, *rest)

    monkeypatch.setattr(Family, "plan", counted)
    steps = [cp.Pointwise(f"y0 = x0 * {n + 2};") for n in range(4)]

    def chain(x):
        for step in steps:
            x = step(x)
        return x

    x = cp.asarray(np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(cp.jit(chain)(x).get(), x.get() * 120)
    assert len(planned) == 1


def test_equal_contractions_are_planned_once(device, monkeypatch):
    planned = []
    plan = Family.plan

    def noted(family, problem, *rest):
        planned.append((family.name, problem))
        return plan(family, problem, *rest)

    monkeypatch.setattr(Family, "plan", noted)

    def layers(x, w):
        for _ in range(3):
            x = ops.relu(ops.conv2d(x, w, padding=1))
        return x

    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((1, 5, 9, 13), (5, 5, 3, 3)))
    given = cp.asarray(x), cp.asarray(w)
    compiled = cp.jit(layers)
    np.testing.assert_allclose(compiled(*given).get(), layers(*given).get(), rtol=1e-4, atol=1e-4)
    assert len(compiled.graph(*given).nodes) == 3
    whole = [problem for name, problem in planned if name == "conv"]
    assert whole
    assert len(set(whole)) == len(whole)


def test_what_planning_may_refuse_is_refused_by_its_line(device):
    second = cp.Pointwise("y0 = x0 + coord(3);")

    def function(x):
        return second(x)

    with pytest.raises(ShapeError, match="coord"):
        cp.jit(function)(cp.zeros((2, 3), dtype="float32"))
    assert not second.has_kernels(None)
