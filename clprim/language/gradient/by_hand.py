"""Gradients that a user wrote: the same as derived ones for who makes kernels of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy

from clprim.errors import DefinitionError
from clprim.language.snippet import Snippet
from clprim.language.tokens import Token, caret_message, tokenize

_ENGINE = re.compile(r"(typeof_)?((?:gx|gw|gy|reduce_y|x|w|y)\d+|count|reduce_item|index)$")
_GRADIENT = re.compile(r"g[xw]\d+$", re.ASCII)
_ASSIGNING = frozenset("= += -= *= /=".split())


class HandWritten:
    """A gradient in the user's words: it assigns ``gxN`` and ``gwN``."""

    def __init__(self, owner: str, text: str, forward: Snippet | None, preamble: str) -> None:
        if not isinstance(text, str):
            raise DefinitionError(
                f"{owner} gradient: expected a string of OpenCL C, got {type(text).__name__}"
            )
        self.text = text if text.rstrip().endswith((";", "}")) else text + ";"
        self.owner = owner
        self.forward = forward
        self.preamble = preamble
        self.real = "float"
        self.none: frozenset[str] = frozenset()
        tokens = tokenize(owner, "gradient", self.text)
        texts = [token.text for token in tokens]
        self.gradients = sorted(
            {
                token.text
                for token, after in zip(tokens, [*texts[1:], ""], strict=True)
                if _GRADIENT.match(token.text) and after in _ASSIGNING
            },
            key=lambda name: (name[1] == "w", int(name[2:])),
        )
        if not self.gradients:
            raise DefinitionError(
                caret_message(owner, "gradient", self.text, 0, 1, "it assigns no gxN and no gwN")
            )
        self.names = {t.text for t in tokens if t.kind == "name"}

    def typed(self, real: str, grads: Sequence[str]) -> HandWritten:
        """Returns it for operands of a type, where some gradients of results are 0."""
        found = copy(self)
        found.real = real
        found.none = frozenset(f"gy{n}" for n, kind in enumerate(grads) if kind == "none")
        return found

    def require(self, wrt: Iterable[str]) -> None:
        """Refuses what the text does not assign."""
        for name in wrt:
            if f"g{name}" not in self.gradients:
                problem = f"it never assigns g{name}, which is asked for"
                raise DefinitionError(
                    caret_message(self.owner, "gradient", self.text, 0, 1, problem)
                )

    def uses(self, names: Iterable[str], saves: Iterable[str] = ()) -> list[str]:
        """The engine's names that the text needs."""
        del names
        found = [*self._mentioned(self.names)]
        if self._recomputes(saves) and self.forward is not None:
            found += self._mentioned({t.text for t in self.forward.tokens if t.kind == "name"})
        outside = ("gx", "gw") if not self._recomputes(saves) else ("gx", "gw", "y")
        return [n for n in dict.fromkeys(found) if not n.startswith(outside) and n not in self.none]

    def snippet(
        self,
        results: Sequence[tuple[str, str]],
        names: Callable[[str], str] = str,
        saves: Iterable[str] = (),
        real_name: str = "typeof_y0",
        *,
        exact: bool = True,
    ) -> str:
        """Returns statements that assign gradients; see `Derivation.snippet`."""
        del exact
        assigned = {gradient: name for name, gradient in results}
        left = [name for name in self.gradients if name not in assigned]
        lines = [f"{real_name} less_{name};" for name in left]
        renamed: dict[str, str] = {name: f"less_{name}" for name in left} | assigned
        recomputed = [n for n in self.names if re.fullmatch(r"y\d+", n)]
        if self._recomputes(saves) and self.forward is not None:
            every = sorted(f"y{n}" for n in self.forward.assigned_numbers("y"))
            lines += [f"{real_name} forward_{name};" for name in every]
            again = {name: f"forward_{name}" for name in every}
            lines.append(f"{{\n{self._written(self.forward.body, names, again, real_name)}\n}}")
            renamed |= {name: f"forward_{name}" for name in recomputed}
        lines.append(self._written(self.text, names, renamed, real_name))
        return "\n".join(lines)

    def helpers(self, names: Iterable[str], saves: Iterable[str] = ()) -> str:
        """Returns the preamble that it needs."""
        del names, saves
        return self.preamble

    def _recomputes(self, saves: Iterable[str]) -> bool:
        """Whether results are needed that are not at hand."""
        needed = {n for n in self.names if re.fullmatch(r"y\d+", n)}
        return self.forward is not None and bool(needed - {*saves})

    @staticmethod
    def _mentioned(names: Iterable[str]) -> list[str]:
        found = (_ENGINE.match(name) for name in sorted(names) if name[:8] != "typeof_y")
        return [match[2] for match in found if match and match[2] != "index"]

    def _written(
        self,
        text: str,
        names: Callable[[str], str],
        renamed: Mapping[str, str],
        real_name: str,
    ) -> str:
        """A text with the engine's names as a kernel has them."""
        pieces: list[str] = []
        at = 0
        tokens: Iterable[Token] = tokenize(self.owner, "gradient", text)
        for token in tokens:
            match = _ENGINE.match(token.text) if token.kind == "name" else None
            if match is None:
                continue
            name = match[2]
            if match[1]:
                is_input = name[0] in "xw"
                new = f"typeof_{names(name)}" if is_input else real_name
            elif name in self.none:
                new = f"(({real_name})0)"
            else:
                new = renamed[name] if name in renamed else names(name)
            pieces += [text[at : token.start], new]
            at = token.end
        return "".join([*pieces, text[at:]])
