"""``alpha`` and ``beta`` of a reduction: ``y = alpha * reduced + beta * y_old``, a result each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clprim.dtypes import AnyDType, is_integer, is_real, value_dtype
from clprim.errors import DTypeError, ShapeError
from clprim.plan.reduction.code import Scaling
from clprim.traits import DeviceTraits


def scale_results(
    what: str, alpha: Any, beta: Any, results: Sequence[AnyDType], traits: DeviceTraits
) -> list[Scaling]:
    """Returns how every result is scaled."""
    return [
        Scaling("plain") if kind == "plain" else Scaling(kind, _dtype(result, a, b, traits))
        for (kind, a, b), result in zip(
            _pairs(what, alpha, beta, len(results)), results, strict=True
        )
    ]


def scale_numbers(what: str, alpha: Any, beta: Any, results: int) -> tuple[Any, ...]:
    """Returns the numbers that the kernel takes, in the order of its parameters."""
    numbers: list[Any] = []
    for kind, a, b in _pairs(what, alpha, beta, results):
        numbers += {"plain": (), "scaled": (a,)}.get(kind, (a, b))
    return tuple(numbers)


def scale_signature(alpha: Any, beta: Any) -> tuple[Any, ...]:
    """Returns what decides the kernel: the numbers' types, and which of them do nothing."""
    alphas = alpha if isinstance(alpha, tuple | list) else (alpha,)
    betas = beta if isinstance(beta, tuple | list) else (beta,)
    return (
        *((type(a), is_real(a) and a == 1) for a in alphas),
        None,
        *((type(b), is_real(b) and b == 0) for b in betas),
    )


def _pairs(what: str, alpha: Any, beta: Any, results: int) -> list[tuple[str, Any, Any]]:
    alphas = _per_result(what, "alpha", alpha, results)
    betas = _per_result(what, "beta", beta, results)
    return [
        ("accumulate" if b != 0 else "plain" if a == 1 else "scaled", a, b)
        for a, b in zip(alphas, betas, strict=True)
    ]


def _per_result(what: str, label: str, value: Any, results: int) -> tuple[Any, ...]:
    given = tuple(value) if isinstance(value, tuple | list) else (value,) * results
    if len(given) != results:
        raise ShapeError(f"{what}: {label}= holds {len(given)} numbers for {results} results")
    for number in given:
        if not is_real(number):
            raise DTypeError(f"{what}: {label}= expects a number, got {type(number).__name__}")
    return given


def _dtype(result: AnyDType, alpha: Any, beta: Any, traits: DeviceTraits) -> AnyDType:
    """In which dtype the result is scaled: whole numbers scale whole results exactly."""
    if result.kind not in "biu":
        return value_dtype(result, [result])
    if all(is_integer(f) for f in (alpha, beta)):
        return np.dtype(np.int64)
    return np.dtype(np.float64 if traits.fp64 else np.float32)
