"""Mixed precision, fused optimizers, generators, events and streams."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised", "strict")


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_training_in_mixed_precision(kind):
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 4), torch.randn(8, 6), torch.randint(0, 4, (8,))
    ours, twin = copy.deepcopy(model).to("opencl"), copy.deepcopy(model)
    scaler = torch.amp.GradScaler("opencl", init_scale=1024.0, growth_interval=2)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, twin)]
    for _ in range(3):
        with torch.autocast("opencl", dtype=kind):
            logits = ours(x.to("opencl"))
            loss = F.cross_entropy(logits, y.to("opencl"))
        assert (logits.dtype, loss.dtype) == (kind, torch.float32)
        optimizers[0].zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizers[0])
        scaler.update()
        optimizers[1].zero_grad()
        F.cross_entropy(twin(x), y).backward()
        optimizers[1].step()
    assert ours.weight.dtype is torch.float32
    assert scaler.get_scale() == 2048.0
    torch.testing.assert_close(ours.weight.cpu(), twin.weight, rtol=2e-2, atol=2e-3)


def test_a_step_with_an_infinite_gradient_is_left_out():
    weight = torch.ones(3).to("opencl").requires_grad_()
    scaler = torch.amp.GradScaler("opencl", init_scale=4.0)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale((weight * torch.tensor([1.0, float("inf"), 1]).to("opencl")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_that_are_left_out_do_not_count(name):
    """The first one, and one amid the others: as if these had not been there."""
    start = torch.arange(6.0).reshape(2, 3)
    weights = start.to("opencl").requires_grad_(), start.clone().requires_grad_()
    options = {"momentum": 0.9} if name == "SGD" else {}
    kind = getattr(torch.optim, name)
    fused = kind([weights[0]], lr=0.1, fused=True, **options)
    plain = kind([weights[1]], lr=0.1, **options)
    scaler = torch.amp.GradScaler("opencl", init_scale=4.0)
    for n, left_out in enumerate([True, False, False, True, True, False]):
        fused.zero_grad()
        scaler.scale((weights[0].cos() * (n + 1)).sum()).backward()
        if left_out:
            weights[0].grad[1, 1] = float("inf")
        else:
            plain.zero_grad()
            (weights[1].cos() * (n + 1)).sum().backward()
            plain.step()
        scaler.step(fused)
        scaler.update()
        torch.testing.assert_close(weights[0].detach().cpu(), weights[1].detach())


def test_gradients_of_many_shapes_and_dtypes_are_unscaled_together():
    kinds = [torch.float32, torch.float16, torch.float32] * 3
    grads = [torch.arange(n + 2.0).to(k) for n, k in enumerate(kinds)]
    for infinite in (False, True):
        if infinite:
            grads[4][1] = float("inf")
        there = [g.to("opencl") for g in grads]
        found = torch.zeros((), device="opencl")
        torch._amp_foreach_non_finite_check_and_unscale_(
            there, found, torch.tensor(0.5, device="opencl")
        )
        assert found.item() == infinite
        for a, b in zip(there, grads, strict=True):
            assert torch.equal(a.cpu(), b * 0.5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "weight_decay": 1e-2, "nesterov": True}),
        ("Adam", {"weight_decay": 1e-2, "amsgrad": True}),
        ("AdamW", {}),
        ("Adagrad", {"lr_decay": 0.1, "weight_decay": 1e-2}),
    ],
)
def test_fused_steps(name, options):
    ct.fallback("error")
    torch.manual_seed(1)
    start, slopes = torch.randn(4, 5), [torch.randn(4, 5) + 0.1 for _ in range(3)]
    ours, twin = start.to("opencl").requires_grad_(), start.double().requires_grad_()
    make = getattr(torch.optim, name)
    steps = [make([ours], lr=0.05, fused=True, **options), make([twin], lr=0.05, **options)]
    for slope in slopes:
        ours.grad, twin.grad = slope.to("opencl"), slope.double()
        for step in steps:
            step.step()
    torch.testing.assert_close(ours.detach().cpu().double(), twin.detach(), rtol=1e-5, atol=1e-6)


def test_a_generator_decides_the_numbers():
    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        drawn = [torch.randn(4, device="opencl", generator=generator).tolist() for _ in range(2)]
        order = torch.randperm(6, device="opencl", generator=generator).tolist()
        assert sorted(order) == list(range(6))
        return drawn, order

    first = draw(5)
    assert first == draw(5) != draw(6)
    assert first[0][0] != first[0][1]


def test_events_and_streams():
    start, end = (torch.opencl.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(1000, device="opencl").sum()
    end.record()
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0
    with torch.opencl.stream(torch.opencl.Stream()):
        assert x.item() == 1000
    assert torch.opencl.current_stream() == torch.opencl.default_stream()
    with torch.opencl.stream(None):
        torch.opencl.current_stream().wait_event(torch.opencl.current_stream().record_event())
    with pytest.raises(cp.DeviceError, match="enable_timing=True"):
        torch.opencl.Event().elapsed_time(end)


@pytest.mark.parametrize(
    "bad", ["junk", 3.5, torch.ones(2), object()], ids=lambda b: type(b).__name__
)
def test_no_streams_and_no_events_are_refused(bad):
    stream, event = torch.opencl.current_stream(), torch.opencl.Event(enable_timing=True)
    for expected, call in [
        ("stream", event.record),
        ("stream", event.wait),
        ("stream", stream.wait_stream),
        ("stream", torch.opencl.stream),
        ("stream", torch.opencl.set_stream),
        ("event", stream.record_event),
        ("event", stream.wait_event),
        ("event", event.elapsed_time),
    ]:
        with pytest.raises(cp.DTypeError, match=f"for {expected}, got"):
            call(bad)


def test_views_beyond_their_memory_are_refused():
    x = torch.ones(4).to("opencl")
    with pytest.raises(cp.ShapeError, match="reaches beyond its storage"):
        x.as_strided((1 << 20,), (1,)).add_(1)


def test_parts_of_copies():
    x, y = torch.arange(12.0).reshape(3, 4), torch.tensor([-1.0, -2, -3])
    for write in (
        lambda a, b: torch.select_scatter(a, b, 1, 2),
        lambda a, b: torch.diagonal_scatter(a, b, 1),
        lambda a, b: torch.slice_scatter(a, b.reshape(3, 1), 1, 3, 4),
    ):
        found = write(x.to("opencl").t().contiguous().t(), y.to("opencl"))
        assert torch.equal(found.cpu(), write(x, y))
