"""Autocast: which operators take bfloat16 or float16, and which float32, as on PyTorch's GPUs.

Kernels of the key that autocast adds cast the tensors and run the operator without it. Sums are in
float32 whatever the storage is, so the lists are about range and rounding of what is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from clprim.torch import private

# Products: most of the arithmetic, and storage is what they wait for.
_LOWER = """
conv1d conv2d conv3d conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution
addmm addmv addr addbmm baddbmm bmm mm mv matmul linear einsum chain_matmul linalg_multi_dot
scaled_dot_product_attention prelu lstm.input gru.input rnn_tanh.input rnn_relu.input
lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
""".split()
# What overflows or loses digits in short formats.
_FLOAT32 = """
acos asin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan
pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus
layer_norm group_norm norm.Scalar norm.ScalarOpt_dim linalg_vector_norm cumprod cumsum prod sum
sum.dim_IntList softmax.int log_softmax.int logsumexp dist renorm cosine_similarity
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d nll_loss_nd cross_entropy_loss
hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits binary_cross_entropy pdist cdist
""".split()
# The widest dtype of those given.
_PROMOTE = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot cat stack
""".split()


def _overload(name: str) -> Any:
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), which or "default", None)


def _casting(overload: Any, choose: Callable[[list[torch.Tensor]], torch.dtype]) -> Any:
    def run(*args: Any, **options: Any) -> Any:
        found: list[torch.Tensor] = []

        def look(value: Any) -> Any:
            if _is_castable(value):
                found.append(value)
            return value

        tree_map(look, (args, options))
        kind = choose(found) if found else None

        def cast(value: Any) -> Any:
            return value.to(kind) if _is_castable(value) else value

        if kind is not None:
            args, options = tree_map(cast, (args, options))
        with torch._C._DisableAutocast():
            return overload(*args, **options)

    return run


def _is_castable(value: Any) -> bool:
    """Whether autocast may change a value: floating tensors of the device, but for float64."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == private.NAME
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _lower(_: list[torch.Tensor]) -> torch.dtype:
    return torch.get_autocast_dtype(private.NAME)


def _float32(_: list[torch.Tensor]) -> torch.dtype:
    return torch.float32


def _widest(found: list[torch.Tensor]) -> torch.dtype:
    kind = found[0].dtype
    for tensor in found[1:]:
        kind = torch.promote_types(kind, tensor.dtype)
    return kind


def _lowered(value: torch.Tensor) -> torch.Tensor:
    return value.to(_lower([])) if _is_castable(value) else value


def register() -> None:
    """Registers the lists; all other operators run as they are called."""
    for names, choose in ((_LOWER, _lower), (_FLOAT32, _float32), (_PROMOTE, _widest)):
        for name in names:
            overload = _overload(name)
            if overload is not None:
                private.register_autocast(name, _casting(overload, choose))
    private.allow_flex_attention(_lowered)
    private.autocast_falls_through()
