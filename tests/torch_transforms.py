"""What `torch.func` makes of PyTorch's own samples (OpInfo): the device against the CPU in float64.

``python tests/torch_transforms.py`` runs jacrev, jacfwd, hessian and vmap of one small sample of
every operator that is differentiable and prints what differs; ``--only`` and ``--part 2/5`` run
some. It takes the package expecttest.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from contextlib import nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch_conformance import dense, operators, tensors

import clprim.torch as ct
from clprim import DTypeError

MOST = 150  # elements of a sample's tensors together, of those that are tried first
EPS = torch.finfo(torch.float32).eps


def sample_of(op):
    """The smallest of an operator's first samples that has floats to differentiate, or None."""
    torch.manual_seed(0)
    found = []
    for _, sample in zip(range(12), op.sample_inputs("cpu", torch.float32), strict=False):
        if not dense(sample):
            continue
        flat, form = tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        sizes = [t.numel() for t in flat if isinstance(t, torch.Tensor)]
        leaves = [is_leaf(t) for t in flat]
        # Differences of large numbers would say more of rounding than of formulas.
        modest = all(t.abs().max() < 100 for t in flat if is_leaf(t) and t.numel())
        if any(leaves) and all(sizes) and modest:
            found.append((sum(sizes), len(found), flat, form))
        if found and min(found)[0] <= MOST:
            break
    return min(found)[2:] if found else None


def is_leaf(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def results(tree):
    """All floats of a result as one line."""
    return torch.cat([t.reshape(-1) for t in tensors(tree) if t.is_floating_point()])


def transformed(op, flat, form, device, kind):
    """The four transforms of an operator's sample, and their arguments."""
    given = [v.to(device) if isinstance(v, torch.Tensor) else v for v in flat]
    places = [n for n, v in enumerate(flat) if is_leaf(v)]
    leaves = [given[n].detach().to(kind) for n in places]

    def function(*values):
        whole = list(given)
        for n, value in zip(places, values, strict=True):
            whole[n] = value
        x, args, options = tree_unflatten(whole, form)
        return results(op(x, *args, **options))

    def squared(*values):
        return function(*values).square().sum()

    func, numbers = torch.func, tuple(range(len(leaves)))
    # A batch of three, the last dimension of every other argument.
    dims = tuple(-1 if n % 2 else 0 for n in numbers)
    batch = [torch.stack([x, x * 0.5, x * 0.75], d) for x, d in zip(leaves, dims, strict=True)]
    return {
        "jacrev": (func.jacrev(function, numbers), leaves),
        "rows": (func.jacrev(function, numbers, chunk_size=1), leaves),
        "jacfwd": (func.jacfwd(function, numbers), leaves),
        "hessian": (func.hessian(squared, numbers), leaves),
        "vmap": (func.vmap(function, dims), batch),
    }


def compare(op, say=lambda line: None):
    """Counts transforms of a sample that are right and those that the CPU has not; and problems."""
    counts, problems = Counter(), []
    sample = sample_of(op)
    if sample is None:
        return counts, problems
    kinds = torch.float64, torch.float32
    exact, rounded = (transformed(op, *sample, "cpu", kind) for kind in kinds)
    ours = transformed(op, *sample, "opencl", torch.float32)
    rows = exact.pop("rows")
    for name in exact:
        try:
            wanted, near = (tensors(t[name][0](*t[name][1])) for t in (exact, rounded))
            if name == "jacrev":  # some of PyTorch's rules for many gradients at once are wrong
                torch.testing.assert_close(wanted, tensors(rows[0](*rows[1])), equal_nan=True)
        except Exception:  # the CPU has it not, or not right
            counts["left out"] += 1
            continue
        start = time.perf_counter()
        # Nobody has tangents of attention as one operator.
        how = sdpa_kernel(SDPBackend.MATH) if name in ("jacfwd", "hessian") else nullcontext()
        try:
            with how:
                found = [t.cpu().double() for t in tensors(ours[name][0](*ours[name][1]))]
            for got, want, other in zip(found, wanted, near, strict=True):
                check(got, want.detach(), other.detach().double())
            counts["right"] += 1
        except Exception as error:  # any at all is an outcome
            if isinstance(error, DTypeError) and "torch.complex" in str(error):
                counts["left out"] += 1  # the device has no complex tensors
                continue
            words = " ".join(str(error).split())
            problems.append(f"{name}: {type(error).__name__}: {words[:300]}")
        say(f"{name} {time.perf_counter() - start:.2f}")
    return counts, problems


def check(got, want, other):
    """Raises where a result is further off than float32 and the CPU's own rounding explain."""
    want = want.double()
    error = (other - want).abs().nan_to_num(0, 0, 0).max() if want.numel() else 0
    scale = want.abs().nan_to_num(0, 0, 0).max() if want.numel() else 0
    allowed = 8 * float(error) + 64 * EPS * float(scale)
    torch.testing.assert_close(got, want, rtol=0, atol=allowed, equal_nan=True)


def differentiable():
    """PyTorch's operators that have gradients, by name."""
    return [(name, op) for name, op in operators(torch.float32) if op.supports_autograd]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the operators' names")
    parser.add_argument("--part", default="1/1", help="as 2/5, every fifth from the second on")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ct.fallback("silent")
    which, parts = map(int, given.part.split("/"))
    total, wrong = Counter(), 0
    for name, op in [o for o in differentiable() if given.only in o[0]][which - 1 :: parts]:
        times = []
        counts, problems = compare(op, times.append)
        total.update(counts)
        wrong += len(problems)
        if problems or sum(float(t.split()[1]) for t in times) > 3:
            print(name, dict(counts), *times, flush=True)
        for problem in problems:
            print("   ", problem, flush=True)
    print(dict(total), wrong, "wrong")


if __name__ == "__main__":
    main()
