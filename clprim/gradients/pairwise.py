"""The gradient of a `Pairs`: other `Pairs`, whose pairs are computed again, in memory of operands.

Every pair's value passes on what the outer reduction hands it; through ``expr`` this reaches its
arrays and the results of the inner reduction, and through the latter's elements the inner arrays.
Each gradient is one more reduction, over columns or over rows.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from clprim.arrays.creation import full
from clprim.call.arguments import check_side
from clprim.call.scalars import check_count
from clprim.errors import DefinitionError, ShapeError
from clprim.gradients.kernels import make
from clprim.gradients.pairs_blocks import PairsBlocks, reading, typed
from clprim.gradients.pointwise import derive_pointwise
from clprim.gradients.request import as_names, as_tuple, is_array
from clprim.gradients.stages import SUM
from clprim.language.definition import (
    PointwiseDefinition,
    ReductionDefinition,
    define_pointwise,
)
from clprim.language.gradient.derive import Derivation
from clprim.language.gradient.fold import Folded, derive_reduction
from clprim.language.rename import renamed
from clprim.plan.strides import broadcast_shapes

if TYPE_CHECKING:
    from clprim.primitives.pairs import Pairs


class PairsGradient:
    """Gradients of a `Pairs` in its arrays; see `Pairs.gradient`."""

    def __init__(self, pairs: Pairs, wrt: Any = None) -> None:
        self.pairs, definition = pairs, pairs.definition
        self._what = f"gradient of {pairs.what}"
        names = as_names(self._what, wrt, definition.inputs, 0)
        self.wrt = names or tuple(f"x{n}" for n in range(definition.inputs))
        self._kernels = lru_cache(maxsize=64)(self._kernel)
        self._folds = lru_cache(maxsize=4)(self._fold)
        self._in_blocks = lru_cache(maxsize=1)(lambda: PairsBlocks(pairs, self.wrt))
        self._by_pairs = not definition.spread
        try:
            for name in self.wrt if self._by_pairs else ():
                self._kernels(int(name[1:]), "float")
        except DefinitionError:
            self._by_pairs = False
        if not self._by_pairs:
            self._in_blocks()  # what cannot be derived is refused now

    def __call__(self, *args: Any, grad: Any = None, axis: int = -1) -> Any:
        """Computes the gradients."""
        pairs, definition = self.pairs, self.pairs.definition
        arrays, numbers = args[: definition.inputs], args[definition.inputs :]
        double = any(a.dtype == np.float64 for a in arrays)
        real = "double" if double else "float"
        dtype = np.dtype(np.float64 if double else np.float32)
        check_count(self._what, len(args), definition.inputs, definition.scalars)
        check_side(self._what, axis)
        shape = pairs.shape_of([a.shape for a in arrays])
        kept = shape[:-1] if axis == -1 else (*shape[:-2], shape[-1])
        if definition.spread:
            ends = [a.shape[-1:] for a in arrays[definition.shared :]]
            kept += broadcast_shapes(self._what, ends)
        grads = as_tuple(grad)
        if len(grads) != definition.results:
            raise ShapeError(
                f"{self._what}: expected {definition.results} gradients, got {len(grads)}"
            )
        rows: dict[str, Any] = {}
        for n, g in enumerate(grads):
            rows[f"gy{n}"] = g if is_array(g) else full(kept, 0 if g is None else g, dtype)
            if rows[f"gy{n}"].shape != kept:
                raise ShapeError(
                    f"{self._what}: grad has shape {rows[f'gy{n}'].shape}, the result {kept}"
                )
        if not self._by_pairs or any(
            self._way(int(n[1:]), arrays[int(n[1:])]) == 0 for n in self.wrt
        ):
            same = [a if a.dtype == dtype else a.astype(dtype) for a in arrays]
            blocks = self._in_blocks()(same, numbers, [*rows.values()], axis)
            wanted = [arrays[int(name[1:])].dtype for name in self.wrt]
            found = [
                g if g.dtype == d else g.astype(d) for g, d in zip(blocks, wanted, strict=True)
            ]
            return found[0] if len(found) == 1 else tuple(found)
        self._row_values(rows, args, axis, real)
        lines = {
            n: a.reshape((*kept, 1) if axis == -1 else (*kept[:-1], 1, kept[-1]))
            for n, a in rows.items()
        }
        found = []
        for name in self.wrt:
            k = int(name[1:])
            operator, used = self._kernels(k, real)
            way = self._way(k, arrays[k])
            inner = arrays[: definition.own]
            given = [*inner, *arrays[definition.own :], *(lines[n] for n in used)]
            given += inner if k < definition.own else []
            made = operator(*given, *numbers, axis=way)
            found.append(_summed(made, arrays[k], k < definition.own))
        return found[0] if len(found) == 1 else tuple(found)

    def _way(self, k: int, array: Any) -> int:
        """The axis along which the gradient of an array is summed; 0 where it varies with both."""
        shape = array.shape[:-1] if k < self.pairs.definition.own else array.shape
        shape = (1, 1, *shape)
        rows, columns = shape[-2] > 1, shape[-1] > 1
        return 0 if rows and columns else -1 if rows else -2

    def _row_values(
        self, rows: dict[str, Any], args: tuple[Any, ...], axis: int, real: str
    ) -> None:
        """Adds the partials of every row, and what results hand on to them, where needed."""
        folded = self._folds(real)
        handed = [n for n in folded.outputs.gradients if n[0] != "g"]
        used = set(folded.elements.uses([*folded.elements.gradients]))
        used |= set(folded.outputs.uses(handed)) if handed else set()
        if any(n.startswith("reduce_y") for n in used):
            partials = as_tuple(self._partials()(*args, axis=axis))
            rows |= {f"reduce_y{n}": p for n, p in enumerate(partials)}
        if handed:
            names = [n for n in rows if n in folded.outputs.uses(handed)]
            text = folded.outputs.snippet(
                [(f"y{k}", n) for k, n in enumerate(handed)],
                lambda n: f"x{names.index(n)}" if n in names else n,
            )
            helpers = folded.outputs.helpers(handed)
            made = as_tuple(make("Pointwise", text, preamble=helpers)(*(rows[n] for n in names)))
            rows |= dict(zip(handed, made, strict=True))

    def _partials(self) -> Any:
        """The operator with partials as its results."""
        definition = self.pairs.definition
        return make(
            "Pairs",
            inner=self.pairs.inner,
            expr=self.pairs.expr,
            outer=_bare(definition.outer),
            preamble=definition.preamble,
        )

    def _fold(self, real: str) -> Folded:
        """The derivation of the outer reduction in the values of pairs."""
        definition = self.pairs.definition
        outer = definition.outer
        values = tuple(f"x{n}" for n in range(definition.values))
        types = {
            f"{f}{n}": real
            for f, m in (("x", outer.inputs), ("w", outer.scalars))
            for n in range(m)
        }
        folded = derive_reduction(outer, real, types, ("array",) * outer.results, values)
        if folded.taken.gradients or folded.late or not isinstance(folded.elements, Derivation):
            raise DefinitionError(
                f"{self._what}: outer keeps one of its elements or multiplies them; gradients are "
                "known of sums, means, variances and sums of exponentials"
            )
        used = folded.elements.uses([*folded.elements.gradients])
        used += folded.outputs.uses([*folded.outputs.gradients])
        for name in ("reduce_item", "count"):
            if name in used:
                raise DefinitionError(f"{self._what}: outer uses {name}, of which none is known")
        return folded

    def _kernel(self, k: int, real: str) -> tuple[Any, tuple[str, ...]]:
        """What makes the gradient of array ``k``, and which values of rows it reads."""
        definition = self.pairs.definition
        own, shared, inner = definition.own, definition.shared, definition.inner
        partials = 0 if inner is None else inner.partials
        mapped = shared - own
        pair = self._pair
        wanted = [mapped + n for n in range(partials)] if k < own else [k - own]
        types = _types(mapped + partials, definition.scalars, real)
        count = definition.values
        derived = derive_pointwise(
            pair, real, types, [real] * count, ("array",) * count, [f"x{n}" for n in wanted]
        )
        folded = self._folds(real)
        elements = folded.elements
        assert isinstance(elements, Derivation)
        gradients = [f"gx{n}" for n in range(count)]
        uses = elements.uses(gradients)
        used = tuple(n for n in uses if n[:2] == "gy" or n[0] == "a" or n.startswith("reduce_y"))
        back = {f"x{n - own}": f"x{n}" for n in range(own, shared)}
        back |= {f"x{mapped + n}": f"d{n}" for n in range(partials)}
        whole = [f"typeof_y0 cpv{n} = 0;\n" for n in range(count)]
        if any(n[0] == "x" for n in uses):
            again = renamed(pair.expr, back | {f"y{n}": f"cpv{n}" for n in range(count)})
            whole.append("{" + typed(again) + "}\n")
        at = {name: f"x{shared + n}" for n, name in enumerate(used)}
        at |= {f"x{n}": f"cpv{n}" for n in range(count)}
        handed = [(f"cpg{n}", name) for n, name in enumerate(gradients)]
        whole += [f"typeof_y0 {name} = 0;\n" for name, _ in handed]
        whole.append("{" + elements.snippet(handed, lambda n: at.get(n, n)) + "}\n")
        back |= {f"gy{n}": f"cpg{n}" for n in range(count)}
        results = [(f"y{n}", f"gx{m}") for n, m in enumerate(wanted)]
        whole.append("{" + derived.snippet(results, lambda n: back.get(n, n)) + "}\n")
        mentioned = "".join(whole)
        expr = reading(range(own, shared), range(definition.scalars), mentioned) + mentioned
        helpers = {
            elements.helpers(gradients): None,
            derived.helpers([g for _, g in results]): None,
        }
        outer = self._elements(k, real) if k < own else make("Reduction", "y0 = x0;", **SUM)
        operator = make(
            "Pairs",
            inner=None if inner is None else _bare(inner),
            expr=expr,
            outer=outer,
            preamble="".join(helpers),
            name="gradient",
        )
        return operator, used

    @cached_property
    def _pair(self) -> PointwiseDefinition:
        """A pair's values, of the arrays that ``expr`` reads and the partials of ``inner``."""
        definition = self.pairs.definition
        own, shared, inner = definition.own, definition.shared, definition.inner
        mapped, partials = shared - own, 0 if inner is None else inner.partials
        text = ""
        names = {f"x{n}": f"x{n - own}" for n in range(own, shared)}
        raw = {f"reduce_y{n}": f"x{mapped + n}" for n in range(partials)}
        if inner is not None and inner.finalize is not None:
            if "count" in inner.finalize.used:
                raise DefinitionError(f"{self._what}: inner uses count, of which none is known")
            results = range(inner.results)
            text = "".join(f"typeof_y0 cpd{n} = 0;\n" for n in results)
            assigned = raw | {f"y{n}": f"cpd{n}" for n in results}
            text += "{" + typed(renamed(inner.finalize, assigned)) + "}\n"
            raw = {f"reduce_y{n}": f"cpd{n}" for n in results}
        body = text + typed(renamed(definition.expr, names | raw))
        body = reading(range(mapped + partials), range(definition.scalars), body) + body
        return define_pointwise(body, name=None, preamble=definition.preamble)

    def _elements(self, k: int, real: str) -> Any:
        """The outer reduction that adds up the gradient of an inner array."""
        inner = self.pairs.definition.inner
        assert inner is not None
        bare = _bare(inner).definition
        types = _types(inner.inputs, inner.scalars, real)
        name = f"x{k}"
        folded = derive_reduction(bare, real, types, ("array",) * bare.results, (name,))
        elements = folded.elements
        handed = [n for n in folded.outputs.gradients if n[0] != "g"]
        uses = elements.uses([f"g{name}"])
        if (
            not isinstance(elements, Derivation)
            or handed
            or folded.taken.gradients
            or any(n.startswith("reduce_") for n in uses)
        ):
            raise DefinitionError(f"{self._what}: gradients of inner are known of sums alone")
        partials = bare.partials
        names = {f"gy{n}": f"x{n}" for n in range(partials)}
        names |= {f"x{n}": f"x{partials + n}" for n in range(inner.inputs)}
        text = elements.snippet([("y0", f"g{name}")], lambda n: names.get(n, n))
        text = reading(range(partials + inner.inputs), (), text) + text
        return make("Reduction", text, **SUM, preamble=elements.helpers([f"g{name}"]))


def _types(inputs: int, scalars: int, real: str) -> dict[str, str]:
    """OpenCL C types of arrays and numbers."""
    names = [f"x{n}" for n in range(inputs)] + [f"w{n}" for n in range(scalars)]
    return dict.fromkeys(names, real)


@lru_cache(maxsize=64)
def _bare(definition: ReductionDefinition) -> Any:
    """A reduction whose partials are its results."""
    return make(
        "Reduction",
        definition.expr.body,
        init=definition.init.text,
        step=definition.step.text,
        combine=definition.combine.text,
        preamble=definition.preamble,
    )


def _summed(made: Any, array: Any, inner: bool) -> Any:
    """A gradient of all batches in the shape of an array that may have fewer."""
    shape = array.shape[:-1] if inner else array.shape
    ends = array.shape[-1:] if inner else ()
    lines = made.shape[: len(made.shape) - 1] if inner else made.shape
    missing = len(lines) - 1 - max(0, len(shape) - 2)
    axes = [*range(missing)]
    for d, size in enumerate(shape[:-2]):
        if size == 1 and lines[missing + d] > 1:
            axes.append(missing + d)
    if ends == (1,) and made.shape[-1] > 1:
        axes.append(made.ndim - 1)
    if max(shape[-2:], default=1) == 1 and lines[-1] > 1:
        axes.append(len(lines) - 1)
    total = made.sum(axis=tuple(axes)) if axes else made
    found = total.reshape(array.shape)
    return found if found.dtype == array.dtype else found.astype(array.dtype)
