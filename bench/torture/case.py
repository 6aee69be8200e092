"""A case: what is run, what its results have to be, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.torture.draw import Host


class WrongError(Exception):
    """A result that is not what it has to be."""


@dataclass(frozen=True)
class Case:
    """Something to run, any number of times and from any thread."""

    text: str
    run: Callable[[], tuple[Host, ...]]
    expected: tuple[Host, ...]
    tolerance: float = 0.0

    def check(self) -> None:
        for n, (found, wanted) in enumerate(zip(self.run(), self.expected, strict=True)):
            if found.shape != wanted.shape:
                raise WrongError(f"y{n} has shape {found.shape}, expected {wanted.shape}")
            difference = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
            allowed = self.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
            wrong = ~(difference <= allowed)
            if found.dtype.kind in "iu" and wanted.dtype.kind in "iu":
                wrong = found != wanted  # of 64 bits, more than float64 holds
            if wrong.any():
                place = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise WrongError(
                    f"y{n} of shape {wanted.shape}: {int(wrong.sum())} elements are wrong, the "
                    f"first at {place}: {found[place]} for {wanted[place]}"
                )
