"""What was computed from constants that stay, kept with them: other signatures find it again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from clprim.call.packed import PackedWeight

_kept: weakref.WeakKeyDictionary[PackedWeight, dict[Hashable, Any]] = weakref.WeakKeyDictionary()


def kept_with(weights: Sequence[PackedWeight], key: Hashable, make: Callable[[], Any]) -> Any:
    """Returns what was made of weights, and makes it the first time.

    Args:
        weights: That it depends on, one at least.
        key: What tells it apart from other things made of them.
        make: What makes it.
    """
    first, *others = weights
    found = _kept.setdefault(first, {})
    whole = key, *map(id, others)
    if whole not in found:
        found[whole] = make(), others  # which live as long as their numbers stand for them
    return found[whole][0]
