"""`torch.linalg` on the device against the CPU: results, gradients, errors."""

import pytest

torch = pytest.importorskip("torch")

import clprim.torch  # noqa: E402, F401

D = "opencl"
L = torch.linalg


def drawn(*shape):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(shape, generator=generator)


A, B = drawn(3, 5, 5) + 3 * torch.eye(5), drawn(3, 5, 2)
P = A @ A.mT + torch.eye(5)
TALL = drawn(3, 7, 4)


def ordered(values):
    """Eigenvalues, which have no order, by their imaginary parts, as pairs."""
    order = torch.argsort((100 * values.imag + values.real).detach().cpu(), -1).to(values.device)
    return torch.view_as_real(torch.take_along_dim(values, order, -1))


CALLS = {
    "solve": (L.solve, A, B),
    "solve of rows": (lambda a, b: L.solve(a, b.mT, left=False), A, B),
    "solve of columns": (lambda a, b: L.solve(a.mT, b), A, B),
    "solve of a vector": (L.solve, A[0], B[0, :, 0]),
    "solve of vectors": (L.solve, A, B[..., 0]),
    "inv": (L.inv, A),
    "det": (L.det, A),
    "det of columns": (lambda a: L.det(a.mT), A),
    "slogdet": (L.slogdet, A),
    "logdet": (torch.logdet, P),
    "hessian of logdet": (lambda a: torch.func.hessian(torch.logdet)(a[0]), P),
    "cholesky": (L.cholesky, P),
    "upper cholesky": (lambda a: L.cholesky(a, upper=True), P),
    "old cholesky": (torch.cholesky, P),
    "cholesky_solve": (torch.cholesky_solve, B, L.cholesky(P)),
    "cholesky_inverse": (torch.cholesky_inverse, L.cholesky(P)),
    "solve_triangular": (lambda a, b: L.solve_triangular(a, b, upper=True), A, B),
    "unit rows": (
        lambda a, b: L.solve_triangular(a / 9, b.mT, upper=False, left=False, unitriangular=True),
        A,
        B,
    ),
    "triangular_solve": (lambda b, a: torch.triangular_solve(b, a, transpose=True)[0], B, A),
    "lu": (L.lu, A),
    "lu of tall": (L.lu, TALL),
    "lu_factor": (lambda a: L.lu_factor(a)[0], A),
    "lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), A, B),
    "adjoint lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b, adjoint=True), A, B),
    "lu_unpack": (lambda a: torch.lu_unpack(*L.lu_factor(a)), TALL),
    "lu_unpack of wide": (lambda a: torch.lu_unpack(*L.lu_factor(a)), TALL.mT.contiguous()),
    "qr": (L.qr, TALL),
    "r": (lambda a: L.qr(a, "r")[1].detach(), TALL),
    "eigvalsh": (L.eigvalsh, P),
    "eigh": (lambda a: [L.eigh(a)[0], L.eigh(a)[1] ** 2], P),
    "svdvals": (L.svdvals, TALL),
    "svd": (lambda a: [x**2 for x in L.svd(a, full_matrices=False)], TALL),
    "wide svd": (lambda a: [x**2 for x in L.svd(a, full_matrices=False)], TALL.mT),
    "pinv": (L.pinv, TALL),
    "matrix_rank": (L.matrix_rank, TALL),
    "matrix_norm": (lambda a: L.matrix_norm(a, "nuc"), TALL),
    "cond": (L.cond, A),
    "matrix_power": (lambda a: L.matrix_power(a, -2), A),
    "multi_dot": (lambda a: L.multi_dot([a[0], a[1], a[2]]), A),
    "tensorinv": (lambda a: L.tensorinv(a[0].reshape(5, 5), ind=1), A),
    "eigvals": (lambda a: ordered(L.eigvals(a)), A),
    "eig": (lambda a: [ordered(L.eig(a)[0]), (abs(L.eig(a)[1]) ** 4).sum()], A),
    "householder_product": (L.householder_product, *torch.geqrf(TALL)),
    "geqrf": (lambda a: torch.geqrf(a.detach()), TALL),
    "ormqr": (lambda a, t, c: torch.ormqr(a, t, c, transpose=True), *torch.geqrf(TALL), TALL),
    "ormqr of rows": (
        lambda a, t, c: torch.ormqr(a, t, c.mT, left=False),
        *torch.geqrf(TALL),
        TALL,
    ),
    "lstsq": (lambda a, b: L.lstsq(a, b)[0], TALL, TALL[..., :2]),
    "lstsq of wide": (lambda a, b: L.lstsq(a.mT, b)[0], TALL, TALL[:, :4, :2]),
    "all of lstsq": (
        lambda a, b: list(L.lstsq(a.detach(), b.detach(), driver="gelsd")),
        TALL,
        TALL[..., :2],
    ),
    "lstsq of vectors": (lambda a, b: list(L.lstsq(a.detach(), b.detach())), TALL, TALL[..., 0]),
    "inverse of large": (L.inv, P.new_tensor(0) + torch.eye(70) * 2),
}


def close(found, expected):
    several = isinstance(expected, (tuple, list))
    for one, other in zip(*((x if several else (x,)) for x in (found, expected)), strict=True):
        assert one.device.type == D
        torch.testing.assert_close(one.cpu(), other, rtol=2e-3, atol=2e-4)


@pytest.mark.filterwarnings("ignore:linalg.eig")
@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated", "ignore:torch.triangular_solve")
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients(device, name):
    call, *given = CALLS[name]

    def run(where):
        args = [x.to(where).detach().requires_grad_() for x in given]
        found = call(*args)
        several = found if isinstance(found, (tuple, list)) else (found,)
        graded = [x for x in several if x.requires_grad]
        weights = [torch.linspace(0.5, 1.5, x.numel()).reshape(x.shape).to(where) for x in graded]
        if graded:
            sum((x * w).sum() for x, w in zip(graded, weights, strict=True)).backward()
        return found, [x.grad for x in args if x.grad is not None]

    (found, grads), (expected, theirs) = run(D), run("cpu")
    close(found, expected)
    close(grads, theirs)


def test_errors_are_pytorchs(device):
    zero = torch.zeros(2, 3, 3)
    for call in (L.inv, L.cholesky, lambda x: L.solve(x, x), lambda x: L.inv(x[0])):
        messages = []
        for where in ("cpu", D):
            with pytest.raises(L.LinAlgError) as caught:
                call(zero.to(where))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
    for call in (L.eigh, L.svd):
        with pytest.raises(L.LinAlgError, match="converge"):
            call((zero + torch.nan).to(D))
    info = L.inv_ex(zero.to(D))[1]
    assert info.tolist() == [1, 1]
    assert L.det(zero.to(D)).tolist() == [0, 0]


def test_compiled(device):
    run = torch.compile(lambda a, b: L.solve(a, b) + L.cholesky(a @ a.mT + 1), backend="clprim")
    a, b = (x.to(D) for x in (A, drawn(3, 5, 5)))
    torch.testing.assert_close(run(a, b), L.solve(a, b) + L.cholesky(a @ a.mT + 1))
