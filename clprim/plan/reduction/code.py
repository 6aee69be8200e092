"""What the reduction templates print: results, partials, snippets and the shape of the loops."""

from __future__ import annotations

from dataclasses import dataclass

from clprim.dtypes import AnyDType, StoredType, stored_type
from clprim.plan.kernel import KernelCode, OperandCode, PositionCode, ScalarCode


@dataclass(frozen=True)
class Scaling:
    """How a reduced value goes into its result.

    Attributes:
        kind: ``plain``, ``scaled`` (times alpha) or ``accumulate`` (plus beta times the old).
        dtype: In which alpha, beta and the sum are calculated; None where plain.
    """

    kind: str = "plain"
    dtype: AnyDType | None = None


@dataclass(frozen=True)
class PartialCode:
    """One partial result: ``reduce_yN``.

    Attributes:
        name: ``reduce_y0``, or ``scan_y0``.
        other: ``other_y0``, its partner in ``combine``.
        value: OpenCL C type in snippets.
        storage: OpenCL C type in the workspace between two stages.
        lowest, highest: The least and greatest value of the type, as OpenCL C writes them.
    """

    name: str
    other: str
    value: str
    storage: str
    lowest: str
    highest: str


@dataclass(frozen=True)
class FoldCode(KernelCode):
    """What the templates of reductions and of scans print alike.

    Attributes:
        expr, init, step, combine, finalize: The snippets; finalize is "" where there is none.
        results, inputs: The array operands.
        partials: The partial results.
        values: (name, OpenCL C type) of what ``expr`` assigns.
        scalars: The run-time scalars.
        positions, coords, sizes: As in `PointwiseCode`.
        kept: Loops outside the innermost kept one; of a scan they are also outside of a line.
        random: Whether the snippets draw random numbers.
    """

    expr: str
    init: str
    step: str
    combine: str
    finalize: str
    results: tuple[OperandCode, ...]
    inputs: tuple[OperandCode, ...]
    partials: tuple[PartialCode, ...]
    values: tuple[tuple[str, str], ...]
    scalars: tuple[ScalarCode, ...]
    positions: tuple[PositionCode, ...]
    coords: tuple[tuple[int, int], ...]
    sizes: tuple[tuple[int, int], ...]
    kept: int
    random: bool


@dataclass(frozen=True)
class ReductionCode(FoldCode):
    """What the reduce_*.cl.jinja print.

    Attributes:
        scaling: Of every result: ``plain``, ``scaled`` or ``accumulate``, and its type.
        reduced: Dimensions outside the innermost reduced one.
        vector, unroll: A work-item takes ``unroll`` vectors of ``vector`` elements at a time.
        lanes, rows: Work-items of a group, along the contiguous dimension and across.
        combine_vectors: Whether ``combine`` may run on whole vectors.
        partial: Whether this is the first of two stages, which stores partials.
        row_a_split: Whether every split is one whole row (of ``reduce_inner``).
        exact: Whether what a split takes is one tile, without a remainder (likewise).
        store_tiles: Whether ``reduce_columns`` may store whole vectors as they are.
        streaming: Whether it should do so by streaming stores.
        levels: Levels of accumulators above a tile, 4 steps each, which keep chains of additions
            short; 0 where nothing is added up.
        quads: Whether 4 steps at a time are made between two looks at the levels (of
            ``reduce_inner`` and ``reduce_narrow``).
        fours: Whether four steps at a time are made on accumulators of their own.
        endless: Whether the last level adds up without losing anything.
        added: Names of the partials of floats that merge by addition.
        still: Names of the inputs that the reduced loops do not move: one value an output.
        finalized: Names of the inputs that ``finalize`` reads.
        tall: Over pairs: rows of outputs of a work-item.
        kinds: Over pairs: what each input varies with, ``row``, ``column``, ``both``, ``neither``.
        packed: Over pairs: names of the inputs that lie in panels.
        steps: Over pairs: those that local memory holds of an operand.
        chain: Steps after which accumulators go up a level.
        vector_finish: Over pairs: whether whole vectors are finished and stored.
    """

    scaling: tuple[tuple[str, str], ...]
    reduced: int
    vector: int
    unroll: int
    lanes: int
    rows: int
    combine_vectors: bool
    partial: bool
    row_a_split: bool
    exact: bool
    store_tiles: bool
    streaming: bool
    levels: int
    quads: bool
    fours: bool
    endless: bool
    added: tuple[str, ...]
    still: tuple[str, ...]
    finalized: tuple[str, ...]
    tall: int = 1
    kinds: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    steps: int = 0
    chain: int = 6
    vector_finish: bool = False


@dataclass(frozen=True)
class KernelLoops:
    """The loops of one kernel, as its template prints them.

    Attributes:
        numbers: Sizes, starts and strides by name.
        index: OpenCL C type of these.
        baked: Whether numbers are constants of the code, being too many for arguments.
        inputs, results, positions, coords, sizes, kept: See `FoldCode`.
        reduced, still: See `ReductionCode`.
    """

    numbers: tuple[tuple[str, int], ...]
    index: str
    baked: bool
    inputs: tuple[OperandCode, ...]
    results: tuple[OperandCode, ...]
    kept: int
    positions: tuple[PositionCode, ...] = ()
    coords: tuple[tuple[int, int], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    reduced: int = 0
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
