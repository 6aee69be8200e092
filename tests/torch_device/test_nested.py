"""Nested tensors of the jagged layout attend to each other as their sequences do one by one."""

import pytest

import clprim as cp

torch = pytest.importorskip("torch")

from torch.nn.functional import scaled_dot_product_attention as attention  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "device"),
    pytest.mark.filterwarnings("ignore"),
]
LENGTHS, OTHERS = (3, 5, 1, 9), (4, 2, 7, 1)


def rows(lengths, *shape):
    draw = torch.Generator().manual_seed(sum(lengths) + sum(shape))
    return [torch.randn(n, *shape, generator=draw) for n in lengths]


def nested(given, where="opencl"):
    return torch.nested.as_nested_tensor(given, layout=torch.jagged).to(where).requires_grad_()


def one_by_one(*given, **options):
    y = [attention(*(x[None].transpose(1, 2) for x in each), **options) for each in zip(*given)]  # noqa: B905
    return torch.cat([x.transpose(1, 2)[0] for x in y])


def at_once(*given, **options):
    return attention(*(x.transpose(1, 2) for x in given), **options).transpose(1, 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("options", [{}, {"is_causal": True, "scale": 0.3}])
def test_parts_of_one_tensor(options, compiled):
    def run(x):
        return at_once(*x.chunk(3, -1), **options)

    given = [x.requires_grad_() for x in rows(LENGTHS, 2, 24)]
    expected = one_by_one(*zip(*(x.chunk(3, -1) for x in given)), **options)  # noqa: B905
    expected.square().sum().backward()
    torch.compiler.reset()
    x = nested([x.detach() for x in given])
    found = (torch.compile(run, backend="clprim") if compiled else run)(x)
    assert found.is_nested and found.shape[0] == len(LENGTHS)
    found.values().square().sum().backward()
    torch.testing.assert_close(found.values().cpu(), expected)
    slopes = torch.cat([x.grad for x in given])
    torch.testing.assert_close(x.grad.values().cpu(), slopes, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("heads", [2, 1])
def test_keys_of_other_lengths_and_shared_heads(heads, is_causal):
    q, k, v = rows(LENGTHS, 2, 8), rows(OTHERS, heads, 8), rows(OTHERS, heads, 6)
    options = {"is_causal": is_causal, "enable_gqa": heads == 1}
    keys = nested(k)
    values = torch.nested.nested_tensor_from_jagged(nested(v).values(), keys.offsets())
    found = at_once(nested(q), keys, values, **options)
    torch.testing.assert_close(found.values().detach().cpu(), one_by_one(q, k, v, **options))


def test_sequences_with_holes_between_them():
    x, lengths = nested(rows(LENGTHS, 2, 8)), torch.tensor([2, 3, 1, 4])
    short = torch.nested.nested_tensor_from_jagged(x.values(), x.offsets(), lengths.to("opencl"))
    found = at_once(short, short, short)
    cut = [x[:n] for x, n in zip(rows(LENGTHS, 2, 8), lengths, strict=True)]
    torch.testing.assert_close(found.values().detach().cpu(), one_by_one(cut, cut, cut))


def test_autocast_lowers_them():
    x = nested(rows(LENGTHS, 2, 8))
    with torch.autocast("opencl", dtype=torch.float16):
        assert at_once(x, x, x).dtype is torch.float16


def test_what_pytorch_refuses_is_refused():
    x = nested(rows(LENGTHS, 2, 8))
    with pytest.raises(ValueError, match="same dtype"):
        at_once(x, x.half(), x)
    with pytest.raises(ValueError, match="Masks are not yet supported"):
        at_once(x, x, x, attn_mask=torch.ones(1, device="opencl"))


def test_another_layout_is_refused_by_name():
    rows_of_ones = [torch.ones(2, 3, device="opencl"), torch.ones(3, 3, device="opencl")]
    strided = torch.nested.as_nested_tensor(rows_of_ones)
    expected = "mul.Tensor: nested tensors on 'opencl' are of the jagged layout.*layout=torch.jag"
    with pytest.raises(cp.DeviceError, match=expected):
        strided * 2
    with pytest.raises(cp.DeviceError, match="_to_copy: nested tensors"):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to("opencl")
