"""PyTorch's own samples (OpInfo) on the device: results and gradients against those of the CPU.

``python tests/torch_conformance.py`` runs all of them and prints a table; ``--compiled`` runs them
under ``torch.compile(backend="clprim")``, ``--draw 100`` that many operators, drawn at random. It
takes the package expecttest.
"""

from __future__ import annotations

import argparse
import random
import re
import textwrap
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch_networks import PAGE, recordings, write

import clprim.torch as ct
from clprim import DTypeError
from clprim.torch import on_cpu

TOLERANCES = {
    torch.float32: (2e-5, 2e-5),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.complex64: (2e-5, 2e-5),
}
# What depends on more than the arguments, is about devices, or returns what is not initialised.
LEFT_OUT = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential",
    "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal",
    "rand_like",
    "randint", "randint_like", "randn", "randn_like", "to", "uniform", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.multi_head_attention_forward",
    "nn.functional.fractional_max_pool3d", "pca_lowrank", "svd_lowrank",
    "tensor_split", "to_sparse", "jiterator_unary", "jiterator_binary",
    "jiterator_4inputs_with_extra_args", "jiterator_binary_return_by_ref",
    "jiterator_2inputs_2outputs",
}  # fmt: skip


# Families that the device leaves to the CPU: decompositions of matrices and PyTorch's rarer special
# functions (Bessel's of other kinds, polynomials of a name).
BEYOND = re.compile(
    r"(linalg\.|special\.|cholesky|lu|qr$|svd|geqrf|ormqr|triangular_solve|logdet|pinverse"
    r"|matrix_exp|norm\.nuc|hash_tensor|to_sparse|sparse|igamma)"
)


@dataclass
class Outcome:
    """What came of an operator's samples.

    ``counts`` has ``right``, ``wrong``, ``refused`` (complex32 results, which the device has not),
    ``ours``, right with nothing run on the CPU, and ``graphs``, those that were compiled; of
    arguments that PyTorch refuses, ``errors``, and ``caught``, those that the device refuses too.
    """

    counts: Counter = field(default_factory=Counter)
    fallbacks: Counter = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def dense(sample):
    """Whether a sample has no sparse tensors, which the device has not."""
    return all(t.layout is torch.strided for t in tensors((sample.input, sample.args)))


def leaves(tree, device):
    """The arguments with tensors of their own on a device."""

    def leaf(value):
        if isinstance(value, torch.Tensor):
            return value.detach().clone().to(device).requires_grad_(value.requires_grad)
        return value

    return tree_map(leaf, tree)


# PyTorch promises no order of equal elements, and says of no position which of them it is. The
# numbers are the places of the dimension among the arguments that follow the input.
TIES = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1}
# Their second and third results are for the gradient alone, and their dtype is not defined: the
# CPU's is the weights' or, without any, the input's, CUDA's and Meta's is float32 for some.
STATISTICS = {
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
    "_batch_norm_with_update",
}  # fmt: skip


def defined(op, arguments, results):
    """The results as PyTorch defines them: instead of positions the elements that lie there."""
    if op.name not in TIES:
        return results
    x, positional, named = arguments
    found = [t.detach().cpu() for t in tensors(results)]
    x, place = x.detach().cpu(), TIES[op.name]
    if place is not None and x.ndim:
        dim = positional[place] if len(positional) > place else named.get("dim", -1)
        places = found[-1]
        found[-1] = x.gather(dim, places if places.ndim == x.ndim else places.unsqueeze(dim))
    return found


def gradients(op, results, arguments, seed, dtype):
    """Those of random gradients of a dtype of the results."""
    outputs = [t for t in tensors(results) if t.requires_grad]
    inputs = [t for t in tensors(arguments) if t.requires_grad]
    if not outputs or not inputs:
        return []
    torch.manual_seed(seed)
    given = [random_like(t, dtype) for t in outputs]
    found = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
    # Of equal elements any may have got it.
    return [t.flatten().sort()[0] if op.name in TIES else t for t in found if t is not None]


def random_like(result, dtype):
    """A random gradient of a result, as exact as a dtype of floats is."""
    if result.is_complex():
        return torch.randn(result.shape, dtype=torch.complex64).to(result.device, result.dtype)
    found = torch.randn(result.shape)
    return (found if dtype.is_complex else found.to(dtype)).to(result.device, result.dtype)


def compiled_of(op):
    """The operator under `torch.compile`."""
    torch.compiler.reset()
    function = op.op

    def call(*args, **options):
        return function(*args, **options)

    return torch.compile(call, backend="clprim")


def lies_as(found, wanted):
    """Raises where results lie otherwise than those of the operator that is not compiled."""
    for a, b in zip(tensors(found), tensors(wanted), strict=True):
        assert a.stride() == b.stride(), f"strides {a.stride()}, expected {b.stride()}"


def run(op, dtype, most, strided=False, errors=False, compiled=False):
    """Runs an operator's first samples of a dtype on the CPU and on the device.

    Args:
        op: PyTorch's description of it.
        dtype: Of the samples.
        most: How many samples.
        strided: Whether the first one is run with gaps between its elements too.
        errors: Whether arguments are tried that PyTorch refuses.
        compiled: Whether the device's results are those of a compiled function.
    """
    outcome = Outcome()
    call = compiled_of(op) if compiled else op
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    # Whole numbers may become float32 ones.
    rtol, atol = TOLERANCES.get(dtype, TOLERANCES[torch.float32])
    samples = [sample for _, sample in zip(range(most), samples, strict=False)]
    samples = [sample for sample in samples if dense(sample)]
    if strided and samples and tensors(samples[0].input):
        samples.append(samples[0].noncontiguous())
    for sample in samples:
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        host = leaves(arguments, "cpu")
        try:
            expected = op(host[0], *host[1], **host[2])
            slopes = gradients(op, expected, host, 1, dtype)
        except (RuntimeError, NotImplementedError):
            continue  # the CPU cannot
        on_cpu.counts.clear()
        result = "right"
        try:
            device = leaves(arguments, "opencl")
            found = call(device[0], *device[1], **device[2])
            if compiled:
                again = leaves(arguments, "opencl")
                lies_as(found, op(again[0], *again[1], **again[2]))
            ours = gradients(op, found, device, 1, dtype)
            results = defined(op, device, found), defined(op, host, expected)
            for got, want, slack in ((*results, 1), (ours, slopes, 5)):
                given = [t.detach().cpu() for t in tensors(got)]
                how = {"rtol": slack * rtol, "atol": slack * atol, "equal_nan": True}
                how["check_dtype"] = op.name not in STATISTICS
                try:
                    torch.testing.assert_close(given, [t.detach() for t in tensors(want)], **how)
                except AssertionError:
                    # The CPU's rounding may be the one that is off: float64 decides.
                    if dtype not in TOLERANCES or [t.dtype for t in given] != [
                        t.dtype for t in tensors(want)
                    ]:
                        raise
                    exact = exactly(op, arguments, dtype, slopes=slack == 5)
                    torch.testing.assert_close([widened(t) for t in given], exact, **how)
        except Exception as error:  # any at all is an outcome
            complex_ = "torch.complex" in str(error) and isinstance(error, DTypeError)
            result = "refused" if complex_ else "wrong"
            outcome.problems.append(f"{type(error).__name__}: {str(error)[:200]}")
        outcome.counts[result] += 1
        outcome.counts["ours"] += result == "right" and not on_cpu.counts
        outcome.fallbacks.update(on_cpu.counts)
    if errors and op.error_inputs_func is not None:
        refusals(op, outcome)
    return outcome


def widened(value):
    """A tensor in float64, or in complex128."""
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def exactly(op, arguments, dtype, slopes):
    """The results or gradients in float64, on the CPU."""

    def wide(value):
        if isinstance(value, torch.Tensor) and value.dtype is dtype:
            return widened(value.detach()).requires_grad_(value.requires_grad)
        return value

    host = leaves(tree_map(wide, arguments), "cpu")
    found = op(host[0], *host[1], **host[2])
    wanted = gradients(op, found, host, 1, dtype) if slopes else defined(op, host, found)
    return [widened(t.detach()) for t in tensors(wanted)]


def refusals(op, outcome):
    """Counts arguments that PyTorch refuses, and those among them that the device refuses too."""
    for bad in op.error_inputs("cpu"):
        sample = bad.sample_input
        try:
            device = leaves((sample.input, tuple(sample.args), dict(sample.kwargs)), "opencl")
        except (DTypeError, NotImplementedError, ValueError):
            continue  # complex, or without data
        try:
            host = leaves((sample.input, tuple(sample.args), dict(sample.kwargs)), "cpu")
            op(host[0], *host[1], **host[2])
        except Exception:  # as it should be
            pass
        else:
            continue  # refused by something else than the operator
        outcome.counts["errors"] += 1
        try:
            op(device[0], *device[1], **device[2])
        except Exception:  # words are the device's own
            outcome.counts["caught"] += 1
        else:
            outcome.problems.append(f"not refused: {bad.error_regex[:150]}")


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
    parser.add_argument("--after", default="", help="begin after this operator")
    parser.add_argument("--compiled", action="store_true", help="under torch.compile")
    parser.add_argument("--draw", type=int, help="as many operators, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--write", action="store_true", help="put the numbers into docs/torch.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ct.fallback("silent")
    dtype, total, families = getattr(torch, given.dtype), Counter(), Counter()
    rows, reached = [], not given.after
    found = [o for o in operators(dtype) if given.only in o[0]]
    if given.draw is not None:
        drawn = random.Random(given.seed).sample(range(len(found)), min(given.draw, len(found)))
        found = [found[n] for n in sorted(drawn)]
    print("| operator | samples | right | on the device | refused | errors | on the CPU | graphs |")
    print("|---|---|---|---|---|---|---|---|")
    for name, op in found:
        reached, skipped = reached or name == given.after, not reached
        if skipped or name == given.after:
            continue
        told = {"compiled": True} if given.compiled else {"strided": True, "errors": True}
        with recordings() as graphs:
            outcome = run(op, dtype, given.most, **told)
        outcome.counts["graphs"] = len(graphs)
        counts = outcome.counts
        total.update(counts)
        families["operators"] += 1
        families["whole"] += not outcome.fallbacks and not counts["wrong"] and counts["ours"] > 0
        samples = counts["right"] + counts["wrong"]
        missing = ", ".join(sorted(n.removesuffix(".default") for n in outcome.fallbacks))
        cells = (name, samples, counts["right"], counts["ours"], counts["refused"])
        rows.append(
            f"| {' | '.join(map(str, cells))} | {counts['caught']}/{counts['errors']} | {missing} "
            f"| {counts['graphs']} |"
        )
        print(rows[-1], flush=True)
        for problem in outcome.problems[:3]:
            print(f"<!-- {problem} -->".replace("\n", " "))
    print(families, total)
    if given.write:
        name = "operators compiled" if given.compiled else f"operators in {given.dtype}"
        text = compiled_summary if given.compiled else summary
        write(PAGE, name, text(dtype, given.most, rows))


def summary(dtype, most, rows):
    """The lines of docs/torch.md: totals, and the operators that run on the CPU in part."""
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    named = [cells for cells in table if not BEYOND.match(cells[0])]

    def total(cells, n):
        return sum(int(row[n]) for row in cells)

    caught, errors = (sum(int(cells[5].split("/")[n]) for cells in table) for n in (0, 1))
    share = 100 * total(named, 3) / total(named, 1)
    text = (
        f"{str(dtype).removeprefix('torch.')}, up to {most + 1} samples an operator: "
        f"{len(table)} operators, {total(table, 1)} samples, {total(table, 2)} right, "
        f"{total(table, 3)} of them with nothing run on the CPU. Without decompositions of "
        "matrices and rarer special functions: "
        f"{len(named)} operators, {total(named, 1)} samples, {total(named, 3)} ({share:.1f} %) "
        f"with nothing run on the CPU. {caught} of {errors} calls that PyTorch refuses are refused."
    )
    lines = [text]
    for start, cells in (
        ("Run in part on the CPU: ", [c[0] for c in named if c[6]]),
        ("Of the families left out: ", [c[0] for c in table if c[6] and c not in named]),
        ("Not right: ", [c[0] for c in table if int(c[1]) > int(c[2])]),
    ):
        if cells:
            lines += ["", start + ", ".join(f"`{name}`" for name in cells) + "."]
    return [part for line in lines for part in textwrap.wrap(line, 100) or [""]]


def compiled_summary(dtype, most, rows):
    """The lines of docs/torch.md about operators under `torch.compile`."""
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    samples, right, graphs = (sum(int(row[n]) for row in table) for n in (1, 2, 7))
    text = (
        f"{str(dtype).removeprefix('torch.')}, up to {most} samples an operator, under "
        f'`torch.compile(backend="clprim")`: {len(table)} operators, {samples} samples, {right} '
        f"with the results, gradients and strides of the operator; {graphs} graphs were compiled."
    )
    bad = [row[0] for row in table if int(row[1]) > int(row[2])]
    if bad:
        text += " Not right: " + ", ".join(f"`{name}`" for name in bad) + "."
    return textwrap.wrap(text, 100)


if __name__ == "__main__":
    main()
