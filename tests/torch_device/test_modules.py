"""Modules that move to the device and back keep their parameters, and hooks may raise."""

import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import clprim.torch  # noqa: E402, F401

pytestmark = pytest.mark.usefixtures("unoptimised")


def test_shared_weights_stay_shared():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    weight = model[0].weight
    weight.note = "mine"
    model.to("opencl")
    assert model[0].weight is weight
    assert model[1].weight is weight
    assert weight.device.type == "opencl"
    assert weight.note == "mine"
    assert isinstance(weight, nn.Parameter)
    model.cpu()
    assert model[1].weight is weight
    assert weight.device.type == "cpu"


def test_an_optimizer_that_was_made_before_updates_the_model():
    model = nn.LSTM(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), 1)
    model.to("opencl")
    before = [p.detach().cpu() for p in model.parameters()]
    model(torch.ones(2, 1, 3, device="opencl"))[0].sum().backward()
    optimizer.step()
    assert all((a != b.cpu()).any() for a, b in zip(before, model.parameters(), strict=True))
    gradient = model.weight_hh_l0.grad.cpu()
    model.cpu()
    torch.testing.assert_close(model.weight_hh_l0.grad, gradient)
    model(torch.ones(2, 1, 3))


def test_hooks_of_parameters_move_along():
    model, seen = nn.Linear(3, 3), []
    handle = model.weight.register_hook(lambda g: seen.append("gradient"))
    model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device.type))
    model.to("opencl")
    for _ in range(2):
        model(torch.ones(2, 3, device="opencl")).sum().backward()
        handle.remove()
    assert seen == ["gradient", "opencl", "opencl"]


def test_a_lazy_module_gets_its_shape_on_the_device():
    model = nn.LazyLinear(4).to("opencl")
    assert model(torch.ones(2, 3, device="opencl")).device.type == "opencl"
    assert model.weight.shape == (4, 3)


def test_a_parameter_that_a_graph_holds_becomes_another_with_a_warning():
    model = nn.Linear(3, 3).to("opencl")
    weight = model.weight
    y = model(torch.ones(2, 3, device="opencl", requires_grad=True))
    with pytest.warns(UserWarning, match=r"Linear.weight became a new parameter on its way to cpu"):
        model.cpu()
    assert model.weight is not weight
    assert y.device.type == "opencl"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Linear(3, 3).to("opencl").cpu()


def _gradient(w, fail):
    y = w * 2
    y.register_hook(fail)
    return y


def _node(w, fail):
    y = w * 2
    y.grad_fn.register_hook(fail)
    return y


def _leaf(w, fail):
    w.register_post_accumulate_grad_hook(fail)
    return w * 2


def _saved(w, fail):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, fail):
        return w.sin()


def _module(w, fail):
    layer = nn.Linear(3, 3).to("opencl")
    layer.register_full_backward_hook(fail)
    return layer(w)


@pytest.mark.parametrize("make", [_gradient, _node, _leaf, _saved, _module])
def test_what_a_hook_raises_comes_out_of_the_backward_pass(make):
    def fail(*args):
        return {}["of a hook"]

    w = torch.ones(3, 3, device="opencl", requires_grad=True)
    with pytest.raises(LookupError, match="of a hook") as raised:
        make(w, fail).sum().backward()
    assert raised.traceback[-1].name == "fail"
    another = torch.ones(3, device="opencl", requires_grad=True)
    (another * 3).sum().backward()
    assert another.grad.tolist() == [3, 3, 3]


def test_what_hooks_raise_stays_with_their_thread():
    found = []

    def passes(name):
        def fail(grad):
            raise LookupError(name)

        w = torch.ones(3, device="opencl", requires_grad=True)
        for _ in range(200):
            twice = w * 2
            twice.register_hook(fail)
            with pytest.raises(LookupError) as raised:
                twice.sum().backward()
            found.append(raised.value.args == (name,))

    threads = [threading.Thread(target=passes, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 800
