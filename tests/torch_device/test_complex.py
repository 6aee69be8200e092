"""Complex tensors: results and gradients beside the CPU's."""

import copy
import io
import warnings

import pytest

torch = pytest.importorskip("torch")

import clprim as cp  # noqa: E402
import clprim.torch as ct  # noqa: E402

pytestmark = pytest.mark.usefixtures("strict")


def numbers(*shape, dtype=torch.complex64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def agree(function, *given, tolerance=1e-5):
    """Compares what a function makes of tensors on the device and on the CPU."""
    wanted, found = function(*given), function(*[t.to("opencl") for t in given])
    leaves = torch.utils._pytree.tree_leaves
    for pair in zip(leaves(found), leaves(wanted), strict=True):
        a, b = (t.detach().cpu().resolve_conj().resolve_neg() for t in pair)
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def slopes(function):
    """Makes of a function that of its gradients."""

    def run(*given):
        leaves = [t.detach().clone().requires_grad_() for t in given]
        result = function(*leaves)
        weights = numbers(*result.shape, seed=3).to(result.device)
        (result * weights).sum().abs().backward()
        return [t.grad for t in leaves if t.grad is not None]

    return run


Z, W, R = numbers(3, 4), numbers(3, 4, seed=1), numbers(3, 4, dtype=torch.float32)
AT = torch.tensor([2, 0, 1])
# Differentiated as well.
SMOOTH = {
    "mul": lambda z, w, r: z * w.conj() - z,
    "real": lambda z, w, r: z * r + 2j * r,
    "div": lambda z, w, r: z / w + 1j / z,
    "pow": lambda z, w, r: z**w + z**2 + z**0.5,
    "functions": lambda z, w, r: z.exp() + z.log() + z.sqrt() + z.reciprocal() + z.rsqrt(),
    "circular": lambda z, w, r: z.sin() + z.cos() + z.tan() + z.sinh() + z.cosh(),
    "of results": lambda z, w, r: z.tanh() + torch.sigmoid(w) + torch.log2(z) + torch.log10(w),
    "inverse": lambda z, w, r: z.asin() + z.acos() + w.atan() + w.asinh() + z.acosh() + z.atanh(),
    "near 0": lambda z, w, r: z.expm1() + w.log1p() + torch.sinc(z) + z.exp2(),
    "parts": lambda z, w, r: torch.complex(z.real * w.imag, z.abs() + w.angle()),
    "imag of conj": lambda z, w, r: z.conj().imag + w.mH.mT.real,
    "sgn": lambda z, w, r: z.sgn() + torch.polar(r.abs(), r),
    "pairs": lambda z, w, r: torch.view_as_complex(torch.view_as_real(z) * 2),
    "sums": lambda z, w, r: z.sum(0) + z.mean(0) + w.prod(0) + z.var(0),
    "scans": lambda z, w, r: z.cumsum(1) + w.cumprod(0),
    "norms": lambda z, w, r: torch.linalg.vector_norm(z, 2, 1) + torch.linalg.vector_norm(w, 3, 1),
    "where": lambda z, w, r: torch.where(r > 0, z, w).masked_fill(r > 1, 1j),
    "joined": lambda z, w, r: torch.cat([z, w, r]) + torch.stack([w, z, w]).flatten(0, 1),
    "read": lambda z, w, r: z[AT.to(z.device)] + w.gather(1, AT[:, None].to(w.device)),
    "products": lambda z, w, r: z @ w.mH + torch.addmm(z @ w.mT, z, w.mH, beta=1j, alpha=2),
    "batches": lambda z, w, r: torch.baddbmm((z @ w.mT)[None], z[None], w.mH[None]),
    "mixed": lambda z, w, r: torch.einsum("bi,oi->bo", z, w) + torch.outer(z[0], w[1])[:3, :3],
    "dots": lambda z, w, r: torch.vdot(z[0], w[0]) * torch.dot(z[1].conj(), w[1]) + z @ w[0],
    "several": lambda z, w, r: torch.addcmul(z, w, z, value=2j) + torch.addcdiv(z, z, w),
    "lerp": lambda z, w, r: torch.lerp(z, w, 0.3) + torch.add(z, w, alpha=2j),
    "turned": lambda z, w, r: z.flip(0) + w.roll(1, 1) + z.tril() + w.mT.contiguous().mT,
}  # fmt: skip
OTHERS = {
    "compared": lambda z, w, r: [z == w, z != w, z == 1j, z.any(), (z * 0).all(), z.isnan()],
    "added": lambda z, w, r: z.index_add(0, AT.to(z.device), w),
    "copied": lambda z, w, r: z.index_copy(0, AT.to(z.device), w),
    "scattered": lambda z, w, r: [f(1, AT[:, None].to(z.device), w)
                                  for f in (z.scatter, z.scatter_add)],
    "put": lambda z, w, r: z.index_put((AT.to(z.device),), w, accumulate=True),
    "masks": lambda z, w, r: [z[r > 0], z.nonzero(), z.isinf(), z.isfinite(), z.logical_not()],
    "norms": lambda z, w, r: [torch.linalg.vector_norm(z, p) for p in (0, 1, float("inf"))],
    "padded": lambda z, w, r: torch.nn.functional.pad(z, (1, 2)),
    "double": lambda z, w, r: z.to(torch.complex128) * r.double(),
    "made": lambda z, w, r: [torch.full_like(z, 1 + 2j), torch.eye(2, dtype=z.dtype),
                             torch.linspace(0, 1j, 3, device=z.device), z.new_tensor([1, 1j])],
}  # fmt: skip


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", SMOOTH)
def test_results_and_gradients_agree(name):
    agree(SMOOTH[name], Z, W, R)
    agree(slopes(SMOOTH[name]), Z, W, R.abs() if name == "sgn" else R, tolerance=1e-4)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", OTHERS)
def test_results_agree(name):
    agree(OTHERS[name], Z, W, R)


def changed(change):
    def run(z, w, r):
        made = z.clone()
        change(made, w, r)
        return made

    return run


WRITES = [
    lambda z, w, r: z.mul_(w).add_(1j).div_(2).sub_(r),
    lambda z, w, r: z.conj().copy_(w),
    lambda z, w, r: z.conj().mul_(w),
    lambda z, w, r: z.real.mul_(r),
    lambda z, w, r: z.conj().imag.copy_(r),
    lambda z, w, r: z.imag.copy_(r),
    lambda z, w, r: z[:, :3].conj().addmm_(w, z.mT.clone()),
    lambda z, w, r: torch.view_as_real(z)[..., 1].fill_(2),
    lambda z, w, r: z.copy_(r),
    lambda z, w, r: z[0].zero_(),
    lambda z, w, r: torch.mm(z[:, :3], w[:, :3], out=z[:, 1:].conj()),
]


@pytest.mark.parametrize("change", WRITES, ids=range(len(WRITES)))
def test_what_is_written_through_views_agrees(change):
    agree(changed(change), Z, W, R)


def test_a_view_of_negatives_of_plain_floats_is_one():
    x = torch.tensor([1.0, -2.0], device="opencl")
    view = torch._neg_view(x)
    assert (view + 0).tolist() == [-1, 2]
    view.copy_(torch.tensor([5.0, 6.0]))
    assert x.tolist() == [-5, -6]


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_numbers_without_dimensions_promote_as_pytorch():
    z, x = Z.to("opencl"), R.to("opencl")
    assert (x * 1j).dtype == torch.complex64 and (x.double() + 1j).dtype == torch.complex128
    assert (z * torch.tensor(2.0, dtype=torch.float64)).dtype == torch.complex64
    assert (x * torch.tensor(1j, dtype=torch.complex128)).dtype == torch.complex64
    agree(lambda x: x * torch.tensor(2 + 1j), R)
    ct.fallback("silent")
    with pytest.raises(cp.DTypeError, match="complex32 cannot be on the device"):
        torch.mul(x.half(), 1j)


def test_conversion_to_real_numbers_warns_and_numbers_without_order_are_refused():
    z = Z.to("opencl")
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert torch.equal(z.to(torch.float32).cpu(), Z.real)
    ct.fallback("silent")
    with pytest.raises(RuntimeError, match=r"(?i)complex"):
        z < z  # noqa: B015
    with pytest.raises(RuntimeError, match=r"(?i)complex"):
        z.abs_()
    with pytest.raises(RuntimeError, match="no number of"):
        R.to("opencl").fill_(1j)


def test_what_strings_have_not_runs_on_the_cpu():
    with pytest.raises(cp.DeviceError, match=r"logsumexp.*no kernel"):
        Z.to("opencl").logsumexp(1)
    ct.fallback("silent")
    agree(slopes(lambda z: z.logsumexp(1) * 1j + z.logcumsumexp(1)[:, 0]), Z)


def test_printing_saving_and_copies():
    z = Z.to("opencl").conj()
    assert str(z.cpu()).splitlines()[0][:-1] in str(z)
    assert z.is_conj() and z[0, 0].item() == Z[0, 0].conj().item()
    file = io.BytesIO()
    torch.save({"z": z, "w": z.resolve_conj()}, file)
    for where in ("opencl", "cpu"):
        file.seek(0)
        found = torch.load(file, map_location=where)
        assert torch.equal(found["z"].cpu(), Z.conj()) and torch.equal(found["w"].cpu(), Z.conj())
    assert torch.equal(copy.deepcopy(z).cpu(), Z.conj())


def test_random_numbers_have_half_of_the_variance_in_each_part():
    torch.manual_seed(0)
    z = torch.randn(10_000, dtype=torch.complex64, device="opencl").cpu()
    assert abs(z.real.var() - 0.5) < 0.03 > abs(z.imag.var() - 0.5)
    assert abs((z.real * z.imag).mean()) < 0.02
    u = torch.rand(1000, dtype=torch.complex64, device="opencl").cpu()
    assert 0 <= u.real.min() < 0.05 and 0.95 < u.imag.max() < 1


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
@pytest.mark.parametrize("foreach", [False, True])
def test_optimizers_step(name, foreach):
    def train(z):
        p = z.clone().requires_grad_()
        optimizer = getattr(torch.optim, name)([p], lr=0.1, foreach=foreach)
        for _ in range(3):
            optimizer.zero_grad()
            (p - 1j).abs().square().sum().backward()
            optimizer.step()
        torch.nn.utils.clip_grad_norm_([p], 0.5)
        return p, p.grad

    agree(train, Z, tolerance=1e-4)


def test_a_string_of_complex_numbers_is_differentiated():
    own = ct.operator(cp.Pointwise("y0 = x0 * conj(x1) + 1i;"))
    agree(slopes(lambda z, w: own(z, w) if z.device.type == "opencl" else z * w.conj() + 1j), Z, W)


def test_a_linear_layer_of_complex_numbers():
    layer = torch.nn.Linear(4, 3, dtype=torch.complex64)

    def run(z):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = copy.deepcopy(layer).to(z.device)
        made(z).abs().sum().backward()
        return [p.grad for p in made.parameters()]

    agree(run, Z)
