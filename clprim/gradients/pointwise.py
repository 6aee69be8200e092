"""The gradient of a `Pointwise`: derived strings, run as one kernel for what is summed alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from clprim.errors import DefinitionError, ShapeError
from clprim.gradients.operator import OperatorGradient
from clprim.gradients.request import (
    Given,
    as_names,
    asked_of,
    is_array,
    is_floating,
    kind_of,
    sum_axes,
)
from clprim.gradients.stages import GradientStage, StageMaker
from clprim.language.complex_numbers import complex_operands, mentions_complex
from clprim.language.definition import PointwiseDefinition, define_pointwise
from clprim.language.gradient.by_hand import HandWritten
from clprim.language.gradient.complex_run import derive_pairs, is_pair, pairs_in
from clprim.language.gradient.derive import Derivation, derive, start, terms_of
from clprim.language.gradient.terms import Term
from clprim.plan.strides import broadcast_shapes, broadcasts_to


def derive_pointwise(
    definition: PointwiseDefinition,
    real: str,
    ctypes: Mapping[str, str],
    results: Sequence[str],
    grads: Sequence[str],
    wrt: Sequence[str],
    *,
    lenient: bool = False,
) -> Derivation:
    """Derives gradients of a `Pointwise`."""
    snippet = definition.expr
    if any(map(is_pair, (*ctypes.values(), *results))) or mentions_complex(snippet):
        return derive_pairs(snippet, real, ctypes, results, grads, wrt)
    names = [f"y{n}" for n in range(definition.results)]
    types = {**ctypes, **dict(zip(names, results, strict=True))}
    types |= {f"g{name}": real for name in types}
    leaves = [*ctypes.items(), *((f"gy{n}", real) for n in range(len(names)))]
    leaves += [("index", "long")]
    run = start(snippet.preamble, real, types, leaves)
    run.lenient = lenient
    for name in names:
        run.target(name, types[name])
    terms_of(run, snippet)
    values = {name: value for name in names if isinstance(value := run.cells[name], Term)}
    given = []
    for name, kind in zip(names, grads, strict=True):
        gradient = run.leaves[f"g{name}"] if kind != "one" else run.terms.number(1.0)
        if kind != "none" and name in values and isinstance(gradient, Term):
            given.append((values[name], gradient))
    gradients = derive(run, [snippet], given, wrt)
    return Derivation(run.terms, gradients, values, types, snippet.preamble)


class PointwiseGradient(OperatorGradient):
    """Gradients of a `Pointwise` in its arguments; see `Pointwise.gradient`.

    Printed, it is the derived strings.
    """

    def __init__(
        self,
        definition: PointwiseDefinition,
        what: str,
        *,
        wrt: Any = None,
        saves: Sequence[str] = (),
        result_types: Sequence[Any] | None = None,
        previous: PointwiseGradient | None = None,
        by_hand: str | None = None,
    ) -> None:
        self.definition = definition
        counts = (definition.inputs, definition.scalars, definition.results)
        known = [f"y{n}" for n in range(definition.results)]
        super().__init__(counts, what, wrt, saves, known)
        self._result_types = result_types
        self._previous = previous
        self._derived = lru_cache(maxsize=64)(self._derive)
        self._maker = StageMaker(self._saves)
        if by_hand is not None:
            forward, preamble = definition.expr, definition.preamble
            self._hand = HandWritten("Pointwise", by_hand, forward, preamble)
            names = tuple(name[1:] for name in self._hand.gradients)
            as_names(f"{self._what} by hand", names, *self._counts[:2])
            self._as_definition(names, ("array",) * definition.results)
        self._definite()  # what cannot be derived is refused now

    def __str__(self) -> str:
        if self._hand is not None:
            return self._hand.text
        derivation, names = self._definite()
        results = [(name, name) for name in names]
        text = derivation.snippet(results, saves=self._saves, real_name=f"typeof_{names[0]}")
        return derivation.helpers(names, self._saves) + text

    def reads(self, name: str, pairs: frozenset[str] = frozenset()) -> bool:
        """Whether the gradients depend on an argument, a result that is saved or a gradient.

        Arguments in ``pairs`` are complex.
        """
        derivation, names = self._definite(pairs)
        return name in derivation.uses(names, self._saves)

    def _definite(
        self, pairs: frozenset[str] = frozenset()
    ) -> tuple[Derivation | HandWritten, tuple[str, ...]]:
        """The derivation for float arrays, or complex ones, and the gradients in order."""
        inputs, _, results = self._counts
        wrt = self._wrt or asked_of(self._hand, self._names[:inputs])
        if not wrt:
            raise DefinitionError(f"{self._what}: without arrays, name scalars in wrt=")
        pairs |= pairs_in(self.definition.expr)
        ctypes = tuple((name, "float2" if name in pairs else "float") for name in self._names)
        kinds = ("array",) * results
        return self._derived("float", ctypes, kinds, wrt, True), tuple(f"g{n}" for n in wrt)

    def _derive(
        self,
        real: str,
        ctypes: tuple[tuple[str, str], ...],
        kinds: tuple[str, ...],
        wrt: tuple[str, ...],
        lenient: bool = False,
    ) -> Derivation | HandWritten:
        if self._hand is not None:
            self._hand.require(wrt)
            return self._hand.typed(real, kinds)
        pairs = self._pairs(ctypes)
        results = [
            f"{real}2"
            if n in pairs
            else real
            if self._result_types is None or is_floating(self._result_types[n])
            else "long"
            for n in range(self._counts[2])
        ]
        return derive_pointwise(
            self.definition, real, dict(ctypes), results, kinds, wrt, lenient=lenient
        )

    @property
    def complex_numbers(self) -> bool:  # type: ignore[override]
        """See `OperatorGradient`: no second ones, and none by hand."""
        return self._hand is None and self._previous is None

    def _pairs(self, ctypes: Sequence[tuple[str, str]]) -> frozenset[int]:
        """Which results are complex."""
        if self._result_types is not None:
            given = enumerate(self._result_types)
            return frozenset(n for n, dtype in given if dtype.kind == "c")
        return complex_operands(self.definition, tuple(kind for _, kind in ctypes)).results

    def gradient(self, wrt: Any = None, *, saves: Any = ()) -> PointwiseGradient:
        """Returns the gradient of this gradient.

        It is called with the arrays of the operator, the gradients that ``grad=`` held, and the
        scalars; ``grad=`` takes one gradient for each that this one returns. Where the former are
        left out, they are 1.
        """
        return self._next(("array",) * self._counts[2], wrt, saves)

    def _next(self, kinds: tuple[str, ...], wrt: Any, saves: Any) -> PointwiseGradient:
        wanted = self._wrt or asked_of(self._hand, [f"x{n}" for n in range(self._counts[0])])
        definition = self._as_definition(wanted, kinds)
        return PointwiseGradient(definition, self._what, wrt=wrt, saves=saves, previous=self)

    def _as_definition(
        self, wanted: tuple[str, ...], kinds: tuple[str, ...]
    ) -> PointwiseDefinition:
        """The strings as those of a `Pointwise`, which has the gradients of results as arrays."""
        inputs, scalars, results = self._counts
        # In double, in which no conversion to float and no digit is left out.
        ctypes = tuple((f"x{n}", "double") for n in range(inputs))
        ctypes += tuple((f"w{n}", "double") for n in range(scalars))
        derivation = self._derived("double", ctypes, kinds, wanted, True)
        names = [f"g{name}" for name in wanted]
        text = derivation.snippet(
            [(f"y{n}", name) for n, name in enumerate(names)],
            lambda name: f"x{inputs + int(name[2:])}" if name.startswith("gy") else name,
            exact=True,
        )
        grads = results if kinds[0] == "array" else 0
        mentioned = [f"x{n}" for n in range(inputs + grads)] + [f"w{n}" for n in range(scalars)]
        mention = "".join(f"(void){name};\n" for name in mentioned)
        return define_pointwise(mention + text, name=None, preamble=derivation.helpers(names))

    @cached_property
    def _plain(self) -> PointwiseGradient:
        """This gradient of a gradient, where the gradients that the other one took are 1."""
        assert self._previous is not None
        before = self._previous if self._previous._previous is None else self._previous._plain
        wrt = self._wrt
        if wrt is not None:
            wrt = tuple(name for name in wrt if name[0] == "w" or int(name[1:]) < before._counts[0])
        return before._next(("one",) * before._counts[2], wrt, self._saves)

    # Calls

    def __call__(self, *args: Any, grad: Any = None, saved: Any = (), out: Any = None) -> Any:
        """Computes the gradients."""
        if self._is_plain(args):
            return self._plain(*args, grad=grad, saved=saved, out=out)
        return self._run(*self._staged(args, grad, saved), out)

    def source(self, *args: Any, grad: Any = None, saved: Any = ()) -> str:
        """Returns the OpenCL C that these arguments would run, without running or building it."""
        if self._is_plain(args):
            return self._plain.source(*args, grad=grad, saved=saved)
        stages, _, values = self._staged(args, grad, saved)
        return "\n".join(stage.source(values) for stage in stages)

    def _is_plain(self, args: tuple[Any, ...]) -> bool:
        """Whether the gradients are missing that the gradient before this one took."""
        first: PointwiseGradient = self
        while first._previous is not None:
            first = first._previous
        return sum(first._counts[:2]) == len(args) != sum(self._counts[:2])

    def _prepare(
        self, given: Given, extra: Sequence[Any], *_options: Any
    ) -> tuple[tuple[GradientStage, ...], tuple[str, ...], None]:
        """Checks a call, and groups what is asked for by the axes along which it is summed."""
        wrt, kinds = self._asked(given), tuple(kind_of(g) for g in given.grads)
        self._check_pairs(given, self._pairs(given.ctypes))
        whole = self._shape(given, extra)
        derivation = self._derived(given.real, given.ctypes, kinds, wrt)
        places: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for name in wrt:
            shape = self._shape_of(name, given)
            # What is only asked for its sizes has a gradient of 0, of its own shape.
            taken = name[0] == "w" or int(name[1:]) in self.definition.broadcast
            places[name] = (whole, sum_axes(shape, whole)) if taken else (shape, ())
        values = self._values(given.arrays, given.scalars, given.grads, extra, None)
        stages = tuple(self._maker.summed(derivation, values, places))
        return stages, tuple(f"g{name}" for name in wrt), None

    def _shape(self, given: Given, extra: Sequence[Any]) -> tuple[int, ...]:
        """The shape of the results."""
        what, broadcast = self._what, self.definition.broadcast
        shape = broadcast_shapes(what, [given.arrays[n].shape for n in broadcast])
        grads = [(f"grad= of y{n}", g.shape) for n, g in enumerate(given.grads) if is_array(g)]
        if self._previous is not None:  # what was summed is broadcast again
            return broadcast_shapes(what, [shape, *(s for _, s in grads)])
        if grads and broadcasts_to(shape, grads[0][1]):
            shape = grads[0][1]  # of a larger out= or shape=
        saved = zip(self._saves, (a.shape for a in extra), strict=True)
        for label, found in (*grads, *((f"saved= of {name}", s) for name, s in saved)):
            if found != shape:
                raise ShapeError(
                    f"{what}: {label} has shape {found}, expected {shape}, the result's"
                )
        return shape
