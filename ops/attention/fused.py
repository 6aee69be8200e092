"""Attention in one kernel, where the device has a plan for it."""

from __future__ import annotations

import math
from typing import Any

from clprim.arrays.memory import operand_of
from clprim.call.call import Call, bind
from clprim.call.signature import Calls
from clprim.plan.fused.attention import plan_attention
from clprim.runtime.device import current_device

__all__ = ["attend"]

_NAMES = ("y", "sums", "q", "k", "v", "mask")

_calls: Calls[Call] = Calls()


def attend(
    what: str,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    causal: bool,
    scale: float,
    out: Any,
    sums: Any,
) -> bool:
    """Computes attention and the logarithm of each query's sum; see `plan_attention`.

    Args:
        what: The operator, for messages.
        query: (…, L, E).
        key: (…, S, E), of the dtype of the sums.
        value: (…, S, F), likewise.
        mask: (…, L, S), or None.
        causal: Whether query i sees keys up to i alone.
        scale: Of products.
        out: (…, L, F), written.
        sums: (…, L, 1), written.

    Returns:
        Whether it did; if not, nothing was written.
    """
    device = current_device()
    inputs = (query, key, value) if mask is None else (query, key, value, mask)
    found, signature = _calls.look_up(device, inputs, (out, sums), (), (what, causal))
    if signature is None:
        return False
    if found is None:
        q, k, v, *masks = (operand_of(a) for a in inputs)
        results = operand_of(out), operand_of(sums)
        plan = plan_attention(q, k, v, *results, masks[0] if masks else None, causal, device.traits)
        if plan is None:
            return False
        found = bind(device, what, plan, _NAMES[: 2 + len(inputs)])
        _calls.remember(signature, found)
    found.run(device, (out, sums, *inputs), (scale * math.log2(math.e),))
    return True
