"""Attention over nested tensors of the jagged layout: padded on the device, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nested._internal.nested_tensor import nested_from_padded

from clprim.errors import DeviceError
from clprim.torch import dispatcher, private


def _seen(key: Any, length: int) -> torch.Tensor:
    """Returns which of a sequence's padded keys there are: one row a sequence."""
    places = torch.arange(length, device=key.device)
    return places < key.offsets().diff()[:, None]


def _attend(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Any:
    place = query._ragged_idx
    rows = [_in_rows(x, place) for x in (query, key, value)]
    padded = []
    for x in rows:
        sizes = [x.shape[0], x._get_max_seqlen(), *x.shape[2:]]
        padded.append(x.to_padded_tensor(0.0, output_size=sizes).transpose(1, place))
    seen = None
    # Keys behind a sequence's end are behind all of its queries.
    if not (is_causal and rows[0].shape[1] == rows[1].shape[1]):
        length = padded[1].shape[-2]
        seen = _seen(rows[1], length).view(-1, *[1] * (query.dim() - 2), length)
        if is_causal:
            shape = padded[0].shape[-2], length
            seen = seen & torch.ones(shape, dtype=torch.bool, device=seen.device).tril()
    found = torch.nn.functional.scaled_dot_product_attention(
        *padded, seen, dropout_p, is_causal and seen is None, scale=scale, enable_gqa=enable_gqa
    ).transpose(1, place)
    x = rows[0]
    most, least = x._maybe_max_seqlen, x._maybe_min_seqlen
    made = nested_from_padded(found, x.offsets(), 1, least, most, x.values().shape[0])
    return made.transpose(1, place)


def _in_rows(x: Any, place: int) -> Any:
    """Returns sequences in dimension 1, without the holes that `torch.nested.narrow` leaves."""
    x = x.transpose(1, place)
    return x if x._lengths is None else x.contiguous()


def _attention(original: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's, which chooses among kernels of other devices, but for tensors on this one."""

    def run(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        options: Any = {"scale": scale, "enable_gqa": enable_gqa}
        args = query, key, value, attn_mask, dropout_p, is_causal
        ragged = {x.dim() - 2 - x._ragged_idx if x.is_nested else 1 for x in args[:3]}
        if query.device.type != private.NAME or ragged != {0} or attn_mask is not None:
            return original(*args, **options)
        query, key, value, _ = private.checked_nested(*args, scale)
        return _attend(query, key, value, dropout_p, is_causal, **options)

    return run


def _refuse(overload: Any, *_: Any, **__: Any) -> None:
    raise DeviceError(
        f"{overload.name().removeprefix('aten::')}: nested tensors on {private.NAME!r} are of the "
        "jagged layout; given one of the strided layout: make it with layout=torch.jagged"
    )


def register() -> None:
    """Lets nested tensors of the device attend to one another."""
    private.attend_to_nested(_attention)
    dispatcher.nested_falls_to(_refuse)
