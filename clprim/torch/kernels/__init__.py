"""PyTorch's overloads, a family a file, each a few lines over `clprim.ops`."""

from clprim.torch.kernels import (
    distance,
    elementwise,
    gate,
    index,
    loss,
    norm,
    optimizer,
    place,
    pool,
    product,
    random,
    recurrent,
    reduction,
    sample,
    scan,
    shape,
    special,
    statistics,
    window,
)

__all__ = ["all_families"]

all_families = (
    distance,
    elementwise,
    gate,
    index,
    loss,
    norm,
    optimizer,
    place,
    pool,
    product,
    random,
    recurrent,
    reduction,
    sample,
    scan,
    shape,
    special,
    statistics,
    window,
)
