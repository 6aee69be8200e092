"""The gradient of a snippet, ready to be printed for any choice of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clprim.errors import ComplexError, DefinitionError
from clprim.language.gradient import ctypes
from clprim.language.gradient.arithmetic import Macro
from clprim.language.gradient.derivatives import PREAMBLE, helper
from clprim.language.gradient.divide import share_divisors
from clprim.language.gradient.products import shorten_products
from clprim.language.gradient.read import Run
from clprim.language.gradient.reverse import Reverse
from clprim.language.gradient.terms import Term, Terms, needed
from clprim.language.gradient.values import ComplexRefusal, Refusal, Value
from clprim.language.gradient.write import write
from clprim.language.names import BUILTINS
from clprim.language.parser import parse_value
from clprim.language.preamble import Preamble
from clprim.language.snippet import Snippet
from clprim.language.tokens import caret_message, scan
from clprim.language.tree import Declare, Opaque, Type, Variable

_MACRO = re.compile(
    r"#\s*define\s+(?P<name>[A-Za-z_]\w*)(?:\((?P<args>[^)]*)\))?(?P<body>.*)", re.DOTALL | re.ASCII
)

_TOO_DEEP = "expressions are nested too deeply for a gradient; name a part of them by a local"


@dataclass(eq=False)
class Derivation:
    """Gradients as terms."""

    terms: Terms
    gradients: dict[str, Term]
    values: dict[str, Term]
    types: Mapping[str, str]
    preamble: Preamble = field(repr=False)

    @property
    def real(self) -> str:
        """The type of real operands."""
        return self.terms.real

    def known(self, saves: Iterable[str]) -> dict[Term, str]:
        """The terms that need no computing where these results are at hand."""
        found = {self.values[name]: name for name in saves if name in self.values}
        return {t: name for t, name in found.items() if t.args or t.text.startswith("reduce_y")}

    def order(self, names: Iterable[str], saves: Iterable[str] = ()) -> list[Term]:
        """All terms that some gradients need, each behind what it takes."""
        return needed([self.gradients[name] for name in names], self.known(saves))

    def uses(self, names: Iterable[str], saves: Iterable[str] = ()) -> list[str]:
        """The engine's names that some gradients need, saved results among them."""
        known = self.known(saves)
        order = self.order(names, saves)
        found = [known[t] for t in order if t in known]
        found += [t.text for t in order if t.op == "name" and t not in known]
        return list(dict.fromkeys(found))

    def snippet(
        self,
        results: Sequence[tuple[str, str]],
        names: Callable[[str], str] = str,
        saves: Iterable[str] = (),
        real_name: str = "typeof_y0",
        *,
        exact: bool = False,
    ) -> str:
        """Returns statements that assign gradients."""
        known = self.known(saves)
        wanted = [self.gradients[gradient] for _, gradient in results]
        if not exact:
            wanted = shorten_products(self.terms, *share_divisors(self.terms, wanted, known), known)
        lines = write(
            [(name, term) for (name, _), term in zip(results, wanted, strict=True)],
            real=self.terms.real,
            real_name=real_name,
            names=names,
            known={term: names(name) for term, name in known.items()},
            taken=self.preamble.names,
        )
        return "\n".join(lines)

    def helpers(self, names: Iterable[str], saves: Iterable[str] = ()) -> str:
        """Returns the preamble that a snippet of some gradients needs."""
        given = self.preamble
        defined = (given.names - BUILTINS) | given.functions.keys()
        mentioned = {t.text for t in self.order(names, saves) if t.op in ("call", "name")}
        own = [name for name in PREAMBLE if name in mentioned - defined]
        found = given.text if mentioned & defined else ""
        for name in PREAMBLE:  # of a gradient before this one, which was derived in double
            found = found.replace(helper(name, "double"), helper(name, self.terms.real))
        return found + "".join(helper(name, self.terms.real) for name in own)


def start(
    preamble: Preamble, real: str, types: Mapping[str, str], leaves: Iterable[tuple[str, str]]
) -> Run:
    """Returns a run in which nothing has been run."""
    terms = Terms(real)
    known: dict[str, Value] = {name: terms.leaf(name, ctype) for name, ctype in leaves}
    macros, constants = _declared(preamble)
    return Run(terms, dict(types), known, preamble.functions, macros, constants, preamble.names)


def terms_of(run: Run, snippet: Snippet) -> None:
    """Runs a snippet, which leaves its results in variables of ``run``."""
    run.part = snippet.rules.part
    try:
        run.block(snippet.statements)
    except Refusal as refusal:
        raise refused(refusal, [snippet]) from None
    except RecursionError:
        raise refused(Refusal(_TOO_DEEP), [snippet]) from None


def derive(
    run: Run,
    snippets: Sequence[Snippet],
    results: Sequence[tuple[Term, Term]],
    wrt: Sequence[str],
) -> dict[str, Term]:
    """Returns the gradients of ``wrt``, by name: ``gx0``."""
    names = {name: run.leaves[name] for name in wrt}
    leaves = [leaf for leaf in names.values() if isinstance(leaf, Term)]
    try:
        found = Reverse(run.terms, run.reasons).gradients(results, leaves)
    except Refusal as refusal:
        raise refused(refusal, snippets) from None
    except RecursionError:
        raise refused(Refusal(_TOO_DEEP), snippets) from None
    return {f"g{name}": found[leaf] for name, leaf in names.items() if isinstance(leaf, Term)}


def refused(refusal: Refusal, snippets: Sequence[Snippet]) -> ComplexError | DefinitionError:
    """Returns a refusal as an error with the snippet's line and a caret."""
    owner = snippets[0].rules.owner
    texts = {s.rules.part: s.text for s in snippets} | {"preamble": snippets[0].preamble.text}
    part = refusal.part if refusal.part in texts else snippets[0].rules.part
    start_, end = refusal.span
    text = texts[part]
    first = text[start_:end].split("\n", 1)[0]
    line = text.count("\n", 0, start_) + 1
    pieces = [p for s in snippets if s.rules.part == part for p in s.pieces if p.line <= line]
    if pieces:  # the line as it was written, where operands may have other names
        before = "\n".join(text.split("\n")[: pieces[-1].line - 1])
        part, text, start_ = pieces[-1].part, pieces[-1].text, start_ - len(before) - bool(before)
    message = caret_message(owner, part, text, start_, max(1, len(first)), refusal.problem)
    if isinstance(refusal, ComplexRefusal):
        return ComplexError(message, snippet=text)
    return DefinitionError(message)


def _declared(preamble: Preamble) -> tuple[dict[str, Macro], dict[str, str]]:
    """Macros that are expressions, and constants, of a preamble."""
    macros: dict[str, Macro] = {}
    constants: dict[str, str] = {}
    for part in preamble.tree.body:
        if isinstance(part, Opaque):
            found = _MACRO.match(part.text)
            if found is None:
                continue
            body = re.sub(r"\\[ \t]*\n", " ", found["body"]).strip()
            try:
                meaning = parse_value(f"({body})", scan("", "", f"({body})")) if body else None
            except DefinitionError:
                meaning = None
            if meaning is None or isinstance(meaning, Type):
                continue
            args = found["args"]
            names = None if args is None else tuple(a.strip() for a in args.split(",") if a.strip())
            macros[found["name"]] = (names, meaning)
        elif isinstance(part, Declare):
            words = part.type.text.replace("__constant", "").replace("constant", "")
            ctype = ctypes.of_words(words.replace("static", ""), {})
            for variable in part.variables:
                if ctype is not None and isinstance(variable, Variable):
                    constants[variable.name] = ctype
    return macros, constants
