"""PyTorch drops an argument that equals its default: kernels have the same ones."""

import inspect

import pytest

torch = pytest.importorskip("torch")

from clprim.torch import dispatcher, table  # noqa: E402

# What None stands for.
MEANT = {("nan", None): 0.0, ("correction", None): 1}


def test_bernoulli_does_not_take_the_values_for_probabilities():
    x = torch.full((4000,), 7.0, device="opencl")
    for found in (x.clone().bernoulli_(0.5), x.clone().bernoulli_(), torch.bernoulli(x, 0.5)):
        assert 1800 < found.sum().item() < 2200
    p = torch.tensor([0.0, 1.0], device="opencl").repeat(2000)
    assert torch.equal(x.bernoulli_(p), p)


def test_a_histogram_has_the_bins_that_were_asked_for():
    x = torch.arange(200.0, device="opencl")
    assert torch.histogram(x, 100).hist.tolist() == torch.histogram(x).hist.tolist() == [2] * 100


def functions():
    """Overloads and what computes them, but for those that take PyTorch's own defaults."""
    found = dict(dispatcher._kernels)
    for entry in table.kernels():
        for name in entry.names:
            if table.overload(name) is not None:
                found |= dict.fromkeys((name, *dict(table._siblings(name))), entry.function)
    there, own = dispatcher._kernels, ("ignored", "named")
    return {n: f for n, f in found.items() if n in there and not any(hasattr(f, a) for a in own)}


def test_no_kernel_has_another_default_than_pytorch():
    checked = 0
    for name, function in functions().items():
        parameters = list(inspect.signature(function).parameters.values())
        named = {p.name: p for p in parameters}
        places = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
        arguments = [a for a in table.overload(name)._schema.arguments if not a.is_out]
        for place, argument in enumerate(arguments):
            own = named.get(argument.name)
            if not argument.kwarg_only:
                own = places[place] if place < len(places) else None
            if own is None or not argument.has_default_value():
                continue
            default = argument.default_value
            if isinstance(default, list):  # of equal numbers, or of none
                assert {*default} in ({*(own.default or ())}, {own.default}), (name, own)
            else:
                default = MEANT.get((own.name, default), default)
                assert own.default == default, (name, own, default)
            checked += 1
    assert checked > 200
