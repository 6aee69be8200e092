"""Operators that have a backward operator: what it is called with inside a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from clprim.arrays.array import Array
from clprim.arrays.creation import ones_like, zeros
from clprim.call.packed import matrix_of
from clprim.errors import DefinitionError
from clprim.graph.spans import Rule, differentiable
from clprim.ops.gradients.contractions import SUM, apply_epilogue
from clprim.ops.shared.arguments import is_array
from clprim.ops.shared.epilogue import split_arguments
from clprim.plan.strides import normalize_axis


def _lines(text: str) -> dict[str, str]:
    rows = (line.split(":") for line in text.strip().splitlines())
    return {name: wrt.strip() for names, wrt in rows for name in names.split()}


# By operator the arguments that `NAME_backward` returns gradients of.
_PLAIN = _lines("""
softmax log_softmax softmin normalize renorm local_response_norm: x
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d: x
avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d: x
max_unpool1d max_unpool2d max_unpool3d: x
cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits: input
mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss: input
hinge_embedding_loss soft_margin_loss multi_margin_loss multilabel_margin_loss: input
multilabel_soft_margin_loss: input
gaussian_nll_loss: input var
cosine_embedding_loss margin_ranking_loss: input1 input2
cosine_similarity pairwise_distance cdist: x1 x2
triplet_margin_loss: anchor positive negative
ctc_loss: log_probs
pdist: x
bilinear: x1 x2 w bias
rotary_embedding diag_embed fold pad glu: x
kron cross: x y
grid_sample: x grid
affine_grid: theta
interpolate unfold gather take_along_dim take index index_select: x
masked_fill: x
cumprod logcumsumexp: x
embedding_bag: weight per_sample_weights
""")


# Of those that return more where a flag asks for it, or always: the flag, and what it is.
_MORE = {
    "layer_norm": ("x weight bias", "return_stats", "mean rstd"),
    "group_norm": ("x weight bias", "return_stats", "mean rstd"),
    "rms_norm": ("x weight", "return_stats", "rstd"),
    "instance_norm": ("x weight bias", "return_stats", "mean rstd"),
    "gumbel_softmax": ("logits", "return_soft", "soft"),
    **{
        f"{kind}max_pool{n}d": ("x", "return_indices", "indices")
        for kind, ranks in (("", (1, 2, 3)), ("adaptive_", (1, 2, 3)), ("fractional_", (2, 3)))
        for n in ranks
    },
}
# Of recurrent layers and cells how many results have gradients.
_LAYERS = {"lstm": 3, "gru": 2, "rnn": 2}
_CELLS = {"lstm_cell": 2, "gru_cell": 1, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}
_DROPOUTS = "dropout dropout1d dropout2d dropout3d"


def _rules(ops: Mapping[str, Any]) -> dict[str, Rule]:
    """Returns the rules of operators, by name."""
    found = {name: Rule(wrt, ops[f"{name}_backward"]) for name, wrt in _PLAIN.items()}
    found |= {
        name: Rule(more[0], ops[f"{name}_backward"], *more[1:]) for name, more in _MORE.items()
    }
    found["instance_norm"] = replace(
        found["instance_norm"],
        aside="running_mean running_var",
        when=lambda given: bool(given["use_input_stats"]),
    )
    found["cumprod"] = replace(found["cumprod"], when=_forward)
    backward = ops["batch_norm_backward"]
    found["batch_norm_train"] = Rule(
        "x weight bias",
        backward,
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
        found[name] = Rule(instead=partial(_dropped, ops[name]))
    for name, (wrt, call) in _ways(ops).items():
        found[name] = Rule(wrt, call, known=True, when=_one_axis if name == "median" else None)
    found["scaled_dot_product_attention"] = Rule(
        "query key value attn_mask",
        partial(_attention, ops["scaled_dot_product_attention_backward"]),
        *("return_stats", "logsumexp state"),
        known=True,
        when=lambda given: not given["dropout_p"],
    )
    return found


def _forward(given: Mapping[str, Any]) -> bool:
    return not (given["exclusive"] or given["reverse"])


def _one_axis(given: Mapping[str, Any]) -> bool:
    return given["dim"] is not None or given["axis"] is not None


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
    mask = c.attn_mask
    wanted = mask is not None and mask.dtype.kind not in "biu"
    given = c.grad, c.query, c.key, c.value, c.output, c.logsumexp, 0.0, c.is_causal
    how = {"attn_mask": mask, "scale": c.scale, "enable_gqa": c.enable_gqa}
    found = backward(*given, **how, mask_gradient=wanted)
    return found if wanted else (*found, None)


def _ways(ops: Mapping[str, Any]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Rules of operators whose backward operators take other arguments, or have other names."""
    call = SimpleNamespace(**ops)

    def convolved(rank: int) -> Callable[[Any], Any]:
        to_input, to_weight = ops[f"conv{rank}d_input"], ops[f"conv{rank}d_weight"]

        def backward(c: Any) -> Any:
            keys = ("stride", "padding", "dilation", "groups")
            how = {key: getattr(c, key) for key in keys}
            w = matrix_of(c.w)
            dx, dw = to_input(c.x.shape, w, c.grad, **how), to_weight(c.x, w.shape, c.grad, **how)
            return dx, dw, _sums(c.grad, c.bias, rank)

        return backward

    def transposed(c: Any) -> Any:
        how = {key: getattr(c, key) for key in ("stride", "padding", "dilation", "groups")}
        w, sizes = matrix_of(c.w), c.x.shape[-3:]
        dx = call.conv3d(c.grad, w, **how)[..., : sizes[0], : sizes[1], : sizes[2]]
        return dx, call.conv3d_weight(c.grad, w.shape, c.x, **how), _sums(c.grad, c.bias, 3)

    def embedding(c: Any) -> Any:
        none = -1 if c.padding_idx is None else c.padding_idx
        count = c.weight.shape[0]
        none += count if none < -1 or (none < 0 and c.padding_idx is not None) else 0
        return call.embedding_backward(c.grad, c.indices, count, none, c.scale_grad_by_freq)

    def chosen(c: Any) -> Any:
        at = normalize_axis("sort", -1 if c.dim is None and c.axis is None else _axis(c), c.x.ndim)
        return call.sort_backward(c.grad, at, c.made[1], c.x.shape)

    def picked(c: Any) -> Any:
        at = normalize_axis("sort", -1 if c.dim is None and c.axis is None else _axis(c), c.x.ndim)
        alone = (slice(None),) * at + (() if c.keepdim else (None,))
        return call.sort_backward(c.grad[alone], at, c.made[1][alone], c.x.shape)

    def running(backward: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda c: backward(c.grad, c.x, c.made[1], c.dim, axis=c.axis)

    def summed(c: Any) -> Any:
        how = {"axis": c.axis, "exclusive": c.exclusive, "reverse": not c.reverse}
        return call.cumsum(c.grad, c.dim, **how)

    def put(c: Any) -> Any:
        values = call.index(c.grad, c.indices)
        if is_array(c.values):
            values = _to_shape(values, c.values.shape)
        if c.accumulate:
            return c.grad, values
        zero = zeros((), c.grad.dtype)
        return call.index_put(c.grad, c.indices, zero), values

    def scattered(c: Any) -> Any:
        if c.reduce is not None:
            raise DefinitionError("with reduce= it has no gradient")
        zero = call.scatter(c.grad, c.dim, c.index, value=0, axis=c.axis)
        return zero, _picked(c) if is_array(c.src) else None

    def _picked(c: Any) -> Any:
        found = call.gather(c.grad, c.dim, c.index, axis=c.axis)
        if found.shape == c.src.shape:
            return found
        wide = zeros(c.src.shape, found.dtype)
        wide[tuple(slice(n) for n in found.shape)] = found
        return wide

    def added(c: Any) -> Any:
        found = call.index_select(c.grad, c.dim, c.index, axis=c.axis)
        return c.grad, found if c.alpha == 1 else found * c.alpha

    def copied(c: Any) -> Any:
        zero = call.index_fill(c.grad, c.dim, c.index, 0, axis=c.axis)
        return zero, call.index_select(c.grad, c.dim, c.index, axis=c.axis)

    def rolled(c: Any) -> Any:
        shifts = c.shifts if isinstance(c.shifts, Sequence) else (c.shifts,)
        return call.roll(c.grad, [-n for n in shifts], c.dims, dim=c.dim, axis=c.axis)

    return {
        "conv3d": ("x w bias", convolved(3)),
        "conv_transpose3d": ("x w bias", transposed),
        "embedding": ("weight", embedding),
        "kthvalue": ("x", picked),
        "median": ("x", picked),
        "mode": ("x", picked),
        "sort": ("x", chosen),
        "topk": ("x", chosen),
        "cummax": ("x", running(call.cummax_backward)),
        "cummin": ("x", running(call.cummin_backward)),
        "cumsum": ("x", summed),
        "index_put": ("x values", put),
        "scatter": ("x src", scattered),
        "scatter_add": ("x src", lambda c: (c.grad, _picked(c))),
        "index_add": ("x source", added),
        "index_copy": ("x source", copied),
        "index_fill": (
            "x",
            lambda c: call.index_fill_backward(c.grad, c.dim, c.index, axis=c.axis),
        ),
        "roll": ("x", rolled),
    }


def _axis(c: Any) -> int:
    return int(c.axis if c.dim is None else c.dim)


def _sums(grad: Array, bias: Any, rank: int) -> Array | None:
    """The gradient of a bias: all but the axis of channels is added up."""
    channels = grad.ndim - 1 - rank
    axes = tuple(d for d in range(grad.ndim) if d != channels)
    return None if bias is None else SUM(grad, axis=axes)


def _to_shape(grad: Array, shape: tuple[int, ...]) -> Array:
    """Adds up what a smaller array was repeated for."""
    more = grad.ndim - len(shape)
    axes = tuple(
        d for d, n in enumerate(grad.shape) if d < more or (shape[d - more] == 1 and n > 1)
    )
    return (SUM(grad, axis=axes, keepdims=True) if axes else grad).reshape(shape)


def _epilogue(y: Array, snippet: str, args: Any, out: Any) -> Array:
    return apply_epilogue(y, snippet, *split_arguments(args), out)


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
