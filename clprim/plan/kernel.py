"""What all kernel plans have in common: operands as a template prints them, and arguments.

A plan comes in two halves. Its *code* is everything that the template prints and is the key of
the compiled kernel; its *arguments* are sizes, strides and offsets, which a new shape changes
without compiling anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from clprim.dtypes import AnyDType, stored_type

# Bound: sizes and strides are kernel arguments up to this many collapsed dimensions, and constants
# in the source beyond, as OpenCL promises room for 1024 bytes of arguments only.
BAKED_DIMS = 8

_FORMATS = {
    "char": "b",
    "uchar": "B",
    "short": "h",
    "ushort": "H",
    "int": "i",
    "uint": "I",
    "long": "l",
    "ulong": "L",
    "float": "f",
    "double": "d",
    "float2": "F",
    "double2": "D",
}


@dataclass(frozen=True)
class OperandCode:
    """One array operand, as a template sees it."""

    name: str  # ``x0``, ``y1``, ``reduce_y0``
    storage: str  # OpenCL C type in memory
    value: str  # OpenCL C type in the snippet
    load: str  # ``direct``, ``half``, ``bfloat16`` or ``bool``: how storage becomes a value
    # Stride along the innermost loop: ``one``, ``zero`` or ``any`` (an argument); in elementwise
    # kernels also ``back``, minus one
    inner: str = "any"

    @staticmethod
    def of(name: str, dtype: AnyDType, value: AnyDType, inner_stride: int) -> OperandCode:
        """Describes an operand stored as ``dtype`` and calculated with as ``value``."""
        stored = stored_type(dtype)
        inner = inner_step(inner_stride)
        return OperandCode(name, stored.storage, stored_type(value).value, stored.load, inner)


def inner_step(stride: int) -> str:
    """Returns what a template is told of a stride along the innermost loop."""
    return {1: "one", 0: "zero"}.get(stride, "any")


@dataclass(frozen=True)
class PositionCode:
    """A number that walks with the loops like an array's address: ``index``, ``coord(d)``."""

    name: str  # ``index``, ``reduce_item`` or ``coord_D``
    inner: str = "any"  # Step along the innermost loop: ``one``, ``zero`` or ``any`` (an argument)


@dataclass(frozen=True)
class LookupCode(OperandCode):
    """An array that is read at coordinates."""

    at: bool = False
    inside: bool = False  # Whether it is asked if there is an element
    # ``one`` or ``any`` for every dimension, how far apart neighbours lie
    steps: tuple[str, ...] = ()
    # (dimension as written, axis) of every size that is asked for
    sizes: tuple[tuple[int, int], ...] = ()
    named: bool = False  # Whether it is also read by its own name
    # The dimension whose neighbours are read as vectors, where the kernel has vectors
    lane: int | None = None


@dataclass(frozen=True)
class ScalarCode:
    """A run-time scalar: ``w0`` of type ``value``."""

    name: str
    value: str

    @property
    def argument(self) -> str:
        """Its type as a kernel argument: OpenCL C allows no bool there."""
        return "uchar" if self.value == "bool" else self.value


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its declaration, and how its value is packed ("" for memory)."""

    declaration: str
    format: str

    @staticmethod
    @lru_cache(maxsize=1024)
    def number(type_name: str, name: str) -> Parameter:
        """A parameter passed by value."""
        return Parameter(f"const {type_name} {name}", _FORMATS[type_name])

    @staticmethod
    def memory(type_name: str, name: str, *, read_only: bool) -> Parameter:
        """A pointer to global memory."""
        const = "const " if read_only else ""
        return Parameter(f"__global {const}{type_name} *{name}", "")

    @property
    def read_only(self) -> bool:
        """Whether it points to memory that the kernel does not write."""
        return self.declaration.startswith("__global const ")


@dataclass(frozen=True)
class Buffer:
    """The argument is the call's buffer of that name: of an array, or of the plan's workspace."""

    name: str


@dataclass(frozen=True)
class Scalar:
    """The argument is the call's run-time scalar number ``number``; below 0 from the end."""

    number: int


Argument = Buffer | Scalar | int

SEED = Scalar(-2)
CALL = Scalar(-1)


@dataclass(frozen=True)
class Choice:
    """A strategy and its tile."""

    strategy: str
    numbers: tuple[int, ...]  # The fields of its tile

    def __str__(self) -> str:
        return f"{self.strategy} {'×'.join(map(str, self.numbers))}".rstrip()


@dataclass(frozen=True)
class KernelPlan:
    """One kernel launch, ready but for the buffers."""

    template: str  # Name of the template that prints ``code``
    code: KernelCode  # A frozen dataclass; equal code is the same kernel
    arguments: tuple[Argument, ...]  # In the order of the code's parameters
    global_size: tuple[int, ...]  # Work-items in all and a work-group, as many dimensions each
    local_size: tuple[int, ...]
    nbytes: int  # Bytes that the kernel must move at least, for profiles
    flops: int  # Arithmetic operations of the snippets, for profiles
    # Whether it reads nothing but a weight, with which what it writes may be kept
    once: bool = False
    phases: tuple[str, ...] = ()  # Names of the kernels that it runs as such, for profiles

    @cached_property
    def draws(self) -> bool:
        """Whether it draws random numbers."""
        return SEED in self.arguments

    def buffers(self, *, written: bool) -> tuple[str, ...]:
        """Returns the names of the buffers that it writes, or of those that it only reads."""
        pairs = zip(self.code.parameters, self.arguments, strict=True)
        return tuple(
            argument.name
            for parameter, argument in pairs
            if isinstance(argument, Buffer) and parameter.read_only is not written
        )

    def renamed(self, names: Mapping[str, str]) -> KernelPlan:
        """Returns the same with some of its buffers called otherwise."""
        arguments = tuple(
            Buffer(names.get(a.name, a.name)) if isinstance(a, Buffer) else a
            for a in self.arguments
        )
        return replace(self, arguments=arguments)


@dataclass(frozen=True)
class Plan:
    """The kernels of a call, in order, and the memory between them."""

    stages: tuple[KernelPlan, ...]  # The kernels; those to be run ``once`` come first
    # Elements and dtype of each buffer that is no array of the call, by its name
    workspace: Mapping[str, tuple[int, AnyDType]] = field(default_factory=dict)
    choice: Choice | None = None  # The strategy and its tile, where a family chose one

    @property
    def main(self) -> KernelPlan:
        """The kernel that does most of the work."""
        return max((stage for stage in self.stages if not stage.once), key=lambda s: s.flops)

    @staticmethod
    def joined(plans: Sequence[Plan]) -> Plan:
        """Returns some plans, to be run one after another, as one."""
        # What is written ``once`` becomes a buffer of each plan's own; other workspace of one name
        # is the same memory.
        if len(plans) == 1:
            return plans[0]
        stages: list[KernelPlan] = []
        workspace: dict[str, tuple[int, AnyDType]] = {}
        for n, plan in enumerate(plans):
            kept = {name for k in plan.stages if k.once for name in k.buffers(written=True)}
            names = {name: f"{name}_{n}" for name in kept}
            stages += [kernel.renamed(names) for kernel in plan.stages]
            for old, (elements, dtype) in plan.workspace.items():
                name = names.get(old, old)
                most, _ = workspace.get(name, (0, dtype))
                workspace[name] = max(most, elements), dtype
        return Plan(tuple(stages), workspace)


@dataclass(frozen=True, kw_only=True)
class KernelCode:
    """What every template prints."""

    name: str
    preamble: str = ""
    parameters: tuple[Parameter, ...]
    # Sizes and strides printed into the source, as (declaration, value)
    constants: tuple[tuple[str, int], ...] = ()
    index: str  # ``int``, or ``long`` where addresses pass 2³¹
    # Built-in functions that the template defines anew, how many arguments they have, which are
    # cast to one type, and bytes of the shortest vector to compute. Vectors of large angles go lane
    # by lane; erfc is computed by text
    unified: tuple[tuple[str, int, int], ...] = ()
    # Types of integers that are divided by what may be 0 or -1, and functions by which real numbers
    # become integers (``convert_uchar``), and functions of complex numbers (``complex_exp_float2``)
    guards: tuple[str, ...] = ()
    doubles: bool  # Whether double occurs (and so needs its extension, and keeps literals double)
    own: tuple[str, ...] = ()  # Names that the user chose, which the engine's must not be taken for

    @property
    def divided(self) -> tuple[str, ...]:
        """Types of integers that are divided by what may be 0 or -1."""
        return tuple(g for g in self.guards if not g.startswith(("convert_", "complex_")))

    @property
    def converting(self) -> tuple[str, ...]:
        """Functions by which real numbers become integers."""
        return tuple(g for g in self.guards if g.startswith("convert_"))

    @property
    def complex(self) -> tuple[tuple[str, str], ...]:
        """Functions of complex numbers, and their type."""
        found = (g.split("_")[1:] for g in self.guards if g.startswith("complex_"))
        return tuple((name, pair) for name, pair in found)

    @property
    def c_version(self) -> tuple[int, int]:
        """OpenCL C that it is written in."""
        return (1, 2)

    @property
    def options(self) -> tuple[str, ...]:
        """Options that it alone is built with."""
        return ()


@dataclass(frozen=True, kw_only=True)
class PrintedCode(KernelCode):
    """Code that has been printed."""

    text: str
    version: tuple[int, int]  # OpenCL C that it is written in
    built: tuple[str, ...] = ()  # Options that it alone is built with

    @property
    def c_version(self) -> tuple[int, int]:
        """See `KernelCode.c_version`."""
        return self.version

    @property
    def options(self) -> tuple[str, ...]:
        """See `KernelCode.options`."""
        return self.built


def mask_type(value: str) -> str:
    """Returns the type of a lane of what `select` takes beside vectors of a type."""
    return "long" if value in ("double", "long", "ulong") else "int"


def round_up(value: int, multiple: int) -> int:
    """Returns the least multiple of ``multiple`` that is not below ``value``."""
    return -(-value // multiple) * multiple


def work_group(sizes: Sequence[int], wanted: int, *, whole_rows: bool = False) -> tuple[int, int]:
    """Returns a work-group (along the inner and the outer dimension) with little padding."""
    # Both are powers of two: some runtimes compile a kernel again for every size of group, and few
    # sizes must serve all shapes.
    inner, outer = sizes
    most = 1 << (wanted.bit_length() - 1)
    along = power_of_two(inner)
    if whole_rows and along <= most:
        return along, min(most // along, power_of_two(outer))
    along = min(most, along)
    # A smaller group where a larger one would leave more than an eighth of the work-items idle.
    while along > 16 and round_up(inner, along) - inner > inner // 8:
        along //= 2
    return along, min(most // along, power_of_two(outer))


def power_of_two(value: int) -> int:
    """Returns the least power of two that is not below ``value``."""
    return 1 << (value - 1).bit_length()
