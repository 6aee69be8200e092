from typing import Any

from clprim.arrays.array import Array

def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, *, reduction: str = "mean", out: Any = None
) -> Array: ...
def binary_cross_entropy_backward(
    grad: Any, input: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Array: ...
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
    out: Any = None,
) -> Array: ...
def binary_cross_entropy_with_logits_backward(
    grad: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Array: ...
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean", out: Any = None
) -> Array: ...
def hinge_embedding_loss_backward(
    grad: Any, input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean"
) -> Array: ...
def huber_loss(
    input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0, out: Any = None
) -> Array: ...
def huber_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", delta: float = 1.0
) -> Array: ...
def kl_div(
    input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False, out: Any = None
) -> Array: ...
def kl_div_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", log_target: bool = False
) -> Array: ...
def l1_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array: ...
def l1_loss_backward(grad: Any, input: Any, target: Any, *, reduction: str = "mean") -> Array: ...
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array: ...
def margin_ranking_loss_backward(
    grad: Any,
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    *,
    reduction: str = "mean",
) -> tuple[Array, ...]: ...
def mse_loss(input: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Array: ...
def mse_loss_backward(grad: Any, input: Any, target: Any, *, reduction: str = "mean") -> Array: ...
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Array: ...
def poisson_nll_loss_backward(
    grad: Any,
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Array: ...
def smooth_l1_loss(
    input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0, out: Any = None
) -> Array: ...
def smooth_l1_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0
) -> Array: ...
def soft_margin_loss(
    input: Any, target: Any, *, reduction: str = "mean", out: Any = None
) -> Array: ...
def soft_margin_loss_backward(
    grad: Any, input: Any, target: Any, *, reduction: str = "mean"
) -> Array: ...
