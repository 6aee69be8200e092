"""Reductions over pairs beside our own products, PyTorch, KeOps and SciPy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import clprim as cp
from bench.case import Call, Case, Data, Make, Options, Page, marked, normal
from clprim import ops

GAUSS = "exp(-d2 * w0)"
#: The width of a Gaussian, over the dimensions, so that sums are of ordinary numbers.
WIDTH = 0.25
_START = "reduce_y0 = -INFINITY;"
# Expression, start, step.
STRINGS = {
    "L1": ("y0 = fabs(x0 - x1);", "reduce_y0 = 0;", "reduce_y0 += y0;"),
    "max-plus, by a comparison": (
        "y0 = x0 + x1;", _START, "reduce_y0 = y0 > reduce_y0 ? y0 : reduce_y0;",
    ),
    "max-plus, by fmax": ("y0 = x0 + x1;", _START, "reduce_y0 = fmax(reduce_y0, y0);"),
}  # fmt: skip
#: A mean of x1 by exponentials of x0, whose largest is kept aside.
SOFTMAX = {
    "expr": "y0 = x0; y1 = x1;",
    "init": "reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;",
    "step": "typeof_y0 m = max(reduce_y0, y0), f = exp(reduce_y0 - m), e = exp(y0 - m);"
    " reduce_y1 = reduce_y1 * f + e; reduce_y2 = reduce_y2 * f + e * y1; reduce_y0 = m;",
    "combine": "typeof_reduce_y0 m = max(reduce_y0, other_y0);"
    " typeof_reduce_y0 f = exp(reduce_y0 - m), e = exp(other_y0 - m);"
    " reduce_y1 = reduce_y1 * f + other_y1 * e; reduce_y2 = reduce_y2 * f + other_y2 * e;"
    " reduce_y0 = m;",
    "finalize": "y0 = reduce_y2 / reduce_y1;",
}


def _points(*shapes: tuple[int, ...]) -> Data:
    return Data(*(normal(shape, seed=n) for n, shape in enumerate(shapes)))


def _case(
    group: str, title: str, terms: int, shapes: list[tuple[int, ...]], makers: dict[str, Make],
    tolerance: float | None = 1e-3,
) -> Case:  # fmt: skip
    data = partial(_points, *shapes)
    return Case(group, title, terms / 1e9, data, makers, tolerance=tolerance)


def _distances(p: float, data: Data) -> Call:
    import torch

    return partial(torch.cdist, *data.torch, p)


def _products(quick: bool) -> Iterator[Case]:
    """Products of strings beside our own of numbers, and PyTorch's distances."""
    shapes = [(64, 64, 48)] if quick else [(512, 512, 512), (1024, 1024, 128), (2048, 2048, 128)]
    for m, n, k in shapes:
        for name, (expr, init, step) in STRINGS.items():

            def own(data: Data, told: tuple[str, str, str] = (expr, init, step)) -> Call:
                x, y = data.device
                operator = cp.Reduction(told[0], init=told[1], step=told[2])
                return partial(operator, x[:, None], y[None], axis=2)

            def product(data: Data) -> Call:  # something else of the same size
                return marked(partial(ops.matmul, *data.device, transpose_b=True), differs=True)

            makers: dict[str, Make] = {"clprim": own, "our matmul": product}
            if name == "L1":
                makers["PyTorch"] = partial(_distances, 1.0)
            title = f"{name}, {m} × {n} × {k}"
            yield _case("Products of strings", title, m * n * k, [(m, k), (n, k)], makers)


def _kernel_sums(quick: bool) -> Iterator[Case]:
    """Gaussian sums and their gradients, beside KeOps."""
    count = 200 if quick else 8192
    for depth in (3, 64):
        width, shapes = WIDTH / depth, [(count, depth), (count, depth), (count,), (count,)]
        title = f"Gaussian sum, {count} × {count}, {depth} dimensions"
        for what, backward in ((title, False), ("its gradients, {} dimensions", True)):
            makers: dict[str, Make] = {
                "clprim": partial(_kernel_sum, width, backward),
                "KeOps": partial(_keops, width, backward),
            }
            terms = count * count * depth
            yield _case("Kernel sums", what.format(depth), terms, shapes, makers)


def _kernel_sum(width: float, backward: bool, data: Data) -> Call:
    x, y, b, g = data.device
    both = (x, y, b, GAUSS, width)
    return (
        partial(ops.kernel_sum_backward, g, *both) if backward else partial(ops.kernel_sum, *both)
    )


def _keops(width: float, backward: bool, data: Data) -> Call:
    import torch
    from pykeops.torch import LazyTensor

    x, y, b, g = (t.requires_grad_() for t in data.torch)

    def summed(x: Any, y: Any, b: Any) -> Any:
        squares = ((LazyTensor(x[:, None]) - LazyTensor(y[None])) ** 2).sum(-1)
        return (-squares * width).exp() @ b[:, None]

    if not backward:
        return partial(summed, x.detach(), y.detach(), b.detach())
    result, handed = summed(x, y, b), g.detach()[:, None]
    return partial(torch.autograd.grad, result, (x, y, b), handed, retain_graph=True)


def _nearest(quick: bool) -> Iterator[Case]:
    """Nearest neighbours, beside PyTorch and SciPy; equal distances may have any order."""
    count, depth = (300, 16) if quick else (10_000, 128)
    for k in (1, 16):

        def theirs(data: Data, k: int = k) -> Call:
            import torch

            distances = _distances(2.0, data)
            if k == 1:
                return lambda: distances().min(1)
            return lambda: torch.topk(distances(), k, largest=False)

        def scipy(data: Data) -> Call:
            from scipy.spatial.distance import cdist

            return lambda: cdist(*data.host).argmin(1)

        makers: dict[str, Make] = {
            "clprim": lambda data, k=k: partial(ops.nearest, *data.device, k),
            "PyTorch": theirs,
        }
        if k == 1 and count < 1000:
            makers["SciPy"] = scipy
        title, shapes = f"{k} nearest of {count}, {depth} dimensions", [(count, depth)] * 2
        yield _case("Nearest points", title, count * count * depth, shapes, makers, None)


def _attention(quick: bool) -> Iterator[Case]:
    """Attention with a string for its scores, beside our own without one."""
    for count, depth in ((40, 8),) if quick else ((1024, 64), (2048, 128)):

        def own(data: Data, scale: float = depth**-0.5) -> Call:
            q, k, v = data.device
            product = cp.Reduction("y0 = x0 * x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
            operator = cp.Pairs(inner=product, expr="y0 = d * w0;", outer=cp.Reduction(**SOFTMAX))
            return partial(operator, q[:, :, None], k[:, None], v[:, None], scale)

        makers: dict[str, Make] = {
            "clprim": own,
            "our attention": lambda data: partial(ops.scaled_dot_product_attention, *data.device),
        }
        title = f"attention, 8 heads, {count} × {count} × {depth}"
        terms, shapes = 8 * count * count * 2 * depth, [(8, count, depth)] * 3
        yield _case("Attention with a score string", title, terms, shapes, makers)


def pairs_cases(args: Options) -> list[Case]:
    kinds = (_products, _kernel_sums, _nearest, _attention)
    return [case for kind in kinds for case in kind(args.quick)]


PAGES = {
    "pairs": Page(
        "Reductions over pairs: next to our products, PyTorch, KeOps and SciPy", "G terms/s",
        pairs_cases, (),
        "A term is one element of one pair. `ops.nearest` and `ops.kernel_sum` store nothing of "
        "the size of all pairs; PyTorch's distances are.", keep=False,
    )
}  # fmt: skip
