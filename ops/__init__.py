"""Operators: names and arguments after PyTorch, each a few strings over clprim's two classes.

One family a folder; what is an operator there, `clprim.ops.registry` knows. Arrays may have any
strides; a result has the memory format of the first array that has all its dimensions.
"""

from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

from clprim.arrays.array import Array
from clprim.arrays.validation import check_arguments
from clprim.ops import fft, linalg, optim, registry  # noqa: F401
from clprim.ops.attention.static import KeyValueCache  # noqa: F401

if TYPE_CHECKING:
    from clprim.ops.attention.cached import *
    from clprim.ops.attention.multi_head import *
    from clprim.ops.attention.multi_head_gradient import *
    from clprim.ops.attention.rotary import *
    from clprim.ops.attention.scaled_dot_product import *
    from clprim.ops.conv.deformable import *
    from clprim.ops.conv.forward import *
    from clprim.ops.conv.gradient import *
    from clprim.ops.conv.inverted_residual import *
    from clprim.ops.elementwise.binary import *
    from clprim.ops.elementwise.choices import *
    from clprim.ops.elementwise.closeness import *
    from clprim.ops.elementwise.epilogue_gradient import *
    from clprim.ops.elementwise.operators import *
    from clprim.ops.elementwise.variants import *
    from clprim.ops.fourier.frames import *
    from clprim.ops.fourier.mel import *
    from clprim.ops.fourier.transform import *
    from clprim.ops.index.embedding import *
    from clprim.ops.index.fill import *
    from clprim.ops.index.gather import *
    from clprim.ops.index.gradient import *
    from clprim.ops.index.index import *
    from clprim.ops.index.nd import *
    from clprim.ops.index.scatter import *
    from clprim.ops.loss.cdist import *
    from clprim.ops.loss.classes import *
    from clprim.ops.loss.ctc import *
    from clprim.ops.loss.distance import *
    from clprim.ops.loss.likelihood import *
    from clprim.ops.loss.losses import *
    from clprim.ops.loss.margin import *
    from clprim.ops.loss.similarity import *
    from clprim.ops.loss.triplet import *
    from clprim.ops.norm.batch_norm import *
    from clprim.ops.norm.batch_norm_gradient import *
    from clprim.ops.norm.fold_batch_norm import *
    from clprim.ops.norm.group_norm import *
    from clprim.ops.norm.instance_norm import *
    from clprim.ops.norm.layer_norm import *
    from clprim.ops.norm.local_response_norm import *
    from clprim.ops.norm.normalize import *
    from clprim.ops.norm.renorm import *
    from clprim.ops.norm.rms_norm import *
    from clprim.ops.pool.adaptive_pool import *
    from clprim.ops.pool.avg_pool import *
    from clprim.ops.pool.fractional import *
    from clprim.ops.pool.lp_pool import *
    from clprim.ops.pool.max_pool import *
    from clprim.ops.pool.unpool import *
    from clprim.ops.product.added import *
    from clprim.ops.product.bilinear import *
    from clprim.ops.product.det import *
    from clprim.ops.product.einsum import *
    from clprim.ops.product.matmul import *
    from clprim.ops.product.outer import *
    from clprim.ops.quantized.packed_weight import *
    from clprim.ops.quantized.quantize_weight import *
    from clprim.ops.quantized.quantized import *
    from clprim.ops.quantized.small import *
    from clprim.ops.random.alpha import *
    from clprim.ops.random.dropout import *
    from clprim.ops.random.gumbel import *
    from clprim.ops.recurrent.backward import *
    from clprim.ops.recurrent.layer import *
    from clprim.ops.recurrent.recurrent import *
    from clprim.ops.recurrent.single import *
    from clprim.ops.reduction.extrema import *
    from clprim.ops.reduction.points import *
    from clprim.ops.reduction.reduce import *
    from clprim.ops.reduction.softmax import *
    from clprim.ops.reduction.statistics import *
    from clprim.ops.sample.grid import *
    from clprim.ops.sample.grid_gradient import *
    from clprim.ops.sample.interpolate import *
    from clprim.ops.sample.regions import *
    from clprim.ops.sample.resize import *
    from clprim.ops.scan.cumulative import *
    from clprim.ops.scan.differences import *
    from clprim.ops.shape.diagonals import *
    from clprim.ops.shape.join import *
    from clprim.ops.shape.pad import *
    from clprim.ops.shape.pixel_shuffle import *
    from clprim.ops.shape.turn import *
    from clprim.ops.shape.unfold import *
    from clprim.ops.sort.quantile import *
    from clprim.ops.sort.search import *
    from clprim.ops.sort.sort import *
    from clprim.ops.sort.unique import *

for _found in walk_packages(__path__, f"{__name__}."):  # noqa: F405
    import_module(_found.name)
_OPERATORS = registry.public()
globals().update(_OPERATORS)

__all__ = sorted(["KeyValueCache", "fft", "linalg", "optim", *_OPERATORS])  # noqa: PLE0605

Array.say_instead(
    {name: f"write ops.{name}(x), with `from clprim import ops`" for name in _OPERATORS}
)

for _name, _operator in _OPERATORS.items():
    registry.document(_name, _operator)
check_arguments(globals(), _OPERATORS)
import_module(f"{__name__}.gradients.rules").differentiate(globals())


def __dir__() -> list[str]:
    return __all__
