"""NumPy's methods of arrays: each is the function of the same name in the package's namespace.

The functions are made of operators, which are made of arrays: so the namespace is named here once,
by the package, and loads its functions when the first of them is asked for.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar, cast

from clprim.errors import MissingNameError

if TYPE_CHECKING:
    from clprim.arrays.array import Array


def _signature(text: str) -> Signature:
    """Returns what `help`, notebooks and editors show of ``"axis=None, *, out=None"``."""
    found = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for part in filter(None, text.split(", ")):
        if part == "*":
            kind = Parameter.KEYWORD_ONLY
            continue
        name, _, default = part.partition("=")
        value = literal_eval(default) if default else Parameter.empty
        found.append(Parameter(name, kind, default=value))
    return Signature(found)


def _method(name: str, signature: str = "") -> Callable[..., Array]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self.namespace, name)(self, *args, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``clprim.{name}(x{', ' + signature if signature else ''})``."
    method.__signature__ = _signature(signature)  # type: ignore[attr-defined]
    return method


_REDUCED = "axis=None, *, keepdims=False, out=None"
_OF_DTYPE = "axis=None, *, dtype=None, keepdims=False, out=None"
_SPREAD = "axis=None, *, ddof=0, keepdims=False, out=None"

# What users of other libraries type, and what there is instead.
INSTEAD = {
    "numpy": "x.get() downloads",
    "cpu": "x.get() downloads to NumPy, x.to_device(cp.devices()[n]) moves to another device",
    "cuda": 'x.to_device("gpu") moves to another device',
    "to": "x.astype(dtype) converts, x.to_device(device) moves",
    "permute": "x.transpose(0, 2, 1) permutes axes",
    "unsqueeze": "x[None] or cp.expand_dims(x, axis) adds an axis",
    "dim": "x.ndim is the number of dimensions",
    "numel": "x.size is the number of elements",
    "contiguous": 'x.copy(), or ops.contiguous(x, memory_format="channels_last")',
    "float": "x.astype(np.float32) converts",
    "double": "x.astype(np.float64) converts",
    "half": "x.astype(np.float16) converts",
    "long": "x.astype(np.int64) converts",
    "int": "x.astype(np.int32) converts",
    "bool": "x.astype(bool) converts",
    "flat": "x.ravel() is all elements in one dimension",
    "tobytes": "x.get().tobytes()",
    "tofile": "x.get().tofile(path)",
    "dump": "pickle.dump(x, file), or np.save(path, x)",
    "byteswap": "x.get().byteswap()",
    "resize": "x.reshape(shape) keeps the number of elements, ops.pad adds some",
    "partition": "cp.sort(x), ops.topk or ops.kthvalue",
    "argpartition": "x.argsort(), ops.topk or ops.kthvalue",
    "choose": "cp.where(condition, a, b)",
    "compress": "x[mask]",
    "put": "x[indices] = values",
    "requires_grad": "cp.Pointwise(...).gradient(), and ops.NAME_backward of operators",
    "requires_grad_": "cp.Pointwise(...).gradient(), and ops.NAME_backward of operators",
    "backward": "cp.Pointwise(...).gradient(), and ops.NAME_backward of operators",
    "grad": "cp.Pointwise(...).gradient(), and ops.NAME_backward of operators",
    "detach": "arrays carry no gradients: leave it out",
    "clone": "x.copy()",
    "expand": "cp.broadcast_to(x, shape)",
    "is_contiguous": "x.flags.c_contiguous",
}


class _Missing:
    """An attribute that arrays lack: reading it says what to write instead.

    A ``__getattr__`` would answer for every name, and slow down every read of every attribute.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, array: Any, owner: Any = None) -> Any:
        raise MissingNameError(f"arrays have no {self._name!r}: {self._instead}")


class _Listed(type):
    """The class of arrays' class: names that are missing are not listed."""

    def __dir__(cls) -> list[str]:
        every = ((name, value) for kind in cls.__mro__ for name, value in vars(kind).items())
        missing = {name for name, value in every if isinstance(value, _Missing)}
        return [name for name in super().__dir__() if name not in missing]


class Methods(metaclass=_Listed):
    """Methods that compute with the functions of the package's namespace."""

    namespace: ClassVar[Any]
    _functions: ClassVar[frozenset[str]]
    _operators: ClassVar[Any]

    all, any = _method("all", _REDUCED), _method("any", _REDUCED)
    max, min = _method("max", _REDUCED), _method("min", _REDUCED)
    argmax, argmin = _method("argmax", _REDUCED), _method("argmin", _REDUCED)
    sum, prod = _method("sum", _OF_DTYPE), _method("prod", _OF_DTYPE)
    mean = _method("mean", _REDUCED)
    std, var = _method("std", _SPREAD), _method("var", _SPREAD)
    ptp = _method("ptp", _REDUCED)
    cumsum, cumprod = _method("cumsum", "axis=None"), _method("cumprod", "axis=None")

    clip, round = _method("clip", "min=None, max=None"), _method("round", "decimals=0")
    sort, argsort = _method("sort", "axis=-1"), _method("argsort", "axis=-1")
    take, repeat = _method("take", "indices, axis=None"), _method("repeat", "repeats, axis=None")
    conj = conjugate = _method("conj")
    squeeze, swapaxes = _method("squeeze", "axis=None"), _method("swapaxes", "axis1, axis2")
    diagonal = _method("diagonal", "offset=0, axis1=0, axis2=1")
    trace = _method("trace", "offset=0, axis1=0, axis2=1")
    setitem = _Missing("x[index] = value")  # PyOpenCL's, which is no way round our own
    dot, __matmul__ = _method("dot", "b"), _method("matmul", "b")

    searchsorted = _method("searchsorted", "v, side='left'")

    def nonzero(self) -> tuple[Array, ...]:
        """As ``clprim.nonzero(x)``."""
        return tuple(self.namespace.nonzero(self))

    def __rmatmul__(self, other: Any) -> Array:
        return cast("Array", self.namespace.matmul(other, self))

    def __divmod__(self: Any, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __imatmul__(self: Any, other: Any) -> Any:  # type: ignore[misc]
        self[...] = self.namespace.matmul(self, other)
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Returns the package, which follows the Python Array API standard."""
        return self.namespace

    @classmethod
    def say_instead(cls, names: Mapping[str, str]) -> None:
        """Lets names that arrays lack say what to write instead.

        Args:
            names: Which, and what; those that arrays have, or that say so already, stay.
        """
        known = {name for kind in cls.__mro__ for name in vars(kind)}
        for name in names.keys() - known:
            missing = _Missing(names[name])
            missing.__set_name__(cls, name)
            setattr(cls, name, missing)
