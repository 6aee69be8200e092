"""Optimizers: one step on lists of arrays, in place on parameters and state."""

from clprim.arrays.validation import check_arguments
from clprim.ops.optim.clip import clip_grad_norm, clip_grad_value
from clprim.ops.optim.flat import ema, flat, swa, unscale
from clprim.ops.optim.optimizers import adagrad, adam, adamw, lion, rmsprop, sgd
from clprim.ops.registry import document

__all__ = [
    "adagrad",
    "adam",
    "adamw",
    "clip_grad_norm",
    "clip_grad_value",
    "ema",
    "flat",
    "lion",
    "rmsprop",
    "sgd",
    "swa",
    "unscale",
]

for _name in __all__:
    document(_name, globals()[_name])
check_arguments(globals(), __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
