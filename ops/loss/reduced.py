"""What losses share: ``reduction=``, and losses that are a string of each element."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.dtypes import AnyDType, promote
from clprim.errors import DefinitionError, quoted
from clprim.ops.shared.checks import check_floating, check_real, dtype_of
from clprim.ops.shared.sums import added
from clprim.primitives.pointwise import Pointwise
from clprim.primitives.reduction import Reduction

REDUCTIONS = ("mean", "sum", "none")


def check_reduction(what: str, reduction: Any, more: tuple[str, ...] = ()) -> str:
    """Returns ``reduction`` if it is one."""
    known = (*REDUCTIONS, *more)
    if not isinstance(reduction, str) or reduction not in known:
        raise DefinitionError(
            f"{what}: reduction={quoted(reduction)}; expected {', '.join(map(repr, known))}"
        )
    return reduction


def above_0(value: str) -> str:
    """C for max(0, value) with the gradient of PyTorch's clamp: 1 at 0, and 0 of NaN."""
    return f"({value} >= 0 ? {value} : {value} < 0 ? (typeof_y0)0 : (typeof_y0)NAN)"


class Loss:
    """A loss that is a string of each element; its gradient is derived from it."""

    def __init__(self, name: str, loss: str, inputs: int = 1, gradient: str | None = None) -> None:
        self._name, self.text, self._inputs, self._gradient = name, loss, inputs, gradient

    def __call__(
        self,
        reduction: str,
        arrays: Sequence[Any],
        numbers: Sequence[float] = (),
        *,
        out: Any = None,
    ) -> Array:
        """Returns the loss of every element, their mean or their sum."""
        check_reduction(self._name, reduction, ("batchmean",))
        dtype = self._dtype(arrays)
        result: Array
        operator: Any
        if reduction == "none":
            operator = _losses(self.text, self._gradient, dtype, self._name)
            result = operator(*arrays, *numbers, out=out)
            return result
        if reduction == "batchmean":
            shape = arrays[0].shape
            numbers = (*numbers, 1 / max(1, shape[0] if shape else 1))
        texts = self.text, self._gradient
        operator = _reduced(texts, reduction, dtype, self._name, len(numbers) - 1)
        result = operator(*arrays, *numbers, out=out)
        return result

    def _dtype(self, arrays: Sequence[Any]) -> AnyDType:
        """The dtype of the loss."""
        found = [
            check_floating(self._name, "input" if n == 0 else f"input{n + 1}", a)
            if n < self._inputs
            else dtype_of(self._name, "target", a)
            for n, a in enumerate(arrays)
        ]
        check_real(self._name, *arrays)
        return promote([d for d in found if d.kind not in "biu"])


def scaled(reduction: str, shape: tuple[int, ...]) -> float:
    """Returns what the gradient of every element is multiplied with."""
    if reduction == "batchmean":
        return 1 / max(1, shape[0] if shape else 1)
    return 1 / max(1, math.prod(shape)) if reduction == "mean" else 1


@lru_cache(maxsize=256)
def _losses(loss: str, gradient: str | None, dtype: AnyDType, name: str) -> Pointwise:
    return Pointwise(loss, gradient=gradient, result_type=dtype, name=name)


@lru_cache(maxsize=256)
def _reduced(
    texts: tuple[str, str | None], reduction: str, dtype: AnyDType, name: str, number: int
) -> Reduction:
    loss, gradient = texts
    part = {"mean": " / count", "sum": "", "batchmean": f" * w{number}"}[reduction]
    kind = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    return Reduction(
        loss,
        **added(1),
        finalize=f"y0 = reduce_y0{part};",
        gradient=gradient and re.sub(r"\bgy0\b", f"(gy0{part})", gradient),
        result_type=dtype,
        partial_type=kind,
        name=name,
    )
