"""Operators that networks need agree with the CPU on PyTorch's own samples."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import clprim.torch as ct  # noqa: E402

# By name; a few samples each, as each compiles kernels of its own.
NAMES = """
abs add addmm bmm cat clamp cumsum div.no_rounding_mode eq exp flip lerp log lt matmul
max.reduction_with_dim maximum mean mul neg pow rsqrt sigmoid sqrt stack std sub sum tanh tril
var where nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose2d
nn.functional.conv_transpose3d nn.functional.gelu
nn.functional.group_norm nn.functional.hardswish nn.functional.interpolate.bilinear
nn.functional.interpolate.nearest nn.functional.layer_norm nn.functional.linear
nn.functional.max_pool2d nn.functional.pad.constant softmax log_softmax
nn.functional.cross_entropy nn.functional.mse_loss sort scatter_add __getitem__
nn.functional.embedding nn.functional.prelu nn.functional.glu nn.functional.hardshrink
nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.pdist
nn.functional.max_unpool2d nn.functional.unfold grid_sampler_2d nn.functional.silu unfold
index_fill index_copy put unique isin bucketize repeat_interleave nanmedian
_upsample_bilinear2d_aa nn.functional.embedding_bag nn.functional.ctc_loss
_segment_reduce.lengths _segment_reduce.offsets mode unique_consecutive histogram histogramdd
renorm digamma special.zeta erfinv special.i1e frexp linspace eye
""".split()
# Of complex numbers, or with complex results.
COMPLEX = {
    torch.float32: "complex fft.fft2 fft.ihfftn fft.rfft polar stft view_as_complex",
    torch.complex64: """add addmm angle asin cumprod fft.fftn fft.hfft index_add istft
    linalg.vector_norm logcumsumexp matmul pow prod sgn vdot view_as_real where""",
}


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", NAMES)
def test_samples_agree(name, operators):
    check(operators[name], torch.float32)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, of frames without a window
@pytest.mark.parametrize(
    ("dtype", "name"), [(d, n) for d, names in COMPLEX.items() for n in names.split()]
)
def test_samples_with_complex_numbers_agree(dtype, name):
    from torch_conformance import operators

    check(dict(operators(dtype))[name], dtype, on_device=name != "logcumsumexp")


def check(operator, dtype, on_device=True):
    from torch_conformance import run

    ct.fallback("silent")
    try:
        outcome = run(operator, dtype, 2)
    finally:
        ct.fallback("warn")
    assert outcome.counts["right"] >= 1
    assert not outcome.problems
    assert bool(outcome.fallbacks) != on_device, operator.name
