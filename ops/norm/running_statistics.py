"""Running mean and variance of a layer, as PyTorch keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from clprim.call.arguments import check_aliases, check_array
from clprim.errors import DTypeError, ShapeError, quoted
from clprim.ops.norm.checks import check_vector
from clprim.ops.shared.checks import is_array, real
from clprim.primitives.pointwise import Pointwise
from clprim.runtime.device import current_device

_count = Pointwise("y0 = x0 + 1;", name="count_batch")


class RunningStatistics:
    """The running mean and variance of a layer, checked before anything is computed."""

    def __init__(
        self,
        what: str,
        mean: Any,
        var: Any,
        channels: int,
        momentum: float | None,
        batches: Any,
        inputs: Sequence[Any],
    ) -> None:
        if (mean is None) != (var is None):
            missing = "running_mean" if mean is None else "running_var"
            raise DTypeError(f"{what}: {missing} is None; the running statistics go together")
        check_vector(what, "running_mean", mean, channels)
        check_vector(what, "running_var", var, channels)
        self.arrays = () if mean is None else (mean, var)
        check_aliases(what, self.arrays, inputs, same_allowed=False)
        self.batches = batches
        if is_array(batches):
            check_array(what, "num_batches_tracked", batches, current_device())
            if batches.size != 1 or batches.dtype.kind not in "iu":
                raise ShapeError(
                    f"{what}: num_batches_tracked has shape {batches.shape} and dtype "
                    f"{batches.dtype}, expected one integer"
                )
        elif batches is not None:
            count = real(what, "num_batches_tracked", batches)
            if not (count >= 0 and count.is_integer()):
                raise DTypeError(
                    f"{what}: num_batches_tracked={quoted(batches)}; expected an integer ≥ 0"
                )
        if momentum is None and batches is None and self.arrays:
            raise DTypeError(
                f"{what}: momentum=None averages all batches: num_batches_tracked= is needed"
            )
        if momentum is not None:
            momentum = real(what, "momentum", momentum)
        elif batches is not None and not is_array(batches):
            momentum = 1 / (int(batches) + 1)
        self.momentum = momentum

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arrays that `terms` reads: the running statistics, and the number of batches."""
        if not self.arrays or self.momentum is not None:
            return self.arrays
        return (*self.arrays, self.batches.reshape(1))

    def terms(self, mean: str, var: str, arrays: int, scalars: int, first: str) -> str:
        """Returns statements that take the statistics of a batch in."""
        if not self.arrays:
            return ""
        w = scalars
        change = [f"{mean} - x{arrays}", f"{var} * w{w} - x{arrays + 1}"]
        each = f"* w{w + 1}" if self.momentum is not None else f"/ (x{arrays + 2} + 1)"
        family, results = first[:-1], int(first[-1])
        return "".join(
            f"{family}{results + n} = x{arrays + n} + ({change[n]}) {each};\n" for n in range(2)
        )

    def numbers(self, unbiased: float) -> tuple[float, ...]:
        """Returns the numbers of `terms`."""
        if not self.arrays:
            return ()
        return (unbiased,) if self.momentum is None else (unbiased, self.momentum)

    def update(self, mean: Any, var: Any, unbiased: float) -> None:
        """Takes the statistics of a batch in, and counts it."""
        if self.arrays:
            operator = _update(self.terms("x0", "x1", 2, 0, "y0"))
            operator(mean, var, *self.inputs, *self.numbers(unbiased), out=self.arrays)
        self.count()

    def count(self) -> None:
        """Counts a batch, where there is an array to count in."""
        if is_array(self.batches):
            _count(self.batches, out=self.batches)


@lru_cache(maxsize=4)
def _update(expr: str) -> Pointwise:
    return Pointwise(expr, name="running_statistics")
