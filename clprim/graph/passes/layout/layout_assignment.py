"""Layout assignment: images between nodes get the format that is cheapest over the whole graph.

Strides of intermediate results are free: whatever a program asked for, each becomes contiguous or
channels-last. Costs are bytes moved, as a device with wide vectors or matrix units moves them:

    a convolution          or a gradient of one: its two images, less where both are channels-last,
                           and on CPUs much more where they differ
    an elementwise node    what lies otherwise than its result
    a copy                 everything, where its ends differ; else it can go

What is given and what is returned stays as it is, but for outputs that are free. Sums are added up
in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from clprim.graph.graph import Buffer, Graph, Node, buffer_of, replanned
from clprim.graph.passes.layout.moves import moves_of
from clprim.graph.relocation import Relocation, relocation
from clprim.plan.strides import Operand, dense_strides
from clprim.primitives.gate import GatePrimitive
from clprim.primitives.grouped import Grouped
from clprim.primitives.pieces import PiecesPrimitive
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.product import ContractionPrimitive
from clprim.primitives.reduction import Reduction
from clprim.runtime.device import Device
from clprim.traits import DeviceTraits

_CHANNELS, _LAST = 1, (0, 2, 3, 1)
# Of a kind's result and what it reads: which two are images. The third one is the weight.
_IMAGES = {"conv": (1, 0), "conv_transpose": (1, 0), "conv_input": (1, 0), "conv_weight": (1, 2)}
# Of a convolution's bytes: what channels-last saves, and what it costs where formats differ.
_SAVED, _MIXED = 0.25, 3.0
# Sweeps in which images change one by one; each makes the graph cheaper.
_SWEEPS = 8


def layout_assignment(graph: Graph, device: Device) -> Graph:
    """Changes memory formats of temporaries on devices whose convolutions have a better one."""
    if not any(_gains(node, device.traits) for node in graph.nodes):
        return graph
    images = _images(graph)
    while images:
        found = _cheapest(graph, images, device.traits)
        places = {b: _places(images[b], last) for b, last in found.items()}
        changed = {b: place for b, place in places.items() if place is not None}
        if not changed:
            return graph
        moved = [_moved(device, node, changed) for node in graph.nodes]
        nodes = [node for node in moved if node is not None]
        if len(nodes) == len(moved):
            note = f"layout assignment: {len(changed)} images lie otherwise"
            made = graph.with_nodes(nodes, note)
            outputs = tuple(_placed_by(changed, o) or o for o in graph.outputs)
            return replace(made, outputs=outputs)
        # Images of nodes that refuse another format stay, and the rest is decided anew.
        stay = {
            buffer
            for node, other in zip(graph.nodes, moved, strict=True)
            if other is None
            for buffer in node.touched
        }
        images = {b: o for b, o in images.items() if b not in stay}
    return graph


def _images(graph: Graph) -> dict[Buffer, Operand]:
    """Temporaries that may lie in another format: every node sees the whole of them, or views."""
    found = dict[Buffer, Operand]()
    fixed = {buffer_of(o) for n, o in enumerate(graph.outputs) if n not in graph.free}
    convolutions = [node for node in graph.nodes if _is_convolution(node)]
    convolved = {b for node in convolutions for b in node.touched}
    fixed.update(buffer_of(_convolved(node)[2]) for node in convolutions)
    # What convolutions see says best which dimension holds the channels.
    seen = (o for node in (*convolutions, *graph.nodes) for o in (*node.writes, *node.reads))
    for operand in (*seen, *graph.outputs):
        image = None if buffer_of(operand) in found else _image_of(operand)
        if image is not None:
            found[buffer_of(operand)] = image
    for node in graph.nodes:
        known, product = _knows_formats(node), isinstance(node.primitive, ContractionPrimitive)
        for operand in (*node.writes, *node.reads):
            buffer = buffer_of(operand)
            whole = found.get(buffer)
            if whole is None or (
                (known or (product and buffer in convolved)) and _follows(operand, whole)
            ):
                continue
            fixed.add(buffer)
    for operand in graph.outputs:
        whole = found.get(buffer_of(operand))
        if whole is not None and not _follows(operand, whole):
            fixed.add(buffer_of(operand))
    return {b: o for b, o in found.items() if b not in fixed and b.kind == "temporary"}


def _follows(operand: Operand, whole: Operand) -> bool:
    """Whether an operand over an image has strides in the other format as well."""
    if operand == whole:
        return True
    places = _places(whole, not _is_last(whole))
    return places is not None and places(operand, operand.memory) is not None


def _places(whole: Operand, last: bool) -> Relocation | None:
    """Where elements of an image lie in a format; None where they lie so already."""
    to = _placed(whole, last)
    return None if to == whole else relocation(whole, to)


def _image_of(operand: Operand) -> Operand | None:
    """Returns all of a piece of memory as an image, of which an operand is some channels."""
    if operand.ndim != 4 or not operand.size:
        return None
    images, _, height, width = operand.shape
    each = images * height * width * operand.dtype.itemsize
    channels, rest = divmod(buffer_of(operand).nbytes, each)
    if rest or channels < 2 or height * width < 2:
        return None
    whole = replace(operand, shape=(images, channels, height, width), offset=0)
    both = (_placed(whole, last) for last in (False, True))
    # Along one element there are no steps.
    steps = [s for s, n in zip(operand.strides, operand.shape, strict=True) if n > 1]
    for image in both:
        if [s for s, n in zip(image.strides, operand.shape, strict=True) if n > 1] == steps:
            return image
    return None


def _placed(operand: Operand, last: bool) -> Operand:
    order = _LAST if last else range(4)
    strides = dense_strides(operand.shape, operand.dtype.itemsize, order)
    return replace(operand, strides=strides)


def _knows_formats(node: Node) -> bool:
    """Whether a node computes the same whatever the strides of its arrays are."""
    kinds = Pointwise, Reduction, Grouped, PiecesPrimitive, GatePrimitive
    return _is_convolution(node) or isinstance(node.primitive, kinds)


def _is_convolution(node: Node) -> bool:
    return node.primitive.kind in _IMAGES


def _gains(node: Node, traits: DeviceTraits) -> bool:
    """Whether a node is a convolution that a device computes faster of channels-last images."""
    # Units of 16 and 8 bits get a vector of channels where planes give a pixel: by the costs
    # of `plan_matrix` a fifth of ResNet-50. GPUs' other tiles take as long, by theirs 2 %.
    if not _is_convolution(node) or traits.is_cpu:
        return _is_convolution(node)
    x, _, w = _convolved(node)
    return bool(traits.matrix_units) and x.dtype.itemsize <= 2 and w.shape[1] > 1


def _convolved(node: Node) -> tuple[Operand, Operand, Operand]:
    """Of a convolution, in whichever direction: two images and the weight."""
    operands = node.writes[0], *node.reads[:2]
    a, b = _IMAGES[node.primitive.kind]
    return operands[a], operands[b], operands[3 - a - b]


# The innermost of an operand's dimensions and the outermost one, but for the first; None where it
# makes no difference. What shares one of them with another is near it.
_Walk = tuple[int, int] | None


class _Pair(NamedTuple):
    """Two operands of a node that had better lie alike."""

    buffers: tuple[Buffer | None, Buffer | None]
    walks: tuple[tuple[_Walk, _Walk], tuple[_Walk, _Walk]]
    apart: float
    saved: float = 0.0


class _Layout:
    """Which images are channels-last, and what the nodes that touch them cost."""

    def __init__(self, graph: Graph, images: dict[Buffer, Operand], traits: DeviceTraits) -> None:
        self._traits = traits
        self.last = {b: bool(_is_last(operand)) for b, operand in images.items()}
        self._places = {b: [_places(o, last) for last in (False, True)] for b, o in images.items()}
        self._pairs = [[*self._pairs_of(node)] for node in graph.nodes]
        self.touching: dict[Buffer, list[int]] = {}
        for n, node in enumerate(graph.nodes):
            for buffer in node.touched:
                self.touching.setdefault(buffer, []).append(n)

    def cost(self, nodes: Iterable[int]) -> float:
        """Bytes that some nodes move, but for those that they move however images lie."""
        return sum([self._cost(pair) for n in nodes for pair in self._pairs[n]])

    def _cost(self, pair: _Pair) -> float:
        (first, second), (walks, others), last = pair.buffers, pair.walks, self.last
        a = walks[first is not None and last[first]]
        b = others[second is not None and last[second]]
        if a is not None and b is not None and a[0] != b[0] and a[1] != b[1]:
            return pair.apart
        walk = a or b
        return -pair.saved if walk is not None and walk[0] == _CHANNELS else 0.0

    def _pairs_of(self, node: Node) -> Iterator[_Pair]:
        if not node.writes:
            return  # an optimizer's step, which changes what it reads
        if _is_convolution(node):
            x, y, _ = _convolved(node)
            saved = _SAVED * (_nbytes(x) + _nbytes(y)) if _gains(node, self._traits) else 0.0
            mixed = _MIXED * _nbytes(y) if self._traits.is_cpu else 0.0
            yield self._pair(x, y, _walked_as_image, mixed, saved)
            beside, to = (*node.writes[1:], *node.reads[2:]), y
        else:
            beside, to = (*node.writes[1:], *node.reads), node.writes[0]
        moves = moves_of(node)
        for a, b in ((o, to) for o in beside) if moves is None else moves:
            if a.ndim == b.ndim:
                # Of what is broadcast or reduced, what both walk along.
                pairs = enumerate(zip(a.shape, b.shape, strict=True))
                both = [d for d, sizes in pairs if d and min(sizes) > 1]
                walked = partial(_walked, both)
                yield self._pair(a, b, walked, _nbytes(a) * (1 if moves is None else 2))

    def _pair(
        self, a: Operand, b: Operand, walk: Callable[[Operand], _Walk], *costs: float
    ) -> _Pair:
        ends = [self._end(o, walk) for o in (a, b)]
        (buffer, walks), (other, others) = ends
        return _Pair((buffer, other), (walks, others), *costs)

    def _end(
        self, operand: Operand, walk: Callable[[Operand], _Walk]
    ) -> tuple[Buffer | None, tuple[_Walk, _Walk]]:
        """Returns the image that an operand is over, and how it is walked in both formats."""
        places = self._places.get(buffer_of(operand))
        if places is None:
            return None, (walk(operand), walk(operand))
        found = [operand if p is None else p(operand, operand.memory) for p in places]
        first, second = (None if o is None else walk(o) for o in found)
        return buffer_of(operand), (first, second)


def _walked(dimensions: Sequence[int], operand: Operand) -> _Walk:
    """Returns how some dimensions of an operand are walked."""
    steps = sorted([(operand.strides[d], -d) for d in dimensions])
    if len(steps) < 2 or 0 in dict(steps):
        return None
    return -steps[0][1], -steps[-1][1]


def _walked_as_image(operand: Operand) -> _Walk:
    """Returns how an image is walked; None where both formats are one."""
    if operand.ndim != 4 or operand.shape[1] == 1 or operand.shape[2] * operand.shape[3] == 1:
        return None
    return _walked([d for d in range(1, 4) if operand.shape[d] > 1], operand)


def _nbytes(operand: Operand) -> int:
    return operand.size * operand.dtype.itemsize


def _is_last(operand: Operand) -> bool | None:
    walk = _walked_as_image(operand)
    return None if walk is None else walk[0] == _CHANNELS


def _cheapest(
    graph: Graph, images: dict[Buffer, Operand], traits: DeviceTraits
) -> dict[Buffer, bool]:
    """Returns which images are channels-last at the least cost that was found."""
    layout, every = _Layout(graph, images, traits), range(len(graph.nodes))
    given = {b: bool(last) for b, last in layout.last.items()}
    least, best = layout.cost(every), given
    for start in (given, dict.fromkeys(images, True), dict.fromkeys(images, False)):
        layout.last = dict(start)
        for _ in range(_SWEEPS):
            better = False
            for buffer in images:
                nodes = layout.touching[buffer]
                before = layout.cost(nodes)
                layout.last[buffer] = not layout.last[buffer]
                if layout.cost(nodes) < before:
                    better = True
                else:
                    layout.last[buffer] = not layout.last[buffer]
            if not better:
                break
        cost = layout.cost(every)
        if cost < least:
            least, best = cost, {b: bool(last) for b, last in layout.last.items()}
    return best


def _placed_by(changed: dict[Buffer, Relocation], operand: Operand) -> Operand | None:
    """Where an operand's elements go; None where no strides say it."""
    places = changed.get(buffer_of(operand))
    return operand if places is None else places(operand, operand.memory)


def _moved(device: Device, node: Node, changed: dict[Buffer, Relocation]) -> Node | None:
    """The same node over images in other formats; None where it cannot be."""
    if not any(buffer in changed for buffer in node.touched):
        return node

    reads, writes = (
        [_placed_by(changed, operand) for operand in operands]
        for operands in (node.reads, node.writes)
    )
    if None in (*reads, *writes):
        return None
    return replanned(device, node, reads, writes)  # type: ignore[arg-type]
