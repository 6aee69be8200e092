"""Operators that have a backward operator: what it is called with inside a trace."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np

from clprim.arrays.array import Array
from clprim.arrays.creation import asarray, ones_like, zeros
from clprim.call.packed import matrix_of
from clprim.errors import DefinitionError
from clprim.graph.spans import Rule, arrays_in, differentiable
from clprim.ops.gradients import composed
from clprim.ops.gradients.contractions import apply_epilogue, with_windows
from clprim.ops.registry import OPERATORS
from clprim.ops.shared.checks import is_array
from clprim.ops.shared.dims import named_once, one_axis
from clprim.ops.shared.epilogue import split_arguments
from clprim.ops.shared.sums import SUM
from clprim.plan.strides import reduced_axes

# Backward operators that only move, pick or scale, and what they are the backward operators of: the
# gradient of each is the other one.
_LINEAR = "avg_pool1d avg_pool2d avg_pool3d pad gather index_select take index take_along_dim"
# Others whose rules hold of complex numbers.
_COMPLEX = """
    cumsum cumprod prod cross embedding fold unfold affine_grid roll
    index_put scatter scatter_add index_add index_copy index_fill
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    max_unpool1d max_unpool2d max_unpool3d
"""
# Operators that are made of others where gradients of gradients are asked for.
_COMPOSED = (
    "layer_norm group_norm rms_norm instance_norm cumprod logcumsumexp "
    "scaled_dot_product_attention batch_norm_train"
)

# Of recurrent layers and cells how many results have gradients.
_LAYERS = {"lstm": 3, "gru": 2, "rnn": 2}
_CELLS = {"lstm_cell": 2, "gru_cell": 1, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}
_DROPOUTS = "dropout dropout1d dropout2d dropout3d"


def _rules(namespace: Mapping[str, Any]) -> dict[str, Rule]:
    """Returns the rules of operators, by name."""
    ops = _Names(namespace)
    found = {}
    for name, facts in OPERATORS.items():
        if facts.wrt:
            told, _, made = facts.saves.rpartition(": ")
            backward = ops[facts.backward or f"{name}_backward"]
            found[name] = Rule(facts.wrt, backward, told, made)
    found["instance_norm"] = replace(
        found["instance_norm"],
        aside="running_mean running_var",
        when=lambda given: bool(given["use_input_stats"]),
    )
    found["cumprod"] = replace(found["cumprod"], when=_forward)
    for name in _LINEAR.split():
        found[f"{name}_backward"] = Rule("grad", ops[name], aside="x")
    found["batch_norm_train"] = Rule(
        "x weight bias",
        ops["batch_norm_backward"],
        made="save_mean save_invstd",
        aside="running_mean running_var",
    )
    for name, grads in _LAYERS.items():
        found[name] = Rule(
            "input hx params",
            partial(_recurrent, ops[f"{name}_backward"]),
            *("return_saved", "saved"),
            grads,
            known=True,
            when=lambda given: not (given["dropout"] and given["train"]),
        )
    for name, grads in _CELLS.items():
        step = partial(_step, ops[f"{name}_backward"])
        wrt = "input hx w_ih w_hh b_ih b_hh"
        found[name] = Rule(wrt, step, "return_saved", "saved", grads, known=True)
    for name in _DROPOUTS.split():
        found[name] = Rule(instead=partial(_dropped, namespace[name]))
    for name, (wrt, rule) in _RULES.items():
        aside = "x input" if name.endswith("_backward") else ""
        found[name] = Rule(wrt, partial(rule, ops), known=True, aside=aside)
    found["prod"] = replace(found["prod"], when=lambda given: given["x"].dtype.kind == "c")
    found["scaled_dot_product_attention"] = Rule(
        "query key value attn_mask score_args",
        partial(_attention, ops["scaled_dot_product_attention_backward"]),
        *("return_stats", "logsumexp state"),
        known=True,
        when=lambda given: not given["dropout_p"] and given["length"] is None,
    )
    for name in (*_LINEAR.split(), *_COMPLEX.split()):
        found[name] = replace(found[name], complexes=True)
    for name in _COMPOSED.split():
        found[name] = replace(found[name], twice=getattr(composed, name))
    return found


def _forward(given: Mapping[str, Any]) -> bool:
    return not (given["exclusive"] or given["reverse"])


def _recurrent(backward: Callable[..., Any], c: Any) -> Any:
    return backward(*c.grads, c.saved)


def _step(backward: Callable[..., Any], c: Any) -> Any:
    dx, dh, params = backward(*c.grads, c.saved)
    return dx, dh, *params


def _dropped(dropout: Callable[..., Any], x: Any, *args: Any, **options: Any) -> Any:
    """Drops out of ones, which have no gradient, and multiplies."""
    found = dropout(ones_like(x), *args, **options)
    return (found[0] * x, found[1]) if isinstance(found, tuple) else found * x


def _attention(backward: Callable[..., Any], c: Any) -> Any:
    of_mask, of_score = c.wanted["attn_mask"], c.wanted["score_args"]
    given = c.grad, c.query, c.key, c.value, c.output, c.logsumexp, 0.0, c.is_causal
    names = "attn_mask scale enable_gqa score score_args"
    how = {name: getattr(c, name) for name in names.split()}
    found = backward(*given, **how, mask_gradient=of_mask, score_gradient=of_score)
    grads = found[-1] if of_score else ()
    # What has none stands in its own place.
    read = zip(arrays_in(c.score_args), grads, strict=False)
    slopes = tuple(x if g is None else g for x, g in read)
    return *found[:3], found[3] if of_mask else None, slopes


# --- rules of operators whose backward operators take other arguments, or have other names --------


def _settings(c: Any) -> dict[str, Any]:
    """Of a convolution."""
    return {key: getattr(c, key) for key in ("stride", "padding", "dilation", "groups")}


def _convolved(call: _Names, c: Any) -> Any:
    how, w = _settings(c), matrix_of(c.w)
    dx = call.conv3d_input(c.x.shape, w, c.grad, **how)
    return dx, call.conv3d_weight(c.x, w.shape, c.grad, **how), _sums(c.grad, c.bias)


def _transposed(call: _Names, c: Any) -> Any:
    how, w, sizes = _settings(c), matrix_of(c.w), c.x.shape[-3:]
    dx = call.conv3d(c.grad, w, **how)[..., : sizes[0], : sizes[1], : sizes[2]]
    x = with_windows(c.x, c.output_padding, c.stride, 3)
    return dx, call.conv3d_weight(c.grad, w.shape, x, **how), _sums(c.grad, c.bias)


def _sums(grad: Array, bias: Any) -> Array | None:
    """The gradient of a bias: all but the axis of channels is added up."""
    axes = tuple(d for d in range(grad.ndim) if d != grad.ndim - 4)
    return None if bias is None else SUM(grad, axis=axes)


def _embedding(call: _Names, c: Any) -> Any:
    count = c.weight.shape[0]
    none = -1 if c.padding_idx is None else c.padding_idx % count
    return call.embedding_backward(c.grad, c.indices, count, none, c.scale_grad_by_freq)


def _picked(call: _Names, c: Any) -> Any:
    if c.dim is None and c.axis is None and len(c.made) == 1:  # the median of all
        won = ((c.x == c.output) | ((c.x != c.x) & (c.output != c.output))).astype(c.x.dtype)
        return won * (c.grad / won.sum())
    at = one_axis("median", c.x, c.dim, c.axis, -1)
    alone = (slice(None),) * at + (() if c.keepdim else (None,))
    return call.sort_backward(c.grad[alone], at, c.made[1][alone], c.x.shape)


def _summed(call: _Names, c: Any) -> Any:
    how = {"axis": c.axis, "exclusive": c.exclusive, "reverse": not c.reverse}
    return call.cumsum(c.grad, c.dim, **how)


def _multiplied(call: _Names, c: Any) -> Any:
    """The products of all other elements: those before one and those behind it."""
    axes = reduced_axes("prod", named_once("prod", c.dim, c.axis), c.x.ndim)
    order = [*(d for d in range(c.x.ndim) if d not in axes), *axes]
    moved, kept = c.x.transpose(order), len(order) - len(axes)
    rows = moved.reshape(*moved.shape[:kept], math.prod(moved.shape[kept:]))
    before, after = (call.cumprod(rows, -1, exclusive=True, reverse=r) for r in (False, True))
    others = (before * after).conj() * c.grad.reshape(*rows.shape[:-1], 1)
    return others.reshape(moved.shape).transpose([order.index(d) for d in range(len(order))])


def _put(call: _Names, c: Any) -> Any:
    values = call.index(c.grad, c.indices)
    if is_array(c.values):
        values = _to_shape(values, c.values.shape)
    if c.accumulate:
        return c.grad, values
    return call.index_put(c.grad, c.indices, zeros((), c.grad.dtype)), values


def _scattered(call: _Names, c: Any) -> Any:
    if c.reduce is not None:
        raise DefinitionError("with reduce= it has no gradient")
    zero = call.scatter(c.grad, c.dim, c.index, value=0, axis=c.axis)
    return zero, _gathered(call, c) if is_array(c.src) else None


def _gathered(call: _Names, c: Any) -> Any:
    found = call.gather(c.grad, c.dim, c.index, axis=c.axis)
    if found.shape == c.src.shape:
        return found
    wide = zeros(c.src.shape, found.dtype)
    wide[tuple(slice(n) for n in found.shape)] = found
    return wide


def _added(call: _Names, c: Any) -> Any:
    found = call.index_select(c.grad, c.dim, c.index, axis=c.axis)
    return c.grad, found if c.alpha == 1 else found * c.alpha


def _copied(call: _Names, c: Any) -> Any:
    zero = call.index_fill(c.grad, c.dim, c.index, 0, axis=c.axis)
    return zero, call.index_select(c.grad, c.dim, c.index, axis=c.axis)


def _rolled(call: _Names, c: Any) -> Any:
    shifts = c.shifts if isinstance(c.shifts, Sequence) else (c.shifts,)
    return call.roll(c.grad, [-n for n in shifts], c.dims, dim=c.dim, axis=c.axis)


# --- and of backward operators that move, pick or scale, or are products --------------------------
# ``c.grad`` is of what they returned, and ``c.given["grad"]`` their own argument.


def _input_gradient(call: _Names, c: Any) -> Any:
    how, w = _settings(c), matrix_of(c.w)
    dw = call.conv3d_weight(c.grad, w.shape, c.given["grad"], **how)
    return dw, call.conv3d(c.grad, w, **how)


def _weight_gradient(call: _Names, c: Any) -> Any:
    how = _settings(c)
    dx = call.conv3d_input(c.x.shape, c.grad, c.given["grad"], **how)
    return dx, call.conv3d(c.x, c.grad, **how)


def _embedded(call: _Names, c: Any) -> Any:
    if c.scale_grad_by_freq:
        raise DefinitionError("with scale_grad_by_freq=True it has no second gradient")
    found = call.embedding(c.indices, c.grad)
    if c.padding_idx < 0:
        return found
    return call.where((c.indices == c.padding_idx)[..., None], 0, found)


def _pooled(rank: int, call: _Names, c: Any) -> Any:
    """What indices pick of planes."""
    lead = c.indices.shape[: c.indices.ndim - rank]
    found = call.gather(c.grad.reshape(*lead, -1), -1, c.indices.reshape(*lead, -1))
    return found.reshape(c.indices.shape)


def _unpooled(rank: int, call: _Names, c: Any) -> Any:
    """Puts them there."""
    lead, shape = c.indices.shape[: c.indices.ndim - rank], c.given["grad"].shape
    zero = zeros((*lead, math.prod(shape[len(lead) :])), c.grad.dtype)
    flat = (a.reshape(*lead, -1) for a in (c.indices, c.grad))
    return call.scatter_add(zero, -1, *flat).reshape(shape)


def _adapted(rank: int, call: _Names, c: Any) -> Any:
    return call[f"adaptive_avg_pool{rank}d"](c.grad, c.given["grad"].shape[-rank:])


def _resized(call: _Names, c: Any) -> Any:
    size = None if c.scale_factor is not None else c.given["grad"].shape[2:]
    how = c.mode, c.align_corners, c.recompute_scale_factor, c.antialias
    return call.interpolate(c.grad, size, c.scale_factor, *how)


def _taken(call: _Names, c: Any) -> Any:
    at = -1 if c.dim is None and c.axis is None else c.axis if c.dim is None else c.dim
    return call.gather(c.grad, at, c.indices)


class _Names:
    """The operators as they are when they are called."""

    def __init__(self, ops: Mapping[str, Any]) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        return self._ops[name]

    def __getitem__(self, name: str) -> Any:
        """The operator, looked up at a call."""
        function = self._ops[name]

        @wraps(function)
        def later(*args: Any, **options: Any) -> Any:
            return self._ops[name](*args, **options)

        return later


def _weighed(call: _Names, c: Any, *, nan: bool) -> Array:
    """The gradient of quantiles: each adds up two elements of a sorted line, with weights."""
    alone = c.dim is None and c.axis is None
    x = c.x.reshape(-1) if alone or not c.x.ndim else c.x
    at = one_axis("quantile", x, c.dim, c.axis, -1)
    order, length, parts = call.sort(x, at)[1], x.shape[at], np.atleast_1d(np.float64(c.q))
    index: Any = np.arange(length).reshape(-1, *(1,) * (x.ndim - 1 - at))
    whole: Any = np.float64(length - 1)
    floor, where = (call.floor, call.where) if nan else (np.floor, np.where)
    if nan:
        index, known = asarray(index), call.sum(x == x, at, keepdims=True)  # noqa: PLR0124
        whole = call.clamp(known.astype(x.dtype) - 1, 0)
    grads, found = c.grad.reshape(len(parts), *x.shape[:at], 1, *x.shape[at + 1 :]), None
    for part, grad in zip(parts, grads, strict=True):
        place = whole * part
        below = floor(place)
        over = place - below
        second = _SECOND[c.interpolation](over, below, where)
        weight = where(index == below, 1 - second, 0.0) + where(index == below + 1, second, 0.0)
        made = grad * (weight if nan else asarray(weight).astype(x.dtype))
        found = made if found is None else found + made
    return call.sort_backward(found, at, order, x.shape).reshape(c.x.shape)


# What the second of two neighbours counts, the rest of 1 is the first one's.
_SECOND: dict[str, Callable[[Any, Any, Any], Any]] = {
    "linear": lambda over, below, where: over,
    "lower": lambda over, below, where: over * 0,
    "higher": lambda over, below, where: where(over > 0, 1.0, 0.0),
    "midpoint": lambda over, below, where: where(over > 0, 0.5, 0.0),
    "nearest": lambda over, below, where: where(
        (over > 0.5) | ((over == 0.5) & (below % 2 == 1)), 1.0, 0.0
    ),
}


def _to_shape(grad: Array, shape: tuple[int, ...]) -> Array:
    """Adds up what a smaller array was repeated for."""
    more = grad.ndim - len(shape)
    axes = tuple(
        d for d, n in enumerate(grad.shape) if d < more or (shape[d - more] == 1 and n > 1)
    )
    return (SUM(grad, axis=axes, keepdims=True) if axes else grad).reshape(shape)


def _epilogue(y: Array, snippet: str, args: Any, out: Any) -> Array:
    return apply_epilogue(y, snippet, *split_arguments(args), out)


_POOLS = {"max_unpool": _unpooled, "adaptive_avg_pool": _adapted}
_POOLS |= dict.fromkeys(("max_pool", "adaptive_max_pool"), _pooled)
#: What operators have gradients in, and how they are computed.
_RULES: dict[str, tuple[str, Callable[..., Any]]] = {
    "conv3d": ("x w bias", _convolved),
    "conv_transpose3d": ("x w bias", _transposed),
    "embedding": ("weight", _embedding),
    **dict.fromkeys(("kthvalue", "median", "nanmedian", "mode"), ("x", _picked)),
    "quantile": ("x", partial(_weighed, nan=False)),
    "nanquantile": ("x", partial(_weighed, nan=True)),
    "cumsum": ("x", _summed),
    "prod": ("x", _multiplied),
    "index_put": ("x values", _put),
    "scatter": ("x src", _scattered),
    "scatter_add": ("x src", lambda call, c: (c.grad, _gathered(call, c))),
    "index_add": ("x source", _added),
    "index_copy": ("x source", _copied),
    "index_fill": (
        "x",
        lambda call, c: call.index_fill_backward(c.grad, c.dim, c.index, axis=c.axis),
    ),
    "roll": ("x", _rolled),
    "conv3d_input": ("w grad", _input_gradient),
    "conv3d_weight": ("x grad", _weight_gradient),
    "embedding_backward": ("grad", _embedded),
    "interpolate_backward": ("grad", _resized),
    **dict.fromkeys(("sort_backward", "cummax_backward", "cummin_backward"), ("grad", _taken)),
    **{
        f"{kind}{n}d_backward": ("grad", partial(rule, n))
        for kind, rule in _POOLS.items()
        for n in (1, 2, 3)
    },
    **{f"fractional_max_pool{n}d_backward": ("grad", partial(_pooled, n)) for n in (2, 3)},
}


def differentiate(namespace: MutableMapping[str, Any]) -> None:
    """Lets operators of a module, wherever they are defined, leave spans in traces.

    What calls them inside the package may have taken them as they are: it is a part of their span.
    """
    for name, rule in _rules(namespace).items():
        function: Any = namespace[name]
        namespace[name] = differentiable(function, rule, _epilogue)
        home, own = sys.modules[function.__module__], function.__name__
        if getattr(home, own, None) is function:
            setattr(home, own, namespace[name])
