"""Overloads that PyTorch makes of others, where that costs neither digits nor much time."""

from clprim.torch.table import decomposed

decomposed(
    *"""
    bucketize.Scalar isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor linalg_cross
    max_unpool2d max_unpool3d multi_margin_loss multilabel_margin_loss_forward norm.ScalarOpt_dim
    trace unfold_backward unfold_copy
    """.split()
)
