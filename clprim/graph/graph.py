"""Graphs: calls of primitives over buffers, in the order of the program; they print as Python.

A buffer is a piece of memory, an operand where the elements of an array lie in one. Views need no
node: they are operands over the same buffer. Nodes stand in an order that respects what each of
them reads and writes, and a pass that moves one has to keep it so.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from clprim.call.packed import PackedWeight
from clprim.call.primitive import NoPlanError, Primitive, Request, check_parts
from clprim.errors import ClprimError
from clprim.graph.text import graph_text
from clprim.plan.kernel import Plan
from clprim.plan.strides import Operand
from clprim.runtime.device import Device

NOTHING: Mapping[str, PackedWeight] = {}


class Buffer:
    """A piece of memory of a graph; inside a trace it is what arrays lie over."""

    __slots__ = ("__weakref__", "kind", "memory", "nbytes", "weight")

    def __init__(self, nbytes: int, kind: str = "temporary", memory: Any = None) -> None:
        self.nbytes, self.kind, self.memory = nbytes, kind, memory
        self.weight: PackedWeight | None = None

    def __reduce__(self) -> Any:
        return Buffer, (self.nbytes, self.kind)  # without memory

    @property
    def frozen(self) -> bool:
        """Whether its contents are known and stay."""
        return self.weight is not None

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.nbytes} bytes>"


NO_BUFFERS: Mapping[Buffer, Buffer] = {}


def buffer_of(operand: Operand) -> Buffer:
    """Returns the buffer that an operand of a graph lies in."""
    assert operand.memory is not None
    found = operand.memory[0]
    assert isinstance(found, Buffer)
    return found


def is_whole(operand: Operand) -> bool:
    """Whether an operand, of elements that lie apart, is all of its buffer."""
    return operand.size * operand.dtype.itemsize == buffer_of(operand).nbytes


def layout_of(operand: Operand) -> tuple[Any, ...]:
    """Returns what `array_over` is told of an operand beside its memory."""
    return operand.shape, operand.dtype, operand.strides, operand.offset, operand.size


def same_place(a: Operand, b: Operand) -> bool:
    """Whether two operands are the same elements in the same order."""
    if buffer_of(a) is not buffer_of(b) or a.dtype != b.dtype:
        return False
    if a.shape != b.shape or a.offset != b.offset:
        return False
    # Along one element there are no steps.
    return a.strides == b.strides or all(
        s == t or n == 1 for n, s, t in zip(a.shape, a.strides, b.strides, strict=True)
    )


@dataclass(frozen=True, eq=False)
class Node:
    """A call of a primitive."""

    primitive: Primitive
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    numbers: tuple[Any, ...]
    options: Any
    kept: Mapping[str, PackedWeight] = field(repr=False)
    problem: Any = field(repr=False)
    planning: Plan | Callable[[], Plan] = field(repr=False)
    line: str = ""

    @property
    def plan(self) -> Plan:
        """The kernels."""
        return self.planning if isinstance(self.planning, Plan) else self.planning()

    @cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        if not isinstance(self.planning, Plan):
            return False
        return any(kernel.draws for kernel in self.plan.stages)

    @cached_property
    def changed(self) -> tuple[Operand, ...]:
        """Operands that it reads and also writes: optimizers' arrays, keys that are lost."""
        if not isinstance(self.planning, Plan):
            return ()
        names = [*self.primitive.names(self.problem)][len(self.writes) :]
        written = {n for kernel in self.plan.stages for n in kernel.buffers(written=True)}
        return tuple(r for name, r in zip(names, self.reads, strict=False) if name in written)

    def rebased(
        self, reads: Mapping[Buffer, Buffer], writes: Mapping[Buffer, Buffer] = NO_BUFFERS
    ) -> Node:
        """Returns the same node over buffers that stand for others."""
        if reads.keys().isdisjoint(self.touched) and writes.keys().isdisjoint(self.touched):
            return self
        return replace(
            self,
            reads=tuple(rebased(o, reads) for o in self.reads),
            writes=tuple(rebased(o, writes) for o in self.writes),
        )

    @cached_property
    def read(self) -> tuple[Buffer, ...]:
        """Buffers that it reads, each once."""
        return (*dict.fromkeys(map(buffer_of, self.reads)),)

    @cached_property
    def written(self) -> tuple[Buffer, ...]:
        """Buffers that it writes, each once, also those among what it reads."""
        return (*dict.fromkeys(map(buffer_of, (*self.writes, *self.changed))),)

    @cached_property
    def touched(self) -> tuple[Buffer, ...]:
        """Buffers of its results and of what it reads, each once."""
        return (*dict.fromkeys(map(buffer_of, (*self.writes, *self.reads))),)


def planning_of(
    primitive: Primitive, problem: Any, device: Device
) -> Plan | Callable[[], Plan] | None:
    """Returns the kernels of a node, or what plans them; None where nothing is to run.

    What has kernels for sure is planned when they are asked for, as passes mostly make another
    node of it.
    """
    if not primitive.has_kernels(problem):
        plan = primitive.planned(problem, device)
        return plan if plan is not None and plan.stages else None
    found: list[Plan] = []

    def later() -> Plan:
        if not found:
            found.append(primitive.planned(problem, device))  # type: ignore[arg-type]
        return found[0]

    return later


def planned(
    device: Device,
    primitive: Primitive,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    numbers: Sequence[Any] = (),
    options: Any = None,
    kept: Mapping[str, PackedWeight] = NOTHING,
    line: str = "",
) -> Node:
    """Returns a node whose results are given."""
    check_parts(primitive, (*reads, *writes))
    request = Request(tuple(reads), tuple(numbers), tuple(writes), options, frozenset(kept))
    problem = primitive.problem(request, device)
    plan = planning_of(primitive, problem, device)
    if plan is None:
        raise ValueError("nothing is to run")
    if primitive.outputs(problem) != request.outs:
        raise ValueError("results go elsewhere")
    rest = request.numbers, options, kept, problem, plan, line
    return Node(primitive, request.operands, request.outs, *rest)


def replanned(
    device: Device,
    node: Node,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    **changed: Any,
) -> Node | None:
    """Returns a node over other operands, with other settings; None where that is refused."""
    names = ("primitive", "numbers", "options", "kept", "line")
    told = {name: getattr(node, name) for name in names} | changed
    try:
        return planned(device, reads=reads, writes=writes, **told)
    except (ClprimError, NoPlanError, ValueError):
        return None


def rebased(operand: Operand, instead: Mapping[Buffer, Buffer]) -> Operand:
    """Returns an operand over the buffer that stands for its own."""
    new = instead.get(buffer_of(operand))
    return operand if new is None else replace(operand, memory=(new, 0))


@dataclass(frozen=True, eq=False)
class Graph:
    """What a function launches.

    Attributes:
        what: The function's name.
        inputs: What is given with a call, in order.
        nodes: The calls, in order.
        outputs: The results, in order.
        notes: What passes did, and what they left, a line each.
        budget: Bytes that temporaries may take together, where nodes may run again for that.
        free: Numbers of outputs that may lie in another memory format.
        launches: How kernels are launched; see `clprim.options`.
        ready: By device: what runs the graph where it is called itself.
    """

    what: str
    inputs: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Operand, ...]
    notes: tuple[str, ...] = ()
    budget: int | None = None
    free: frozenset[int] = frozenset()
    launches: str = "auto"
    ready: dict[Device, Any] = field(default_factory=dict, init=False, repr=False)

    # What runs, writes and reads a graph: `compiled` and `saved`, which import this, say so.
    run: ClassVar[Callable[[Graph, Sequence[Any]], Any]]
    write: ClassVar[Callable[[Graph, Any], None]]
    read: ClassVar[Callable[[Any], Graph]]

    def __str__(self) -> str:
        return graph_text(self)

    def __repr__(self) -> str:
        return f"<clprim.Graph {self.what}: {len(self.nodes)} nodes>"

    def __call__(self, *arrays: Any) -> Any:
        """Runs the graph on the current device.

        Args:
            arrays: Of the shapes and dtypes of its inputs; those that lie otherwise are copied.

        Returns:
            The result, or a tuple of several.

        Raises:
            ShapeError, DTypeError: Other arrays than the inputs.
            DeviceError: An array of another context, or not enough memory.
        """
        return Graph.run(self, arrays)

    def save(self, path: Any) -> None:
        """Writes the graph and its constants to a file, which `load` reads on any device.

        The file is a safetensors file: the nodes are JSON in its header. Arrays that the function
        read without having them as arguments become constants.

        Args:
            path: Of the file, such as ``net.clprim``.

        Raises:
            DefinitionError: A node that cannot be saved.
        """
        Graph.write(self, path)

    @staticmethod
    def load(path: Any) -> Graph:
        """Reads a graph that `save` wrote, and plans it for the current device.

        Nothing of a file runs on the host, but its strings are code for the device: load files of
        people whose programs you would run.

        Args:
            path: Of the file.

        Raises:
            DefinitionError: No such file, or one that is damaged.
            ClprimError: What a primitive refuses.
        """
        return Graph.read(path)

    def with_nodes(self, nodes: Sequence[Node], *notes: str) -> Graph:
        """Returns the graph with other nodes."""
        return replace(self, nodes=tuple(nodes), notes=(*self.notes, *notes))

    @cached_property
    def uses(self) -> Uses:
        """Where buffers are written and read."""
        return Uses(self.nodes)

    def results(self) -> set[Buffer]:
        """Buffers that hold results and are made by a call."""
        return {b for b in map(buffer_of, self.outputs) if b.kind == "temporary"}


class Uses:
    """Where the buffers of some nodes are written and read, by the nodes' numbers."""

    def __init__(self, nodes: Sequence[Node] = ()) -> None:
        self.writers: dict[Buffer, list[int]] = {}
        self.readers: dict[Buffer, list[int]] = {}
        for n, node in enumerate(nodes):
            for buffer in node.written:
                self.writers.setdefault(buffer, []).append(n)
            for buffer in node.read:
                self.readers.setdefault(buffer, []).append(n)

    def copy(self) -> Uses:
        """Returns uses that may change while these stay."""
        made = Uses()
        made.writers = {buffer: [*found] for buffer, found in self.writers.items()}
        made.readers = {buffer: [*found] for buffer, found in self.readers.items()}
        return made

    def change(self, n: int, old: Node | None, new: Node | None) -> None:
        """Counts another node, or none, in the place of one."""
        for node, known in (old, False), (new, True):
            if node is None:
                continue
            for buffers, uses in (node.written, self.writers), (node.read, self.readers):
                for buffer in buffers:
                    if known:
                        insort(uses.setdefault(buffer, []), n)
                    elif len(uses[buffer]) > 1:
                        uses[buffer].remove(n)
                    else:
                        del uses[buffer]

    def span(self, buffer: Buffer) -> tuple[int, int]:
        """The first and the last node that touch a buffer."""
        found = (*self.writers.get(buffer, ()), *self.readers.get(buffer, ()))
        return min(found), max(found)

    def only_writer(self, buffer: Buffer) -> int | None:
        """The only node that writes a temporary; None where there are several, or none."""
        found = self.writers.get(buffer, ())
        return found[0] if buffer.kind == "temporary" and len(found) == 1 else None
