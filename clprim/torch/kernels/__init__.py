"""PyTorch's overloads, a family a file, each a few lines over `clprim.ops`."""

from clprim.torch.kernels import (
    distance,
    elementwise,
    index,
    loss,
    norm,
    optimizer,
    pool,
    product,
    random,
    recurrent,
    reduction,
    sample,
    scan,
    shape,
)

__all__ = ["all_families"]

all_families = (
    distance,
    elementwise,
    index,
    loss,
    norm,
    optimizer,
    pool,
    product,
    random,
    recurrent,
    reduction,
    sample,
    scan,
    shape,
)
