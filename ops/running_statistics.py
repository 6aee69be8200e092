"""Running mean and variance of a layer, as PyTorch keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clprim.ops.common import is_array, real
from clprim.ops.norm_arguments import check_vector

from clprim.arguments import check_aliases, check_array
from clprim.errors import DTypeError, ShapeError
from clprim.pointwise import Pointwise
from clprim.runtime.device import current_device

__all__ = ["RunningStatistics"]

_update = Pointwise(
    "y0 = x0 + w0 * (x2 - x0); y1 = x1 + w0 * (x3 * w1 - x1);", name="running_statistics"
)
_update_average = Pointwise(
    """
    typeof_y0 batches = x4 + 1;
    y0 = x0 + (x2 - x0) / batches;
    y1 = x1 + (x3 * w0 - x1) / batches;
    """,
    name="running_average",
)
_count = Pointwise("y0 = x0 + 1;", name="count_batch")


class RunningStatistics:
    """The running mean and variance of a layer, checked before anything is computed.

    Args:
        what: The operator, for messages.
        mean: The running mean, (C,), or None.
        var: The running variance, (C,), or None as well.
        channels: C.
        momentum: Weight of a batch; None for the average of all.
        batches: How many came before: a number, an array of one integer, or None.
        inputs: Other arrays of the call, which these must not overlap.

    Raises:
        ShapeError, DTypeError, DeviceError: With what was given and what was expected.
    """

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
        elif batches is not None and (
            real(what, "num_batches_tracked", batches) < 0 or batches != int(batches)
        ):
            raise DTypeError(f"{what}: num_batches_tracked={batches!r}; expected an integer ≥ 0")
        if momentum is None and batches is None and self.arrays:
            raise DTypeError(
                f"{what}: momentum=None averages all batches: num_batches_tracked= is needed"
            )
        self.momentum = None if momentum is None else real(what, "momentum", momentum)

    def update(self, mean: Any, var: Any, unbiased: float) -> None:
        """Takes the statistics of a batch in, and counts it.

        Args:
            mean: Of the batch, (C,).
            var: Likewise, biased.
            unbiased: By what to multiply the biased variance: n / (n - 1).
        """
        momentum = self.momentum
        if momentum is None and not is_array(self.batches) and self.batches is not None:
            momentum = 1 / (int(self.batches) + 1)
        if self.arrays and momentum is not None:
            _update(*self.arrays, mean, var, momentum, unbiased, out=self.arrays)
        elif self.arrays:
            batches = self.batches.reshape(1) if self.batches.shape != (1,) else self.batches
            _update_average(*self.arrays, mean, var, batches, unbiased, out=self.arrays)
        if is_array(self.batches):
            _count(self.batches, out=self.batches)
