"""FlexAttention on the device: functions of scores, masks and gradients beside a plain formula."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention.flex_attention import AuxRequest, create_block_mask  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention as flex  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unoptimised", "device"),
    pytest.mark.filterwarnings("ignore"),
]
QUERIES, KEYS = 9, 13
SLOPES = torch.tensor([0.5, -1.0, 2.0, 0.25])
PARTS = torch.arange(KEYS) // 5


def some(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def plain(q, k, v, score, mask):
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    places = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
    scores = score(scores, *places) if score else scores
    scores = scores.masked_fill(~mask(*places), -torch.inf) if mask else scores
    sums = scores.logsumexp(-1)
    shares = scores.softmax(-1).masked_fill(sums.isinf()[..., None], 0)
    return shares @ v, sums


def on_device(q, k, v, score, mask):
    if mask:
        mask = create_block_mask(mask, None, None, q.shape[2], k.shape[2], device=q.device)
    shared = q.shape[1] != k.shape[1]
    options = {"score_mod": score, "block_mask": mask, "enable_gqa": shared}
    found, more = flex(q, k, v, **options, return_aux=AuxRequest(lse=True))
    return found, more.lse


def rules(name, where):
    """A function of scores, one of places, and what the first takes a gradient of."""
    slopes = SLOPES.clone().to(where).requires_grad_()
    parts = PARTS.to(where)
    found = {
        "none": (None, None),
        "causal": (None, lambda b, h, i, j: i >= j),
        "slopes": (lambda s, b, h, i, j: s * slopes[h] - (i - j).abs(), None),
        "parts": (lambda s, b, h, i, j: torch.tanh(s), lambda b, h, i, j: parts[i] == parts[j]),
        "a row of nothing": (None, lambda b, h, i, j: i != 2),
    }
    return found[name], [slopes] if name == "slopes" else []


def computed(run, name, heads, where):
    given = [some(2, 4, QUERIES, 16), some(2, heads, KEYS, 16), some(2, heads, KEYS, 8)]
    given = [x.to(where).requires_grad_() for x in given]
    functions, more = rules(name, where)
    y, sums = run(*given, *functions)
    finite = sums.masked_fill(sums.isinf(), 0)
    (y.square().sum() + finite.sum()).backward()
    return [x.detach().cpu() for x in (y, finite, *(x.grad for x in (*given, *more)))]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("name", ["none", "causal", "slopes", "parts", "a row of nothing"])
def test_it_is_what_the_formula_says(name, heads, compiled):
    torch.compiler.reset()
    run = torch.compile(on_device, backend="clprim") if compiled else on_device
    found, expected = computed(run, name, heads, "opencl"), computed(plain, name, heads, "cpu")
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_lowers_queries_keys_and_values(compiled):
    def attend(x):
        return flex(x, x, x, score_mod=lambda s, b, h, i, j: s - (i - j).abs())

    torch.compiler.reset()
    x = some(1, 2, 8, 16)
    run = torch.compile(attend, backend="clprim") if compiled else attend
    with torch.autocast("opencl", dtype=torch.float16):
        found = run(x.to("opencl"))
    assert found.dtype is torch.float16
    torch.testing.assert_close(found.float().cpu(), attend(x), rtol=1e-2, atol=1e-2)


def test_its_graph_comes_back_from_the_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    found = []
    for _ in range(2):
        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()
        run = torch.compile(on_device, backend="clprim")
        found.append(computed(run, "causal", 4, "opencl"))
    assert torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"] == 1
    torch.testing.assert_close(*found, rtol=0, atol=0)
