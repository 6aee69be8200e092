"""Operators whose results depend on flags, as type checkers see them: one signature each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from clprim.arrays.array import Array
from clprim.runtime.randomness import State

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)


class Drawing(Protocol[P]):
    """An operator that returns the state of random numbers as well where it is asked to."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, *args: Any, return_state: Literal[True], **options: Any
    ) -> tuple[Array, State | None]: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> Array: ...


def drawing(function: Callable[P, Array | tuple[Array, State | None]]) -> Drawing[P]:
    """Returns the function with the types of both its results."""
    return cast("Any", function)


class Distinct(Protocol[P]):
    """What finds distinct values; where each is, and how many, it returns where asked to."""

    @overload
    def __call__(
        self, x: Any, *, return_inverse: Literal[True], return_counts: Literal[True], **options: Any
    ) -> tuple[Array, Array, Array]: ...
    @overload
    def __call__(
        self,
        x: Any,
        *,
        return_inverse: Literal[True],
        sorted: bool = ...,
        dim: int | None = ...,
        axis: int | None = ...,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self,
        x: Any,
        *,
        return_counts: Literal[True],
        sorted: bool = ...,
        dim: int | None = ...,
        axis: int | None = ...,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, x: Any, *, sorted: bool = ..., dim: int | None = ..., axis: int | None = ...
    ) -> Array: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> Array | tuple[Array, ...]: ...


def distinct(function: Callable[P, Array | tuple[Array, ...]]) -> Distinct[P]:
    """Returns the function with the types of its results."""
    return cast("Any", function)


class Middle(Protocol):
    """A median: of all elements, or with its place along an axis."""

    @overload
    def __call__(self, x: Any, dim: None = ..., keepdim: bool = ...) -> Array: ...
    @overload
    def __call__(self, x: Any, dim: int, keepdim: bool = ...) -> tuple[Array, Array]: ...
    @overload
    def __call__(self, x: Any, *, keepdim: bool = ..., axis: int) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, x: Any, dim: int | None = ..., keepdim: bool = ..., *, axis: int | None = ...
    ) -> Array | tuple[Array, Array]: ...


def middle(function: Callable[..., Array | tuple[Array, Array]]) -> Middle:
    """Returns the function with the types of both its results."""
    return cast("Any", function)


class Saving(Protocol[P, R_co, S_co]):
    """An operator that returns what its gradient needs as well where it is asked to."""

    @overload
    def __call__(self, *args: Any, return_saved: Literal[True], **options: Any) -> S_co: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> R_co: ...


def saving(
    plain: type[R_co], saved: type[S_co]
) -> Callable[[Callable[P, Any]], Saving[P, R_co, S_co]]:
    """Returns the function with the types of both its results, which says nothing at run time."""
    return lambda function: cast("Any", function)
