"""Types of poolings by the greatest element: a result, or with ``return_indices=True`` a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, overload

from clprim.arrays.array import Array
from clprim.ops.shared.ranks import Store
from clprim.ops.shared.window import Numbers, Padding

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Saved(TypedDict):
    """What is said of gradients; see `clprim.ops.registry.Facts`."""

    wrt: str
    saves: str


MAXIMA: Saved = {"wrt": "x", "saves": "return_indices: indices"}
Pair = tuple[Array, Array]
Ratio = float | Sequence[float]


class MaxPool(Protocol):
    """What `max_pool2d` is to a type checker."""

    @overload
    def __call__(
        self,
        x: Any,
        kernel_size: Numbers,
        stride: Numbers | None = ...,
        padding: Padding = ...,
        dilation: Numbers = ...,
        ceil_mode: bool = ...,
        return_indices: Literal[False] = ...,
        **store: Unpack[Store],
    ) -> Array: ...

    @overload
    def __call__(
        self,
        x: Any,
        kernel_size: Numbers,
        stride: Numbers | None = ...,
        padding: Padding = ...,
        dilation: Numbers = ...,
        ceil_mode: bool = ...,
        *,
        return_indices: Literal[True],
        **store: Unpack[Store],
    ) -> Pair: ...


class AdaptivePool(Protocol):
    """What `adaptive_max_pool2d` is to a type checker."""

    @overload
    def __call__(
        self,
        x: Any,
        output_size: Any,
        return_indices: Literal[False] = ...,
        **store: Unpack[Store],
    ) -> Array: ...

    @overload
    def __call__(
        self,
        x: Any,
        output_size: Any,
        return_indices: Literal[True],
        **store: Unpack[Store],
    ) -> Pair: ...


class FractionalPool(Protocol):
    """What `fractional_max_pool2d` is to a type checker."""

    @overload
    def __call__(
        self,
        x: Any,
        kernel_size: Numbers,
        output_size: Numbers | None = ...,
        output_ratio: Ratio | None = ...,
        return_indices: Literal[False] = ...,
        random_samples: Any = ...,
        **store: Unpack[Store],
    ) -> Array: ...

    @overload
    def __call__(
        self,
        x: Any,
        kernel_size: Numbers,
        output_size: Numbers | None = ...,
        output_ratio: Ratio | None = ...,
        *,
        return_indices: Literal[True],
        random_samples: Any = ...,
        **store: Unpack[Store],
    ) -> Pair: ...
