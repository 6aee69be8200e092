"""The table of operators: which overload of PyTorch's is which few lines over `clprim.ops`.

A kernel is a function of arrays and numbers. From one line follow its overload, the form that works
in place (``add_.Tensor``) and the one that writes to a given tensor (``add.out``).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from clprim.arrays.array import Array
from clprim.errors import DTypeError
from clprim.torch import dispatcher, private
from clprim.torch.copying import cast, check_target, copy_into
from clprim.torch.layout import Rule, laid, seldom
from clprim.torch.on_cpu import run_on_cpu
from clprim.torch.tensors import (
    adopt,
    array_of,
    array_or_none,
    elsewhere,
    is_lazy,
    kind_of,
    number_of,
    numpy_dtype,
    on_device,
    upload,
)


@dataclass(frozen=True)
class Kernel:
    """What computes some overloads."""

    names: tuple[str, ...]
    function: Callable[..., Any]
    out: bool
    lies: Rule | tuple[Rule, ...] | None
    indices: int | None
    record: str
    tensors: bool = False


_table: list[Kernel] = []


def kernel(
    *names: str,
    out: bool = False,
    lies: Rule | tuple[Rule, ...] | None = None,
    indices: int | None = None,
    record: str = "",
    named: bool = False,
    tensors: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function in the table; ``record`` is the operator's whose record names it.

    One that is ``named`` takes all arguments as one tuple; one of ``tensors`` takes them as they
    are, and is made of other overloads.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        run = by_name(names[0], function) if named else function
        _table.append(Kernel(names, run, out, lies, indices, record, tensors))
        return function

    return register


def by_name(name: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a function of an overload's arguments, of one of the tuple that they are by name."""
    found = overload(name)
    if found is None:
        return function  # of another version of PyTorch
    given = [a for a in found._schema.arguments if not a.is_out]
    defaults = [a.default_value if a.has_default_value() else None for a in given]
    make: Any = namedtuple
    arguments = make("arguments", [a.name for a in given], defaults=defaults)

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        if len(args) == len(given):  # as most are called; this way takes no call of Python's
            return function(tuple.__new__(arguments, args))
        return function(arguments(*args, **options))

    run.named = True  # type: ignore[attr-defined]
    return run


def decomposed(*names: str) -> None:
    """Puts overloads in the table that PyTorch itself makes of others."""
    known = torch._decomp.decomposition_table
    for name in names:
        function = known.get(overload(name))
        if function is not None:
            _table.append(Kernel((name,), function, False, None, None, "", tensors=True))


def kernels() -> tuple[Kernel, ...]:
    """Returns the whole table."""
    return tuple(_table)


def given(value: Any) -> Any:
    """Returns an argument as kernels take it: tensors on the device as arrays."""
    if isinstance(value, torch.Tensor):
        found = array_or_none(value)
        if found is not None:
            return found
        if value.ndim == 0:
            return number_of(value)
        raise elsewhere(value.device)
    if type(value) in (list, tuple):
        return [given(v) for v in value]
    return value


class Bound:
    """Which arguments of an overload are tensors, found once: `given` of these alone."""

    def __init__(self, overload: Any) -> None:
        arguments = overload._schema.arguments
        tensors = [a.name for a in arguments if "Tensor" in str(a.type) and not a.is_out]
        self._names = {*tensors}
        self._places = [n for n, a in enumerate(arguments) if a.name in self._names]

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Returns arguments as kernels take them."""
        values = list(args)
        for place in self._places:
            if place >= len(values):
                break
            values[place] = given(values[place])
        return values

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Likewise, of those by name."""
        return {n: given(v) if n in self._names else v for n, v in options.items()}


def returned(value: Any) -> Any:
    """Returns a kernel's result as PyTorch takes it."""
    if isinstance(value, Array):
        return adopt(value)
    if isinstance(value, (list, tuple)):
        return type(value)(returned(v) for v in value)
    return value


def _of_complex(name: str, error: DTypeError, *args: Any, **options: Any) -> Any:
    """Runs on the CPU what a kernel refuses of complex numbers; other refusals are raised."""
    for value in tree_flatten((args, options))[0]:
        if isinstance(value, complex) or (isinstance(value, torch.Tensor) and value.is_complex()):
            return run_on_cpu(overload(name), *args, **options)
    raise error


def _functional(name: str, entry: Kernel) -> Callable[..., Any]:
    function, bound = entry.function, Bound(overload(name))
    if entry.tensors:
        return function
    rules = seldom if entry.out and entry.lies is None else entry.lies
    rule = None if isinstance(rules, tuple) else rules

    def run(*args: Any, **options: Any) -> Any:
        try:
            if options:
                found = function(*bound.arguments(args), **bound.options(options))
            else:
                found = function(*bound.arguments(args))
        except DTypeError as error:
            return _of_complex(name, error, *args, **options)
        if type(found) is Array:
            return adopt(found) if rule is None else rule(args, adopt(found))
        return returned(found) if rules is None else laid(rules, args, returned(found))

    return run


def _in_place(name: str, entry: Kernel) -> Callable[..., Any]:
    function, out, bound = entry.function, entry.out, Bound(overload(name))

    def run(target: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if entry.tensors:
            return target.copy_(function(target, *args, **options))
        given = options
        if options:
            options = bound.options(options)
        array, *rest = bound.arguments((target, *args))
        if not isinstance(array, Array):
            raise elsewhere(target.device)
        try:
            if out:
                function(array, *rest, **options, out=array)
            else:
                copy_into(array, function(array, *rest, **options))
        except DTypeError as error:
            target.copy_(_of_complex(name, error, target, *args, **given))
        return target

    if name not in _OF_LAZY:
        return run

    def written(target: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if is_lazy(target):
            return target.copy_(overload(name)(target, *args, **options))
        return run(target, *args, **options)

    return written


# What PyTorch hands tensors that are conjugated, or negated, only when they are read.
_OF_LAZY = ("addmm", "baddbmm")
# What PyTorch refuses to write to one of its operands, or as another dtype than the result's.
_APART = {"cat", "gather", "index_select", "kthvalue", "masked_select", "take"}
_OF_ONE_DTYPE = {"amax", "amin", "aminmax", "gather"}


def _check_targets(name: str, targets: Sequence[torch.Tensor], operands: Any) -> None:
    """Refuses results that would overwrite each other or, of some operators, an operand."""
    for target in targets:
        if any(
            step == 0 < size - 1 for step, size in zip(target.stride(), target.shape, strict=True)
        ):
            raise RuntimeError(
                f"unsupported operation: {name}: more than one element of the written-to tensor "
                "refer to a single memory location; clone() it first"
            )
        for operand in operands if name in _APART else ():
            if _overlap(target, operand):
                raise RuntimeError(
                    f"unsupported operation: {name}: some elements of an input tensor and of the "
                    "written-to tensor refer to a single memory location; clone() one first"
                )


def _overlap(a: torch.Tensor, b: Any) -> bool:
    """Whether two tensors share memory, as far as the ranges that they lie in tell."""
    if not isinstance(b, torch.Tensor) or not a.numel() or not b.numel():
        return False
    if private.storage_of(a)._cdata != private.storage_of(b)._cdata:
        return False

    def last(t: torch.Tensor) -> int:
        reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        return int(t.storage_offset() + reach)

    return bool(a.storage_offset() <= last(b) and b.storage_offset() <= last(a))


def _to_out(name: str, entry: Kernel, names: tuple[str, ...]) -> Callable[..., Any]:
    function, packet, bound = entry.function, name.partition(".")[0], Bound(overload(name))

    def run(*args: Any, **options: Any) -> Any:
        targets = [options.pop(name) for name in names]
        for target in targets:
            if not on_device(target):
                raise elsewhere(target.device)
        _check_targets(packet, targets, tree_flatten((args, options))[0])
        if entry.tensors:
            found = tree_map(array_of, function(*args, **options))
        else:
            try:
                found = function(*bound.arguments(args), **bound.options(options))
            except DTypeError as error:
                found = tree_map(array_of, _of_complex(name, error, *args, **options))
        results = found if isinstance(found, (list, tuple)) else (found,)
        for target, result in zip(targets, results, strict=True):
            if entry.out:
                check_target(kind_of(result.dtype), array_of(target))
            if packet in _OF_ONE_DTYPE and numpy_dtype(target.dtype) != result.dtype:
                raise RuntimeError(
                    f"{packet}: Expected out tensor to have dtype {kind_of(result.dtype)}, but "
                    f"got {target.dtype} instead"
                )
            if is_lazy(target):
                target.copy_(adopt(result))
            elif tuple(target.shape) != result.shape:
                private.adopt(target, adopt(cast(result, target.dtype)))
            else:
                copy_into(array_of(target), result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return run


def _with_indices(place: int, run: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a form of a kernel that takes indices of the host too."""

    def copied(x: torch.Tensor, *args: Any, **options: Any) -> Any:
        if not on_device(x):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor "
                f"({x.device})"
            )
        given = list(args)
        given[place - 1] = [
            upload(i) if isinstance(i, torch.Tensor) and not on_device(i) else i
            for i in given[place - 1]
        ]
        return run(x, *given, **options)

    return copied


def overload(name: str) -> Any:
    """Returns PyTorch's overload of a name, or None where this version has none."""
    packet, _, which = name.partition(".")
    found = getattr(torch.ops.aten, packet, None)
    return getattr(found, which or "default", None)


# PyTorch makes them of others too, but differentiates them by formulas.
_DIFFERENTIATED = ("mish_backward", "silu_backward")


def _is_composite(name: str) -> bool:
    """Whether PyTorch makes an overload of others and differentiates these."""
    if name in _DIFFERENTIATED:
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(f"aten::{name}", "CompositeImplicitAutograd"))


def _same_arguments(a: Any, b: Any) -> bool:
    """Whether an overload takes what another one takes, but for what it writes to."""
    mine = [(x.name, str(x.type)) for x in a._schema.arguments if not x.is_out]
    other = [(x.name, str(x.type)) for x in b._schema.arguments if not x.is_out]
    return mine == other


def _siblings(name: str) -> Iterator[tuple[str, Any]]:
    """Yields the forms in place and with given results that belong to an overload."""
    base = overload(name)
    packet, _, _ = name.partition(".")
    for family in (f"{packet}_", packet):
        found = getattr(torch.ops.aten, family, None)
        for which in found.overloads() if found is not None else ():
            other = getattr(found, which)
            if other is not base and _same_arguments(base, other):
                yield f"{family}.{which}" if which != "default" else family, other


def register_all() -> None:
    """Registers every kernel of the table, with the forms that follow from it.

    The families of kernels, which fill the table, are to be imported before.
    """
    done: set[str] = set()
    for entry in _table:
        for name in entry.names:
            if overload(name) is None or _is_composite(name):
                continue  # of another version of PyTorch, or made of others with their gradients
            forms = [(name, _functional(name, entry))]
            for sibling, other in _siblings(name):
                outs = tuple(x.name for x in other._schema.arguments if x.is_out)
                if outs:
                    forms.append((sibling, _to_out(name, entry, outs)))
                elif other._schema.is_mutable:
                    forms.append((sibling, _in_place(name, entry)))
            for form, function in forms:
                if form not in done:
                    place = entry.indices
                    run = function if place is None else _with_indices(place, function)
                    dispatcher.register_kernel(form, run)
                    done.add(form)
    registered.update(done)


#: Names of all overloads that have a kernel, once they are registered.
registered: set[str] = set()
