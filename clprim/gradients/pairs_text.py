"""Text that gradients of a `Pairs` are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable


def reading(arrays: Iterable[int], numbers: Iterable[int], text: str) -> str:
    """Reads those arrays and numbers that a text does not mention: none may be left out."""
    arrays = [n for n in arrays if not re.search(rf"\bx{n}\b", text)]
    numbers = [n for n in numbers if not re.search(rf"\bw{n}\b", text)]
    read = "".join(f"typeof_y0 cpn{n} = x{n};\n" for n in arrays)
    return read + "".join(f"(void)w{n};\n" for n in numbers)


def typed(text: str) -> str:
    """The text with the type of pairs for locals that stand for operands."""
    return text.replace("typeof_cpd", "typeof_y").replace("typeof_cpv", "typeof_y")
