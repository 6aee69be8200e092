"""No argument of an overload is dropped: each reaches a parameter that its kernel reads."""

import ast
import inspect
import textwrap

import pytest

pytest.importorskip("torch")

import clprim.torch  # noqa: F401
from clprim.torch.table import kernels, overload, registered

# What values do not depend on: hints, what gradients alone ask for, sizes that shapes say, and of
# gradients what follows from their other arguments. Another one that is dropped is a fault.
IDLE = {
    "_cdist_backward": "found",
    "_ctc_loss": "zero_infinity",
    "_ctc_loss.Tensor": "zero_infinity",
    "_ctc_loss_backward": "neg_log_likelihood log_alpha",
    "_ctc_loss_backward.Tensor": "neg_log_likelihood log_alpha",
    "_embedding_bag": "scale_grad_by_freq sparse",
    "_embedding_bag_backward": "offsets",
    "_embedding_bag_forward_only": "scale_grad_by_freq sparse",
    "_embedding_bag_per_sample_weights_backward": "offsets mode",
    "_histogramdd_bin_edges": "weight density",
    "_native_batch_norm_legit.no_stats": "training",
    "_pdist_backward": "pdist",
    "_scaled_dot_product_fused_attention_overrideable": "return_debug_mask",
    "_scaled_dot_product_fused_attention_overrideable_backward": "cum_seq_q cum_seq_k max_q max_k",
    "_thnn_fused_lstm_cell_backward_impl": "after",
    "_unique2": "sorted",
    "batch_norm_backward": "reserve",
    "batch_norm_elemt": "eps",
    "batch_norm_gather_stats": "input",
    "batch_norm_gather_stats_with_counts": "input",
    "convolution_backward_overrideable": "output_padding",
    "embedding": "padding_idx scale_grad_by_freq sparse",
    "fractional_max_pool2d_backward": "kernel_size output_size",
    "fractional_max_pool3d_backward": "kernel_size output_size",
    "gather": "sparse_grad",
    "grid_sampler_2d_backward": "output_mask",
    "grid_sampler_3d_backward": "output_mask",
    "multilabel_margin_loss_backward": "is_target",
    "native_group_norm": "N C HxW",
    "native_group_norm_backward": "N C HxW",
    "native_layer_norm_backward": "bias",
    "nll_loss2d_backward": "total_weight",
    "nll_loss_backward": "total_weight",
}


def asked(function):
    """Arguments that a function asks its tuple of all for, and those that it hands that to."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    found = {
        n.attr for n in nodes if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "a"
    }
    for call in (n for n in nodes if isinstance(n, ast.Call)):
        if "a" in [getattr(argument, "id", "") for argument in call.args]:
            found |= asked(function.__globals__[call.func.id])
    return found


def dropped(function, schema):
    """Parameters that a function does not read, and arguments that it has none for."""
    if hasattr(function, "ignored"):  # of an operator, whose parameters the schema names
        return function.ignored
    named, function = hasattr(function, "named"), inspect.unwrap(function)
    if named:
        read = asked(function)
        return [a.name for a in schema.arguments if not a.is_out and a.name not in read]
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    parameters = list(inspect.signature(function).parameters.values())
    found = [p.name for p in parameters if p.name not in read]
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    kinds = {p.kind for p in parameters}
    given = [a for a in schema.arguments if not a.is_out]
    more = [a.name for a in given if not a.kwarg_only][len(places) :]
    found += [] if inspect.Parameter.VAR_POSITIONAL in kinds else more
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        names = {p.name for p in parameters}
        found += [a.name for a in given if a.kwarg_only and a.name not in names]
    return found


def test_every_argument_reaches_a_kernel_or_is_known_to_change_nothing():
    found, walked = {}, 0
    for kernel in kernels():
        for name in kernel.names:
            if name not in registered:
                continue
            walked += 1
            names = dropped(kernel.function, overload(name)._schema)
            if names and not (
                name.startswith(("upsample", "_upsample")) and names == ["output_size"]
            ):
                found[name] = " ".join(names)
    assert walked > 400
    assert found == IDLE
