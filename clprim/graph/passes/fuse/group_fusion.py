"""Epilogues and prologues of groups and reductions, which elementwise nodes around them become.

Their strings become parts of other strings: what makes an array is computed wherever that is read,
and what follows a result is computed before it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from clprim.call.forms import Form, made
from clprim.dtypes import AnyDType, value_dtype
from clprim.errors import ClprimError
from clprim.graph.graph import Node, buffer_of, replanned, same_place
from clprim.graph.passes.fuse.snippets import (
    MOST_ARRAYS,
    block,
    both_preambles,
    fresh,
    joined,
    knows_no_place,
    number_in,
    on_value,
)
from clprim.graph.passes.layout.reshaping import broadcast, in_shape
from clprim.graph.relocation import relocation
from clprim.language.names import INTEGER_FORMS, PREDICATES
from clprim.language.tree import Call, walk
from clprim.plan.strides import Operand
from clprim.primitives.fourier import Fourier
from clprim.primitives.grouped import Grouped
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Options as ReductionOptions
from clprim.primitives.reduction import Reduction
from clprim.primitives.scaling import scale_numbers
from clprim.runtime.device import Device

# Of a kernel that keeps its group near, and of others: how often an array is read from memory.
_NEAR, _APART = 1, 2
# Functions that are an instruction or two.
_QUICK = {*PREDICATES, *INTEGER_FORMS, "fabs", "fmax", "fmin"}


def fuses(node: Node) -> bool:
    """Whether a node may take elementwise nodes in: it groups, reduces, transforms floats."""
    groups = isinstance(node.primitive, (Grouped, Reduction, Fourier))
    return groups and all(map(_is_floating, (*node.reads, *node.writes)))


def _is_floating(operand: Operand) -> bool:
    return operand.dtype.kind not in "biu"


def _alike(stored: AnyDType, *others: AnyDType) -> bool:
    """Whether all are calculated with as one dtype is, of which no value is lost."""
    return all(_value(d) == _value(stored) and d.itemsize <= stored.itemsize for d in others)


def _value(dtype: AnyDType) -> AnyDType:
    return value_dtype(dtype, (dtype,))


def with_epilogue(device: Device, a: Node, b: Node, k: int, *, again: bool) -> Node | None:
    """Returns groups whose elements an elementwise node maps before they are stored."""
    definition = a.primitive.definition  # type: ignore[attr-defined]
    moved = in_shape(device, b, a.problem.shape) if definition.results == 1 else None
    if moved is None or not _is_plain(moved):
        return None
    expr = moved.primitive.definition.expr  # type: ignore[attr-defined]
    (y,), (old,) = moved.writes, a.writes[:1]
    others = [r for n, r in enumerate(moved.reads) if n != k]
    fits = (
        same_place(old, moved.reads[k])
        and y.shape == old.shape
        and _alike(old.dtype, *(o.dtype for o in (y, *others)))
        and not any(buffer_of(o) is buffer_of(old) for o in others)
        and not any(buffer_of(r) is buffer_of(y) for r in a.reads)
        and len(a.reads) + len(a.writes) + len(others) + 1 <= MOST_ARRAYS
    )
    preamble = both_preambles(definition.each, expr)
    if not fits or preamble is None:
        return None
    after = on_value(expr, k, definition.inputs, definition.scalars)
    behind = [*(["y1 = y0;\n"] if again else []), after]
    texts: dict[str, Any] = {"each": joined([block(definition.each, {}, {}), *behind])}
    if definition.near is not None:
        begin, finish = definition.near.begin, definition.near.finish
        texts["near"] = {
            "begin": joined([block(begin, {}, {}), *(["y1 = 0;\n"] if again else [])]),
            "finish": joined([block(finish, {}, {}), *behind]),
        }
    writes = (y, *([old] if again else []), *a.writes[1:])
    numbers = (*a.numbers, *moved.numbers)
    return _planned(device, a, moved, texts, preamble, (*a.reads, *others), writes, numbers)


def with_prologue(device: Device, a: Node, b: Node, *, again: bool) -> Node | None:
    """Returns groups, or a reduction, of what an elementwise node makes."""
    if not _is_plain(a) or len(a.writes) != 1 or (again and not isinstance(b.primitive, Grouped)):
        return None
    (middle,) = a.writes
    definition = b.primitive.definition  # type: ignore[attr-defined]
    taken = [n for n, r in enumerate(b.reads) if buffer_of(r) is buffer_of(middle)]
    whole = [n for n in taken if same_place(b.reads[n], middle)]
    full = sum(r.size == middle.size for r in a.reads)
    passes = _APART if len(b.plan.stages) > 1 else _NEAR
    fits = (
        a.problem.shape == middle.shape
        and a.reads
        and _alike(middle.dtype, *(r.dtype for r in a.reads))
        and (middle.dtype.itemsize >= 4 or _alike(middle.dtype, *(w.dtype for w in b.writes)))
        and (whole if again else taken)
        and not (again and definition.results != 1)
        and passes * full + again < full + 1 + passes
    )
    found = _places(a, b, taken) if fits else None
    preamble = None if found is None else both_preambles(definition.snippets[0], _expr(a))
    if found is None or preamble is None:
        return None
    reads, old, new = found
    if len(reads) + len(b.writes) + again > MOST_ARRAYS:
        return None
    local = fresh([s.text for s in (*definition.snippets, _expr(a))])
    names = {f"x{n}": f"x{m}" for n, m in old.items()} | {f"x{n}": f"{local}_{n}" for n in taken}
    numbers = {f"w{n}": f"w{n + definition.scalars}" for n in range(len(a.numbers))}

    def part(snippet: Any, more: str = "", always: Sequence[int] = ()) -> Any:
        """A snippet behind what makes the arrays that it reads."""
        before: list[str] = []
        kinds: dict[str, str] = {}
        for n in sorted({*snippet.numbers("x"), *always} & {*taken}):
            kinds[f"{local}_{n}"] = f"typeof_x{new[n][0]}"
            before.append(f"{kinds[f'{local}_{n}']} {local}_{n} = 0;\n")
            own = {f"x{m}": f"x{place}" for m, place in enumerate(new[n])}
            own |= numbers | {"y0": f"{local}_{n}"}
            before.append(block(_expr(a), own, {f"{local}_{n}": kinds[f"{local}_{n}"]}))
        own_names = {name: to for name, to in names.items() if name in snippet.used or kinds}
        return joined([*before, block(snippet, own_names, kinds), more])

    also = f"y1 = {local}_{whole[0]};\n" if again else ""
    always = whole[:1] if again else []
    told = definition if isinstance(b.primitive, Reduction) else definition.taken
    texts: dict[str, Any] = {"expr": part(told.expr), "step": part(told.step)}
    if definition.finalize is not None:
        texts["finalize"] = part(definition.finalize)
    if isinstance(b.primitive, Grouped):
        texts["each"] = part(definition.each, also, always)
        if (near := definition.near) is not None:
            texts["near"] = {
                "begin": part(near.begin, "y1 = 0;\n" if again else ""),
                "step": part(near.step[0]),
                "finish": part(near.finish, also, always),
            }
            if near.first is not None:
                texts["near"]["first"] = part(near.first[0])
    writes = (b.writes[0], *([middle] if again else []), *b.writes[1:])
    own = len(b.numbers) - _scales(b)
    all_numbers = (*b.numbers[:own], *a.numbers, *b.numbers[own:])
    return _planned(device, b, a, texts, preamble, reads, writes, all_numbers)


def _scales(node: Node) -> int:
    """How many numbers scale a reduction's results, behind those of its strings."""
    if not isinstance(node.primitive, Reduction):
        return 0
    options, results = ReductionOptions(*node.options), node.primitive.definition.results
    return len(scale_numbers(node.primitive.what, options.alpha, options.beta, results))


def is_cheap_again(a: Node, b: Node) -> bool:
    """Whether a node that computes an elementwise one again reads less than if it read its result.

    Nearly all that is needed it reads anyway, no function is called that takes long, and no
    element is computed more than once.
    """
    if a.writes[0].size < max(r.size for r in b.reads):
        return False
    known = {buffer_of(r) for r in b.reads}
    more = sum(r.size for r in a.reads if buffer_of(r) not in known)
    called = {node.function for node in walk(_expr(a).tree) if isinstance(node, Call)}
    plain = called <= _QUICK and not a.primitive.definition.preamble  # type: ignore[attr-defined]
    return plain and more < a.writes[0].size


def _is_plain(node: Node) -> bool:
    """Whether a node is a string that knows nothing but the elements in its place."""
    if not isinstance(node.primitive, Pointwise) or len(node.writes) != 1:
        return False
    return knows_no_place(node.primitive.definition) and all(map(_is_floating, node.reads))


def _expr(node: Node) -> Any:
    return node.primitive.definition.expr  # type: ignore[attr-defined]


def _kernels(node: Node) -> tuple[bool, list[str]]:
    """Whether results are begun near, and which templates print what adds up."""
    near = getattr(node.primitive.definition, "near", None)  # type: ignore[attr-defined]
    templates = [stage.template for stage in node.plan.stages]
    return near is None, [t for t in templates if not t.startswith("pointwise/")]


def _places(
    a: Node, b: Node, taken: Sequence[int]
) -> tuple[list[Operand], dict[int, int], dict[int, list[int]]] | None:
    """Returns what is read in the place of an elementwise node's results."""
    (middle,) = a.writes
    reads: list[Operand] = []
    new: dict[int, list[int]] = {}
    rest = [r for n, r in enumerate(b.reads) if n not in taken]
    for n in taken:
        new[n] = []
        for r in a.reads:
            places = relocation(middle, broadcast(r, middle.shape), joined=False)
            there = None if places is None else places(b.reads[n], r.memory)
            if there is None:
                return None
            # What is repeated may be there as what it is repeated of.
            there = replace(there, dtype=r.dtype)
            known = next((o for o in rest if _repeats(there, o)), there)
            new[n].append(number_in(reads, known))
    old = {n: number_in(reads, r) for n, r in enumerate(b.reads) if n not in taken}
    return reads, old, new


def _repeats(whole: Operand, part: Operand) -> bool:
    """Whether an operand is another one, repeated."""
    if len(part.shape) > len(whole.shape):
        return False
    if any(n not in (1, m) for n, m in zip(part.shape[::-1], whole.shape[::-1], strict=False)):
        return False
    return same_place(whole, broadcast(part, whole.shape))


def _planned(
    device: Device,
    a: Node,
    other: Node,
    texts: Mapping[str, Any],
    preamble: str,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    numbers: Sequence[Any],
) -> Node | None:
    """Returns groups, or a reduction, of other strings; None where other kernels compute them."""
    primitive: Any = a.primitive
    told = {**primitive.form.told, **texts, "preamble": preamble}
    if told.get("near") is not None:
        told["near"] = {**primitive.form.told["near"], **texts.get("near", {})}
    options = a.options
    results = list(writes)
    if isinstance(primitive, Grouped):
        options = given_results(options)
        results = results[: len(writes) - sum(map(bool, options.keep))]
        told["partial_type"] = str(a.problem.value)
    else:
        told["partial_type"] = [str(t) for t in a.problem.partials]
    told["result_type"] = [str(w.dtype) for w in results]
    line = a.line or other.line
    found = primitive_of(primitive.kind, told)
    changed = {"primitive": found, "numbers": numbers, "options": options, "line": line}
    node = None if found is None else replanned(device, a, reads, writes, **changed)
    if node is None:
        return None
    known = {*a.problem.scalars, *other.problem.scalars}
    if not known.issuperset(node.problem.scalars) or _kernels(node) != _kernels(a):
        return None
    return node


def given_results(options: Any) -> Any:
    """Returns the options of groups whose results, and what they keep, are all given."""
    keep = tuple(None if k is None else True for k in options.keep)
    return options._replace(out=True, keep=keep)


class _Told(dict[str, Any]):
    """Arguments of a primitive, which compare by what they say."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(json.dumps(self, sort_keys=True, default=str))


def primitive_of(kind: str, told: Mapping[str, Any]) -> Any:
    """Returns a primitive of strings that a pass has made; None where they are refused."""
    try:
        return _made(kind, _Told(told))
    except (ClprimError, ValueError):
        return None


@lru_cache(maxsize=1024)
def _made(kind: str, told: _Told) -> Any:
    return made(Form(kind, told))
