"""Networks on the device: outputs and every parameter's gradient against the CPU in float64.

``python tests/torch_networks.py`` runs all of them in both memory formats and prints a table;
``--write`` puts it into docs/torch.md, where rows of other networks stay. ``--double`` runs them in
float64 as well, which compiles every kernel once more. ``--compiled`` compares
``torch.compile(model, backend="clprim")`` with the network on the device and with the CPU, in
training and inference. It takes torchvision, timm, transformers and diffusers for most.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_models import NETWORKS, Network, prepared

import clprim.torch as ct
from clprim.graph.graph import Node
from clprim.plan.strides import Operand
from clprim.torch import graphs, on_cpu

FORMATS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}
PAGE = Path(__file__).parents[1] / "docs" / "torch.md"
# The device's error may be this many times PyTorch's own in float32 (sums are in another order),
# or this large where both are about float32's rounding; gradients' may be larger.
TIMES, FLOOR, FLIPS = 8, 2e-5, 5e-2
# How far a compiled network may be from the network, and what float64 may differ by.
SAME = 1e-5
EXACT = 1e-9


def outputs_of(found):
    """The tensors that a network returned."""
    if isinstance(found, dict):
        found = tuple(found.values())
    return found if isinstance(found, tuple) else (found,)


def results(model, x, seed):
    """A model's outputs, and the gradients of all its parameters and of the input."""
    x = x.requires_grad_(x.is_floating_point())
    outputs = outputs_of(model(x))
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(t.shape, generator=generator).to(t) for t in outputs]
    loss = sum((t * w).sum() for t, w in zip(outputs, weights, strict=True))
    loss.backward()
    named = model.named_parameters()
    slopes = {name.removeprefix("_orig_mod."): p.grad for name, p in named} | {"input": x.grad}
    host = lambda t: None if t is None else t.detach().cpu().double()  # noqa: E731
    return [host(t) for t in outputs], {name: host(t) for name, t in slopes.items()}


def distance(found, expected):
    """The difference's norm over the norm, of several tensors as of one."""
    off = torch.stack([(f - e).norm() for f, e in zip(found, expected, strict=True)]).norm()
    return (off / torch.stack([e.norm() for e in expected]).norm()).item()


def errors(found, expected):
    """Errors of outputs and of the gradient as a whole, and the worst of a parameter's gradient.

    A parameter's is relative to its own norm or to a thousandth of the largest parameter's,
    whichever is larger: a gradient that is zero but for rounding says nothing.
    """
    (outputs, slopes), (right, exact) = found, expected
    assert {k for k, v in slopes.items() if v is None} == {k for k, v in exact.items() if v is None}
    names = [k for k, v in exact.items() if v is not None]
    least = 1e-3 * max(exact[k].norm().item() for k in names)
    each = {
        k: (slopes[k] - exact[k]).norm().item() / max(exact[k].norm().item(), least) for k in names
    }
    worst = max(each, key=each.get)
    return (
        distance(outputs, right),
        distance([slopes[k] for k in names], [exact[k] for k in names]),
        each[worst],
        worst,
    )


@dataclass(frozen=True)
class Outcome:
    """What came of a network in a memory format: errors as `errors` returns them."""

    float32: tuple[Any, ...]
    usual: tuple[Any, ...]
    float64: tuple[Any, ...] | None
    on_cpu: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the errors are those of rounding, and nothing ran on the CPU.

        In float32 a ReLU's or a maximum's input may round to the other side, which moves gradients
        by far more than rounding does; in float64 it does not happen.
        """
        pairs = zip(self.float32[:3], self.usual[:3], (FLOOR, FLIPS, FLIPS), strict=True)
        exact = self.float64 is None or max(self.float64[:3]) < EXACT
        return exact and not self.on_cpu and all(a <= max(c, TIMES * b) for a, b, c in pairs)


def compare(network: Network, formats=tuple(FORMATS), double=False):
    """Yields the outcome in each format, in float32 and, if asked for, in float64."""
    torch.manual_seed(0)
    model, x = prepared(network.make()).train(), network.input()
    formats = formats if len(network.shape) == 4 else formats[-1:]
    exact = results(copy.deepcopy(model).double(), in_kind(x, torch.float64), 1)
    usual = errors(results(copy.deepcopy(model), x.clone(), 1), exact)
    for name in formats:
        how = {"memory_format": FORMATS[name]} if x.ndim == 4 else {}
        on_cpu.counts.clear()
        began = time.perf_counter()
        found = []
        for kind in (torch.float32, torch.float64)[: 1 + double]:
            ours, data = copy.deepcopy(model).to(kind), in_kind(x, kind)
            found.append(
                errors(results(ours.to("opencl", **how), data.to("opencl", **how), 1), exact)
            )
        seconds = time.perf_counter() - began
        torch.opencl.empty_cache()
        fallbacks = tuple(sorted(on_cpu.counts))
        yield name, Outcome(found[0], usual, found[1] if double else None, fallbacks, seconds)


def in_kind(x, kind):
    """A new tensor of a dtype; words stay whole numbers."""
    return x.detach().clone().to(kind if x.is_floating_point() else x.dtype)


# --- compiled ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledOutcome:
    """What came of a compiled network.

    Attributes:
        training: Distances from the network on the device, of two calls: outputs, gradients,
            statistics.
        inference: Likewise, of outputs.
        float32, usual: Errors of training, as `errors` returns them, and PyTorch's own.
        exact, usually: Errors of inference, and PyTorch's own.
        conversions: Kernels that write images in the other memory format than they read them in,
            in training and in inference; those that the network asks for among them.
        on_cpu: What ran on the CPU.
        seconds: For all of it.
    """

    training: tuple[float, ...]
    inference: float
    float32: tuple[Any, ...]
    usual: tuple[Any, ...]
    exact: float
    usually: float
    conversions: tuple[int, int]
    on_cpu: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether it is what the network is uncompiled, and right."""
        pairs = zip(self.float32[:3], self.usual[:3], (FLOOR, FLIPS, FLIPS), strict=True)
        near = all(a <= max(c, TIMES * b) for a, b, c in pairs)
        near &= self.exact <= max(FLOOR, TIMES * self.usually)
        same = all(each <= SAME for each in (*self.training, self.inference))
        return near and same and not self.on_cpu


def compare_compiled(network: Network, name="NHWC"):
    """Returns the outcome, in training mode and then in eval mode, of two calls each."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model, x = prepared(network.make()).train(), network.input()
    how = {"memory_format": FORMATS[name]} if x.ndim == 4 else {}
    double = copy.deepcopy(model).double()
    exact = results(double, in_kind(x, torch.float64), 1)
    plain = copy.deepcopy(model)
    usual = errors(results(plain, x.clone(), 1), exact)
    on_cpu.counts.clear()
    began = time.perf_counter()
    nets = [copy.deepcopy(model).to("opencl", **how) for _ in range(2)]
    training: list[float] = []
    with recordings() as found:
        runs = nets[0], torch.compile(nets[1], backend="clprim")
        for turn in range(2):
            each = [results(run, x.clone().to("opencl", **how), 1) for run in runs]
            if not turn:
                float32 = errors(each[1], exact)
            states = [[b.cpu().double() for b in net.buffers()] for net in nets]
            (a, slopes), (b, others) = each
            names = [k for k, v in slopes.items() if v is not None]
            training += distance(b, a), distance(*([s[k] for k in names] for s in (others, slopes)))
            training += [distance(states[1], states[0])] if states[0] else []
            for net in nets:
                net.zero_grad()
        trained = len(found)
        for net in (*nets, plain, double):
            net.eval().requires_grad_(False)
        for net, source in zip((*nets, plain), (double, double, double), strict=True):
            net.load_state_dict(source.state_dict())
        with torch.no_grad():
            there = x.to("opencl", **how)
            ends = [[t.cpu().double() for t in outputs_of(run(there))] for run in (*runs, runs[1])]
            right = outputs_of(double(in_kind(x, torch.float64)))
            usually = distance([t.double() for t in outputs_of(plain(x))], right)
    assert all(map(torch.equal, ends[1], ends[2]))
    torch.opencl.empty_cache()
    counts = [sum(map(converts, each.replay.graph.nodes)) if how else 0 for each in found]
    return CompiledOutcome(
        tuple(training), distance(ends[1], ends[0]),
        float32, usual, distance(ends[1], right), usually,
        (sum(counts[:trained]), sum(counts[trained:])),
        tuple(sorted(on_cpu.counts)), time.perf_counter() - began,
    )  # fmt: skip


@contextmanager
def recordings() -> Iterator[list[graphs.Recorded]]:
    """Yields what is recorded inside."""
    found: list[graphs.Recorded] = []
    original = graphs.Recorded

    class Noted(original):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            found.append(self)

    graphs.Recorded = Noted
    try:
        yield found
    finally:
        graphs.Recorded = original


def converts(node: Node) -> bool:
    """Whether a kernel reads images in one memory format and writes them in the other."""
    orders = {(0, 1, 2, 3), (0, 2, 3, 1)}
    return any(
        read.shape == written.shape and {_order(read), _order(written)} == orders
        for read in node.reads
        for written in node.writes
    )


def _order(operand: Operand) -> Any:
    if operand.ndim != 4 or operand.shape[1] == 1 or operand.shape[2] * operand.shape[3] == 1:
        return None
    if 0 in operand.strides:
        return None  # of fewer dimensions
    return tuple(sorted(range(4), key=lambda d: (-operand.strides[d], d)))


def write(page: Path, name: str, rows: list[str]) -> None:
    """Replaces what stands between a page's two marks of a name."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.read_text().partition(first)
    _, _, after = rest.partition(last)
    page.write_text(before + first + "\n".join(rows) + "\n" + last + after)


def merged(page: Path, name: str, rows: list[str]) -> list[str]:
    """Returns a table's rows, and those of a page for networks that it has not, in their order."""
    _, _, rest = page.read_text().partition(f"<!-- {name} -->\n")
    before = rest.partition(f"<!-- end of {name} -->")[0].splitlines()
    if before[:2] != rows[:2]:
        return rows
    known = {_name_of(row) for row in rows[2:]}
    every = [*rows[2:], *(row for row in before[2:] if _name_of(row) not in known)]
    order = [*NETWORKS]
    return [*rows[:2], *sorted(every, key=lambda row: order.index(_name_of(row)))]


def _name_of(row: str) -> str:
    return row.split("|")[1].strip()


def rows_of(name: str, formats: tuple[str, ...], double: bool) -> Iterator[tuple[str, Any]]:
    """Yields a row of the table and its outcome in each format."""
    for which, outcome in compare(NETWORKS[name], formats, double):
        cells = [
            f"{a:.0e} ({b:.0e})"
            for a, b in zip(outcome.float32[:3], outcome.usual[:3], strict=True)
        ]
        if outcome.float64 is not None:
            cells.append(f"{max(outcome.float64[:3]):.0e}")
        yield f"{which} | {' | '.join(cells)}", outcome


def compiled_rows_of(name: str, formats: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yields likewise of the compiled network."""
    network = NETWORKS[name]
    for which in formats[: None if len(network.shape) == 4 else 1]:
        found = compare_compiled(network, which)
        cells = [f"{max(found.training):.0e}", f"{found.inference:.0e}"]
        pairs = zip(found.float32[:2], found.usual[:2], strict=True)
        cells += [f"{a:.0e} ({b:.0e})" for a, b in pairs]
        cells += [f"{found.exact:.0e} ({found.usually:.0e})", "{}, {}".format(*found.conversions)]
        yield f"{which} | {' | '.join(cells)}", found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--format", choices=tuple(FORMATS), help="one instead of both")
    parser.add_argument("--write", action="store_true", help="put the table into docs/torch.md")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--double", action="store_true", help="in float64 on the device too")
    kinds.add_argument("--compiled", action="store_true", help="compiled, NHWC unless told")
    given = parser.parse_args()
    ct.fallback("silent")
    names = given.only.split(",") if given.only else list(NETWORKS)
    formats = (given.format,) if given.format else tuple(FORMATS)[: 1 if given.compiled else None]
    head = ["network", "input", "format"]
    if given.compiled:
        head += ["training", "inference", "outputs", "gradient", "inference's outputs"]
        head += ["conversions"]
    else:
        head += ["outputs", "gradient", "worst parameter", *["float64"][: given.double]]
    head.append("on the CPU")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    bad = 0
    for n, name in enumerate(names):
        print(f"[{n + 1}/{len(names)}] {name}", file=sys.stderr, flush=True)
        shape = "×".join(map(str, NETWORKS[name].shape))
        try:
            every = (
                compiled_rows_of(name, formats)
                if given.compiled
                else rows_of(name, formats, given.double)
            )
            for cells, outcome in every:
                bad += not outcome.right
                there = ", ".join(outcome.on_cpu) or "nothing"
                rows.append(f"| {name} | {shape} | {cells} | {there} |")
                note = f"{outcome.seconds:.1f} s" + ("" if outcome.right else "  <-- WRONG")
                print(rows[-1], note, file=sys.stderr, flush=True)
        except Exception as error:
            bad += 1
            rows.append(f"| {name} | {shape} | | {type(error).__name__}" + " |" * (len(head) - 3))
            print(f"{name}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)
        if given.write:
            table = "compiled networks" if given.compiled else "networks"
            write(PAGE, table, merged(PAGE, table, rows))
    print("\n".join(rows))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
