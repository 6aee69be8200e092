"""Copy elision: what is copied is written where it is wanted, or read where it lies.

    source into place      what makes the source of a copy writes to where that is copied to, and
                           all who read it read it there: `cat`, nested or of parts of others
    result as view         what is nothing but a copy of parts of one buffer is a view of them:
                           slices that are made contiguous, `cat` of what lies side by side

Copies are taken from the last one to the first one. So in a block whose layers each concatenate all
that was made before, everything is written to the last concatenation, of which the others are
views. A layout that somebody asked for stays: a view has elements in the order of the copy, and
what lies side by side lies so in it. Results keep their bits, unless a kernel for other strides
adds up in another order.
"""

from __future__ import annotations

from clprim.graph.graph import Buffer, Graph, buffer_of, same_place
from clprim.graph.passes.layout.moves import Entries, Entry, Move, Moves, moves_of, overlap
from clprim.graph.relocation import Relocation, relocation, source_of
from clprim.plan.strides import Operand
from clprim.primitives.lines import takes_lines
from clprim.runtime.device import Device

# Arrays of what takes lines in: index, source and what is copied before.
_WITH_OWN = 3


def copy_elision(graph: Graph, device: Device) -> Graph:
    """Lets producers write to, and consumers read from, the other end of a copy."""
    entries, results = Entries(graph, device), graph.results()
    moves = sum(len(moves_of(node) or ()) for node in graph.nodes)
    for n in reversed(range(len(entries.now))):
        entry = entries.now[n]
        if entry is not None and entry.moves and not _as_view(entries, n, results):
            _into_place(entries, n, results)
    left = sum(len(entry.moves or ()) for entry in entries.now if entry is not None)
    if left == moves:
        return graph
    return graph.with_nodes(entries.nodes(), f"copy elision: {moves - left} of {moves} copies gone")


def _into_place(entries: Entries, n: int, results: set[Buffer]) -> None:
    """Puts an entry's sources where it copies them, unless one kernel would become several."""
    before, start = [*entries.now], entries.now[n]
    again = True
    while again:
        again, entry = False, entries.now[n]
        for move in reversed(entry.moves or () if entry else ()):
            if _source_into(entries, n, move, results):
                again = True
                break
    entry = entries.now[n]
    if start and start.is_one_kernel and entry and len(entry.moves or ()) > 1:
        entries.restore(before)


def _source_into(entries: Entries, n: int, move: Move, results: set[Buffer]) -> bool:
    """Puts the source of a move in the place that it is moved to."""
    source, target = buffer_of(move.read), buffer_of(move.write)
    if source is target or source.kind != "temporary" or source in results:
        return False
    places = relocation(move.read, move.write)
    if places is None:
        return False
    users = entries.over(source)
    writers = [m for m, entry in users if _over(entry.written, source)]
    readers = [(m, entry) for m, entry in users if _over(entry.reads, source)]
    if not writers or writers[-1] >= n:
        return False
    # Whether moves that others become are worth it is seen when it is their turn.
    if not places.keeps_order and any(entry.moves is None for _, entry in users):
        return False
    if not places.keeps_runs and any(entry.moves is None for _, entry in readers):
        return False
    first, last = users[0][0], readers[-1][0]
    for m, entry in entries.over(target):
        operands = (*entry.reads, *entry.writes)
        if m == first:
            operands = _but_what_goes(entry, places, move)
        if first <= m < n and overlap(operands, move.write):
            return False
        if n < m <= last and overlap(entry.written, move.write):
            return False
    changed = entries.changed(source, places, move.write, {n: (move,)})
    if changed is None:
        return False
    entries.put(changed)
    return True


def _but_what_goes(entry: Entry, places: Relocation, move: Move) -> tuple[Operand, ...]:
    """The first entry's operands, but for what it copies from where its result is to lie.

    So what takes lines in, as `index_copy` of a cache, does it where the cache lies.
    """

    def stays(read: Operand, write: Operand) -> bool:
        if buffer_of(write) is not buffer_of(move.read):
            return True
        to = places(write, move.write.memory)
        return to is None or not same_place(to, read)

    if entry.moves is not None:
        return tuple(o for m in entry.moves if stays(m.read, m.write) for o in (m.read, m.write))
    node = entry.node
    if takes_lines(node.primitive) and len(node.reads) == _WITH_OWN:
        *reads, own = node.reads
        if not stays(own, node.writes[0]):
            return *reads, *node.writes
    return *entry.reads, *entry.writes


def _as_view(entries: Entries, n: int, results: set[Buffer]) -> bool:
    """Reads what an entry's moves and others make where these find it."""
    entry = entries.now[n]
    assert entry is not None
    assert entry.moves
    target, source = buffer_of(entry.moves[0].write), buffer_of(entry.moves[0].read)
    if source is target or target.kind != "temporary" or target in results:
        return False
    users = entries.over(target)
    moves: dict[int, Moves] = {}
    for m, user in users:
        if _over(user.written, target):
            moves[m] = user.moves or ()
            if not user.moves or any(buffer_of(move.read) is not source for move in user.moves):
                return False
    readers = [m for m, user in users if _over(user.reads, target)]
    every = [move for each in moves.values() for move in each]
    whole = _whole(users, target)
    lies = source_of(whole, every)
    places = None if lies is None else relocation(whole, lies)
    if lies is None or places is None or not (places.keeps_order and places.keeps_runs):
        return False
    last = readers[-1] if readers else n
    for m, user in entries.over(source):
        earlier = [move.read for at, each in moves.items() if at < m <= last for move in each]
        if any(overlap(user.written, read) for read in earlier):
            return False
    changed = entries.changed(target, places, lies, moves)
    if changed is None:
        return False
    entries.put(changed)
    return True


def _whole(users: list[tuple[int, Entry]], buffer: Buffer) -> Operand:
    """The largest operand over a buffer."""
    found = [
        operand
        for _, entry in users
        for operand in (*entry.node.writes, *entry.writes, *entry.reads)
        if buffer_of(operand) is buffer
    ]
    return max(found, key=lambda operand: operand.size)


def _over(operands: tuple[Operand, ...], buffer: Buffer) -> bool:
    return any(buffer_of(operand) is buffer for operand in operands)
