"""What the reduction templates print: results, partials, snippets and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType, StoredType, stored_type
from clprim.plan.kernel import KernelCode, OperandCode, PositionCode, ScalarCode


@dataclass(frozen=True)
class Scaling:
    """How a reduced value goes into its result."""

    # ``plain``, ``scaled`` (times alpha) or ``accumulate`` (plus beta times the old)
    kind: str = "plain"
    # In which alpha, beta and the sum are calculated; None where plain
    dtype: AnyDType | None = None


@dataclass(frozen=True)
class PartialCode:
    """One partial result: ``reduce_yN``."""

    name: str  # ``reduce_y0``, or ``scan_y0``
    other: str  # ``other_y0``, its partner in ``combine``
    value: str  # OpenCL C type in snippets
    storage: str  # OpenCL C type in the workspace between two stages
    lowest: str  # The least and greatest value of the type, as OpenCL C writes them
    highest: str


@dataclass(frozen=True)
class FoldCode(KernelCode):
    """What the templates of reductions and of scans print alike."""

    expr: str  # The snippets; finalize is "" where there is none
    init: str
    step: str
    combine: str
    finalize: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    partials: tuple[PartialCode, ...]
    values: tuple[tuple[str, str], ...]  # (name, OpenCL C type) of what ``expr`` assigns
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]  # As in `PointwiseCode`
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    kept: int  # Loops outside the innermost kept one; of a scan they are also outside of a line
    random: bool  # Whether the snippets draw random numbers


@dataclass(frozen=True)
class ReductionCode(FoldCode):
    """What the reduce_*.cl.jinja print."""

    # Of every result: ``plain``, ``scaled`` or ``accumulate``, and its type
    scaling: tuple[tuple[str, str], ...]
    reduced: int  # Dimensions outside the innermost reduced one
    vector: int  # A work-item takes ``unroll`` vectors of ``vector`` elements at a time
    unroll: int
    lanes: int  # Work-items of a group, along the contiguous dimension and across
    rows: int
    combine_vectors: bool  # Whether ``combine`` may run on whole vectors
    partial: bool  # Whether this is the first of two stages, which stores partials
    row_a_split: bool  # Whether every split is one whole row (of ``reduce_inner``)
    exact: bool  # Whether what a split takes is one tile, without a remainder (likewise)
    store_tiles: bool  # Whether ``reduce_columns`` may store whole vectors as they are
    streaming: bool  # Whether it should do so by streaming stores
    # Levels of accumulators above a tile, 4 steps each, which keep chains of additions short; 0
    # where nothing is added up
    levels: int
    # Whether 4 steps at a time are made between two looks at the levels (of ``reduce_inner`` and
    # ``reduce_narrow``)
    quads: bool
    fours: bool  # Whether four steps at a time are made on accumulators of their own
    endless: bool  # Whether the last level adds up without losing anything
    added: tuple[str, ...]  # Names of the partials of floats that merge by addition
    # Names of the inputs that the reduced loops do not move: one value an output
    still: tuple[str, ...]
    finalized: tuple[str, ...]  # Names of the inputs that ``finalize`` reads
    tall: int = 1  # Over pairs: rows of outputs of a work-item
    # Over pairs: what each input varies with, ``row``, ``column``, ``both``, ``neither``
    kinds: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()  # Over pairs: names of the inputs that lie in panels
    steps: int = 0  # Over pairs: those that local memory holds of an operand
    chain: int = 6  # Steps after which accumulators go up a level
    vector_finish: bool = False  # Over pairs: whether whole vectors are finished and stored


@dataclass(frozen=True)
class KernelLoops:
    """The loops of one kernel, as its template prints them."""

    numbers: tuple[tuple[str, int], ...]  # Sizes, starts and strides by name
    index: str  # OpenCL C type of these
    baked: bool  # Whether numbers are constants of the code, being too many for arguments
    inputs: tuple[OperandCode, ...]  # See `FoldCode`
    results: tuple[OperandCode, ...]
    kept: int
    positions: tuple[PositionCode, ...] = ()
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    reduced: int = 0  # See `ReductionCode`
    still: tuple[str, ...] = ()


_BOUNDS = {
    "bool": ("0", "1"),
    "char": ("CHAR_MIN", "CHAR_MAX"),
    "uchar": ("0", "UCHAR_MAX"),
    "short": ("SHRT_MIN", "SHRT_MAX"),
    "ushort": ("0", "USHRT_MAX"),
    "int": ("INT_MIN", "INT_MAX"),
    "uint": ("0", "UINT_MAX"),
    "long": ("LONG_MIN", "LONG_MAX"),
    "ulong": ("0", "ULONG_MAX"),
    "float": ("-INFINITY", "INFINITY"),
    "double": ("-INFINITY", "INFINITY"),
    "float2": ("-INFINITY", "INFINITY"),
    "double2": ("-INFINITY", "INFINITY"),
}


def partial_code(number: int, dtype: AnyDType, family: str = "reduce_y") -> PartialCode:
    """Describes a partial, held as ``dtype``."""
    stored: StoredType = stored_type(dtype)
    lowest, highest = _BOUNDS[stored.value]
    return PartialCode(
        name=f"{family}{number}",
        other=f"other_y{number}",
        value=stored.value,
        storage=stored.storage,
        lowest=lowest,
        highest=highest,
    )
