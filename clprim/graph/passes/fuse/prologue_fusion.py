"""Prologue fusion: an elementwise node runs where the node that reads its result takes it in.

    1×1 convolutions       batch norm and ReLU, as in DenseNet, and channels that a gate scales.
                           What is read beside the images varies with channels and images alone.
                           CPUs only, whose convolutions copy what they read to near memory.
    transforms             windows, filters; only what nobody else wants, or is cheap again.
    groups, reductions     sums before a norm, masks and scales before softmax, gradients of
                           activations before those of norms, products that are added up. Where
                           others want what is made as well, groups store it, or compute it again
                           of what they read anyway, as gradients of batch norms what was activated.
                           Only where the same kernel computes them and no more is read; windows
                           of a pooling overlap.

Results keep their bits, unless another strategy computes a convolution's sums.
"""

from __future__ import annotations

from dataclasses import replace

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.group_fusion import fuses, is_cheap_again, with_prologue
from clprim.graph.passes.fuse.snippets import knows_no_place, on_value
from clprim.graph.passes.fuse.transform_strings import with_load
from clprim.graph.passes.layout.reshaping import in_bytes, in_place_of
from clprim.graph.passes.rewrite import Rewrite
from clprim.graph.passes.simplify.dead_code import storing
from clprim.plan.strides import Operand
from clprim.primitives.fourier import Fourier
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import Device


def prologue_fusion(graph: Graph, device: Device) -> Graph:
    """Moves elementwise nodes into the reading of what reads them."""
    rewrite, joins = Rewrite(graph, device), 0
    for n, node in enumerate(rewrite.nodes):
        if node is not None and fuses(node):
            while _into_groups(rewrite, n):
                joins += 1
        if node is not None and device.traits.is_cpu and _reads_pixels(node):
            joins += _into_convolution(rewrite, n)
    note = f"prologue fusion: {joins} elementwise nodes run where their readers read"
    return rewrite.graph_with(note)


def _into_groups(rewrite: Rewrite, n: int) -> bool:
    """Moves a node that makes something of what groups, or their like, read into them."""
    node = rewrite.node(n)
    for buffer in node.read:
        maker = rewrite.maker(n, buffer)
        if maker is None:
            continue
        if rewrite.can_sink(maker, n):
            again = not rewrite.is_read_by(n, buffer)
            made = _taken_in(rewrite.device, rewrite.node(maker), node, again=again)
            if made is not None:
                rewrite.join(maker, n, made)
                return True
        if _again(rewrite, maker, n, buffer):
            return True
    return False


def _taken_in(device: Device, a: Node, b: Node, *, again: bool) -> Node | None:
    """Returns groups, a reduction or a transform of what an elementwise node makes."""
    if isinstance(b.primitive, Fourier):
        return None if again else with_load(device, a, b)
    return with_prologue(device, a, b, again=again)


def _again(rewrite: Rewrite, first: int, second: int, buffer: Buffer) -> bool:
    """Computes a result of an elementwise node once more where groups, or a reduction, read it.

    It is not stored any more where nobody else wants it.
    """
    device, before, node = rewrite.device, rewrite.node(first), rewrite.node(second)
    if not isinstance(before.primitive, Pointwise):
        return False
    kept = [n for n, w in enumerate(before.writes) if buffer_of(w) is buffer]
    others = [n for n in range(len(before.writes)) if n not in kept]
    alone = storing(device, before, kept) if others else before
    if alone is None or not is_cheap_again(alone, node):
        return False
    if any(rewrite.is_written(buffer_of(r), first, second) for r in alone.reads):
        return False
    made = _taken_in(device, alone, node, again=False)
    if made is None:
        return False
    rewrite.put(second, made)
    if buffer in rewrite.results or buffer in rewrite.uses.readers:
        return True
    left = storing(device, before, others) if others else None
    if left is not None or not others:
        rewrite.put(first, left)
    return True


def _reads_pixels(node: Node) -> bool:
    """Whether a node is a convolution that reads every pixel by itself."""
    if node.primitive.kind != "conv":
        return False
    told, x, w = node.options, *node.reads[:2]
    return (
        told.prologue is None
        and told.depth_to_space is None
        and told.algorithm == "auto"
        and w.shape[2:] == (1, 1) != x.shape[2:]
        and sum(same_place(r, x) for r in node.reads) == 1
    )


def _into_convolution(rewrite: Rewrite, n: int) -> bool:
    """Moves an elementwise node into the reading of the convolution behind it."""
    for maker, k in rewrite.lone_makers(n):
        made = _fused(rewrite.device, rewrite.node(maker), rewrite.node(n)) if k == 0 else None
        if made is not None:
            rewrite.join(maker, n, made)
            return True
    return False


def _fused(device: Device, a: Node, b: Node) -> Node | None:
    """Returns a convolution that does what comes before it; None where it cannot."""
    if not isinstance(a.primitive, Pointwise) or len(a.writes) != 1 or a.numbers:
        return None
    definition, x = a.primitive.definition, b.reads[0]
    before = in_place_of(device, a, a.writes[0], x)
    if before is None or definition.preamble or not knows_no_place(definition):
        return None
    images = [n for n, r in enumerate(before.reads) if _varies(r, x.shape)]
    fits = (
        before.problem.shape == x.shape
        and same_place(before.writes[0], x)
        and len(images) == 1
        and before.reads[images[0]].shape == x.shape
        and all(r.dtype == x.dtype for r in before.reads)
    )
    if not fits:
        return None
    (k,) = images
    beside = [_per_channel(r, x.shape) for n, r in enumerate(before.reads) if n != k]
    options = b.options._replace(prologue=on_value(definition.expr, k), algorithm="in_place")
    told = {"options": options, "line": b.line or a.line}
    return replanned(device, b, (before.reads[k], *b.reads[1:], *beside), b.writes, **told)


def _varies(operand: Operand, shape: tuple[int, ...]) -> bool:
    """Whether an operand varies over the pixels of images."""
    steps = zip(in_bytes(operand, shape)[2:], shape[2:], strict=True)
    return any(step for step, n in steps if n > 1)


def _per_channel(operand: Operand, shape: tuple[int, ...]) -> Operand:
    """Returns an operand that is the same for all pixels as one of a pixel."""
    if operand.shape[-2:] == (1, 1):
        return operand
    steps = in_bytes(operand, shape)
    sizes = [n if step else 1 for n, step in zip(shape, steps, strict=True)]
    return replace(operand, shape=tuple(sizes), strides=steps)
