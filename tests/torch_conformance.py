"""PyTorch's own samples (OpInfo) on the device: results and gradients against those of the CPU.

``python tests/torch_conformance.py`` runs all of them and prints a table. It takes the package
expecttest.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import tree_flatten, tree_map

import clprim.torch as ct
from clprim.torch import on_cpu

TOLERANCES = {
    torch.float32: (2e-5, 2e-5),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (2e-2, 2e-2),
}
# What depends on more than the arguments, is about devices, or returns what is not initialised.
LEFT_OUT = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential",
    "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal",
    "rand_like",
    "randint", "randint_like", "randn", "randn_like", "to", "uniform", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "pca_lowrank", "svd_lowrank",
}  # fmt: skip


@dataclass
class Outcome:
    """What came of an operator's samples: how many were right, wrong, and wholly on the device."""

    counts: Counter = field(default_factory=Counter)
    fallbacks: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def leaves(tree, device):
    """The arguments with tensors of their own on a device."""

    def leaf(value):
        if isinstance(value, torch.Tensor):
            return value.detach().clone().to(device).requires_grad_(value.requires_grad)
        return value

    return tree_map(leaf, tree)


def gradients(results, arguments, seed):
    outputs = [t for t in tensors(results) if t.requires_grad]
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    if not outputs or not inputs:
        return []
    torch.manual_seed(seed)
    given = [torch.randn(t.shape, dtype=t.dtype).to(t.device) for t in outputs]
    found = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
    return [t for t in found if t is not None]


def run(op, dtype, most):
    """Runs an operator's first samples of a dtype on the CPU and on the device."""
    outcome = Outcome()
    differentiable = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    rtol, atol = TOLERANCES.get(dtype, (0, 0))
    for _, sample in zip(range(most), samples, strict=False):
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        host = leaves(arguments, "cpu")
        try:
            expected = op(host[0], *host[1], **host[2])
            slopes = gradients(expected, host, 1)
        except (RuntimeError, NotImplementedError):
            continue  # the CPU cannot
        on_cpu.counts.clear()
        try:
            device = leaves(arguments, "opencl")
            found = op(device[0], *device[1], **device[2])
            ours = gradients(found, device, 1)
            for got, want, slack in ((found, expected, 1), (ours, slopes, 5)):
                torch.testing.assert_close(
                    [t.detach().cpu() for t in tensors(got)],
                    [t.detach() for t in tensors(want)],
                    rtol=slack * rtol, atol=slack * atol, equal_nan=True,
                )  # fmt: skip
            outcome.counts["right"] += 1
        except Exception as error:  # any at all is an outcome
            outcome.counts["wrong"] += 1
            outcome.problems.append(f"{type(error).__name__}: {str(error)[:200]}")
        if not on_cpu.counts:
            outcome.counts["ours"] += 1
        outcome.fallbacks.update(on_cpu.counts)
    return outcome


def operators(dtype):
    """PyTorch's operators that take a dtype and that a comparison says something of."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if op.name not in LEFT_OUT and dtype in op.supported_dtypes("cpu"):
            variant = f".{op.variant_test_name}" if op.variant_test_name else ""
            yield op.name + variant, op


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--most", type=int, default=10, help="samples of an operator")
    parser.add_argument("--only", default="", help="part of the operators' names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ct.fallback("silent")
    dtype, total = getattr(torch, given.dtype), Counter()
    print("| operator | samples | right | on the device | on the CPU |\n|---|---|---|---|---|")
    for name, op in operators(dtype):
        if given.only not in name:
            continue
        outcome = run(op, dtype, given.most)
        counts = outcome.counts
        total.update(counts)
        samples = counts["right"] + counts["wrong"]
        missing = ", ".join(sorted(outcome.fallbacks))
        print(
            f"| {name} | {samples} | {counts['right']} | {counts['ours']} | {missing} |", flush=True
        )
        for problem in outcome.problems[:2]:
            print(f"<!-- {problem} -->".replace("\n", " "))
    print(f"| all | {total['right'] + total['wrong']} | {total['right']} | {total['ours']} | |")


if __name__ == "__main__":
    main()
