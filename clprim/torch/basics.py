"""Making, copying, viewing and resizing: what takes tensors themselves, not their arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from clprim.torch import dispatcher, numbers, private
from clprim.torch.copying import cast, copy_into, duplicate
from clprim.torch.kernels.elementwise import apply
from clprim.torch.layout import like
from clprim.torch.on_cpu import write
from clprim.torch.storages import set_storage
from clprim.torch.tensors import (
    adopt,
    array_of,
    download,
    is_inexact,
    is_lazy,
    look_at,
    new,
    on_device,
    upload,
)

_aten = torch.ops.aten
_as_given = like(0)
_CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}


def _strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(1, shape[d])
    return tuple(strides)


def _preserved(like: torch.Tensor) -> tuple[int, ...]:
    """Strides without gaps, in the order in which another tensor's elements lie."""
    if like.is_contiguous():
        return tuple(like.stride())
    return _strides(like.shape, private.elementwise_order(like))


def _elsewhere(device: Any) -> bool:
    """Whether a device is asked for that is not the first; it may be used from now on."""
    number = None if device is None else torch.device(device).index
    if not number:
        return False
    numbers.begin(number)
    return True


def _empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,  # layout, and whether memory is pinned
) -> torch.Tensor:
    if _elsewhere(device):
        how = {"dtype": dtype, "device": device, "memory_format": memory_format}
        return _aten.empty.memory_format(size, **how)
    order = _CHANNELS_LAST.get(memory_format) if memory_format else None
    strides = None if order is None else _strides(size, order)
    return new(tuple(size), dtype or torch.get_default_dtype(), strides)


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    **_: Any,
) -> torch.Tensor:
    if _elsewhere(device):
        return _aten.empty_strided.default(size, stride, dtype=dtype, device=device)
    return new(tuple(size), dtype or torch.get_default_dtype(), tuple(stride))


def _to_copy(
    x: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,
) -> torch.Tensor:
    kind = dtype or x.dtype
    target = torch.device(device) if device is not None else x.device
    if target.type != private.NAME:
        return download(x).to(device=target, dtype=kind, **_format(memory_format))
    if device is not None and _elsewhere(target):
        how = {"dtype": dtype, "device": device, "memory_format": memory_format}
        return _aten._to_copy.default(x, **how)
    if not on_device(x):
        return upload(x.detach().to(kind, **_format(memory_format)))
    if memory_format in _CHANNELS_LAST or memory_format is torch.contiguous_format:
        return _clone(x, memory_format, kind)
    found = cast(array_of(x), kind)
    return _as_given((x,), adopt(duplicate(found) if kind is x.dtype else found))


def _format(memory_format: torch.memory_format | None) -> dict[str, Any]:
    return {} if memory_format is None else {"memory_format": memory_format}


def _clone(
    x: torch.Tensor,
    memory_format: torch.memory_format | None = None,
    kind: torch.dtype | None = None,
) -> torch.Tensor:
    order = _CHANNELS_LAST.get(memory_format) if memory_format else None
    if order is not None:
        strides = _strides(x.shape, order)
    elif memory_format is torch.contiguous_format:
        strides = _strides(x.shape, range(x.ndim))
    else:
        strides = _preserved(x)
    made = new(tuple(x.shape), kind or x.dtype, strides)
    copy_into(array_of(made), array_of(x))
    return made


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> Any:
    if not on_device(target):
        target.copy_(download(source))
    elif is_lazy(target):  # then its memory gets what it stands for
        negated = target.is_neg()
        _copy_from(*(torch._neg_view(t) if negated else t.conj() for t in (source, target)))
    elif on_device(source):
        if target.numel():
            copy_into(array_of(target), array_of(source))
    elif target.numel():
        write(target, source.detach().expand(target.shape))
    return target


def _resize(
    x: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    size = tuple(size)
    if size == x.shape and memory_format is None:
        return x
    order = _CHANNELS_LAST.get(memory_format) if memory_format else None
    return set_storage(
        x,
        private.storage_of(x),
        x.storage_offset(),
        size,
        _strides(size, order or range(len(size))),
    )


def _as_strided_in_place(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    offset = x.storage_offset() if storage_offset is None else storage_offset
    private.adopt(x, private.restride(x, size, stride, offset))
    return x


def _set(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    private.adopt(x, source)
    return x


def _index_put(
    x: torch.Tensor,
    indices: Sequence[Any],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> torch.Tensor:
    return x.copy_(_aten.index_put.default(x, indices, values, accumulate))


def _fill(x: torch.Tensor, value: Any) -> torch.Tensor:
    if x.numel():
        if isinstance(value, torch.Tensor):
            value = value.item()
        kind = x.dtype
        held: Any = complex if kind.is_complex or kind is torch.bool else float
        if not isinstance(value, (bool, int, float, held)):
            raise RuntimeError(f"fill_: {value!r} is no number of {kind}")
        if not is_inexact(kind) and kind is not torch.bool:
            value = int(value)
        array_of(x).fill(bool(value) if kind is torch.bool else value)
    return x


def _item(x: torch.Tensor) -> Any:
    return download(x).item()


def _arange(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    if step == 0 or not (out.dtype.is_floating_point or int(step)):
        raise RuntimeError(f"arange: step must be nonzero, got {step} for {out.dtype}")
    whole = all(isinstance(v, int) for v in (start, end, step))
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if count < 0:
        raise RuntimeError(f"arange: no steps of {step} lead from {start} to {end}")
    _resize(out, (count,))
    if count:
        expr = "(typeof_y0){a} + (typeof_y0)index * (typeof_y0){b}"
        apply(expr, start, step, kind=out.dtype, out=array_of(out))
    return out


def _eye(rows: int, columns: int, *, out: torch.Tensor) -> torch.Tensor:
    _resize(out, (rows, columns))
    if out.numel():
        apply("coord(0) == coord(1)", kind=out.dtype, out=array_of(out))
    return out


def _linspace(start: Any, end: Any, steps: int, *, out: torch.Tensor) -> torch.Tensor:
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    _resize(out, (steps,))
    if steps:
        # From both ends, so that each is met exactly.
        expr = "2 * index < {d} ? {a} + {c} * index : {b} - {c} * ({d} - 1 - index)"
        step = (end - start) / max(1, steps - 1)
        whole = not is_inexact(out.dtype)
        kind = torch.float32 if whole else out.dtype
        ends = map(complex if kind.is_complex else float, (start, end))
        found = apply(expr, *ends, step, steps, kind=kind, shape=(steps,))
        copy_into(array_of(out), apply("trunc({a})", found, kind=kind) if whole else found)
    return out


_negative_view = private.alias(_aten._neg_view.default)


def _neg_view(x: torch.Tensor) -> torch.Tensor:
    look_at(x)
    return _negative_view(x)


def _pinned(original: Any) -> Any:
    """Memory of the host is as it is: PyTorch asks for pinned one in C++, and nothing needs it."""

    def pin_memory(tensor: torch.Tensor, *args: Any) -> Any:
        kind = torch.accelerator.current_accelerator()
        if kind is not None and kind.type == private.NAME:
            return tensor
        return original(tensor, *args)

    return pin_memory


def _assert(
    x: torch.Tensor, message: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """What PyTorch checks without waiting; here the answer is waited for."""
    if not x:
        raise RuntimeError(message)


def register() -> None:
    """Registers them all."""
    private.replace_method("pin_memory", _pinned)
    table: dict[str, Any] = {
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "_to_copy": _to_copy,
        "clone": lambda x, *, memory_format=None: _clone(x, memory_format),
        "_copy_from": _copy_from,
        "_copy_from_and_resize": lambda source, target: _copy_from(
            source, _resize(target, source.shape)
        ),
        "resize_": _resize,
        "set_.source_Tensor": _set,
        "as_strided_": _as_strided_in_place,
        "_index_put_impl_": _index_put,
        "fill_.Scalar": _fill,
        "fill_.Tensor": _fill,
        "zero_": lambda x: _fill(x, 0),
        "_local_scalar_dense": _item,
        "record_stream": lambda x, stream: None,  # what is launched later runs later
        "_assert_async": _assert,
        "_assert_async.msg": _assert,
        "_efficientzerotensor": lambda size, *, dtype=None, **_: _fill(
            _empty(size, dtype=dtype), 0
        ),
        "arange.start_out": _arange,
        "_neg_view": _neg_view,
        "eye.m_out": _eye,
        "linspace.out": _linspace,
    }
    for name, function in table.items():
        dispatcher.register_kernel(name, function)
    dispatcher.sees_lazy("_copy_from")
    private.print_with(download)
    for overload in (
        _aten.view.default,
        _aten.as_strided.default,
        _aten._reshape_alias.default,
        _aten.unfold.default,
        _aten.view_as_real.default,
        _aten.view_as_complex.default,
    ):
        packet = overload._schema.name.removeprefix("aten::")
        dispatcher.register_kernel(packet, private.alias(overload))
