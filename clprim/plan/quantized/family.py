"""The strategies of products with quantised weights; templates/quantized draws them.

A few rows are bound by memory: codes are decoded in registers, on GPUs by work-items that share the
depth; on CPUs they may be multiplied as whole numbers, where precision admits it. Many rows share
panels of what is decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clprim.plan.conv.dense import CPU, GPU
from clprim.plan.kernel import KernelPlan, OperandCode, Plan
from clprim.plan.machine import AHEAD, ITEMS, LINE, PAGE, near
from clprim.plan.product.dense import dense_product
from clprim.plan.product.register_code import ContractionCode, contraction_code, parameters_of
from clprim.plan.product.register_tile import lanes_of
from clprim.plan.product.shape import Shape
from clprim.plan.quantized.coding import OUTPUTS, UNIT, Coding, Field
from clprim.plan.quantized.problem import CodedProduct
from clprim.plan.strategy import Example, Family, Strategy
from clprim.traits import DeviceTraits

# Rows up to which a weight is decoded in registers alone, at least.
FEW = 8
# Rows beside which it costs less to sum up codes as they are than to scale each of them.
FOLDED = 2
# Rows up to which whole numbers are multiplied where precision allows it.
INTEGERS = 4
# Bound: groups of steps of k that local memory has sums of.
MOST_GROUPS = 1024
# Rows of a work-item that share a panel.
MANY = 64


@dataclass(frozen=True)
class RowsTile:
    """What registers hold."""

    rows: int
    vectors: int
    slices: int  # Work-items that share the depth


@dataclass(frozen=True)
class PanelTile:
    """What registers hold, and how many steps of k are decoded at a time."""

    rows: int
    vectors: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class CodedCode(ContractionCode):
    """What quantized/rows.cl.jinja and quantized/panels.cl.jinja print."""

    coding: Coding
    folded: bool  # Whether codes are summed up before they are scaled
    staged: bool  # Whether the rows become floats in memory of the work-item first
    chains: int = 1  # Sums of each row and vector that take turns
    slices: int = 1
    items: int = 1  # Work-items along the outputs
    depth: int = 0  # Steps of k of a panel
    most_groups: int = MOST_GROUPS

    @property
    def number(self) -> str:
        """The type of a vector of outputs."""
        return self.value if self.width == 1 else f"{self.value}{self.width}"

    @property
    def steps(self) -> int:
        """Steps of k in a word of the low bits of codes."""
        return FEW if self.coding.number else UNIT // self.coding.planes[0]

    @property
    def high(self) -> int:
        """High bits of a code that lie apart from the low ones."""
        return sum(self.coding.planes[1:])

    @property
    def offsets(self) -> bool:
        """Whether something is added to scaled codes."""
        return not (self.coding.table or self.coding.number)

    @property
    def power(self) -> int:
        """What scales are multiplied with beside codes that lie in a mantissa."""
        return 1 if self.coding.table else 2**self.coding.bits

    @property
    def least(self) -> float:
        """What is taken from codes where zero points are 0, in parts of `power`."""
        return 1

    @property
    def one(self) -> str:
        """What code 0 is, less what is taken from all codes, in parts of `power`."""
        return f"{self.least + self.coding.zero / self.power}f"

    @property
    def fraction(self) -> str:
        """One of a zero point in parts of `power`."""
        return f"{1 / self.power}f"

    @property
    def all_widths(self) -> list[int]:
        """Elements that are converted at once, those of rows included."""
        return sorted({*self.widths, 8, self.width} if self.width > 1 else {*self.widths})


@dataclass(frozen=True, kw_only=True)
class IntegersCode(CodedCode):
    """What quantized/integers.cl.jinja prints."""

    most_steps: int  # Bound: steps of k that local memory has rounded rows of

    @property
    def middle(self) -> int:
        """The code that is 0 in sums."""
        return 1 << self.coding.bits - 1

    @property
    def largest(self) -> int:
        """The most parts of a rounded number: 16 bits hold half of a group's products."""
        return ((1 << 15) - 1) // (self.middle * self.coding.group // 2)

    @property
    def power(self) -> int:
        """Codes are what they are."""
        return 1

    @property
    def least(self) -> float:
        """Less the middle, which sums have taken away."""
        return -self.middle

    @property
    def offsets(self) -> bool:
        """Whether something is added to scaled codes around the middle."""
        coding = self.coding
        return coding.has("offset") or coding.has("zero") or coding.zero != self.middle

    @property
    def line(self) -> int:
        """Words of a rounded row, by which rows lie in other sets of a cache."""
        return self.most_steps // 2 + LINE // 4

    @property
    def halves(self) -> list[int]:
        """Lengths that a vector of a word's steps is added up by."""
        return [self.steps >> n for n in range(1, self.steps.bit_length())]

    @property
    def all_widths(self) -> list[int]:
        """Elements that are converted at once, those of rows included."""
        return sorted({*self.widths, self.steps})


def _few(what: CodedProduct, traits: DeviceTraits) -> int:
    """Rows up to which a weight is decoded in registers alone, as many as these hold sums of."""
    # Rows half a page apart take each other's places in a near cache.
    x = what.gathered
    apart = x.lane[2] * x.dtype.itemsize % (PAGE // 2) > 0
    return 2 * FEW if traits.is_cpu and apart and traits.sums >= 2 * FEW else FEW


def _is_few(what: CodedProduct, traits: DeviceTraits) -> bool:
    return math.prod(what.lanes) <= _few(what, traits)


def _rows_of(what: CodedProduct) -> int:
    return 1 << (math.prod(what.lanes) - 1).bit_length()


def _rows_tile(what: CodedProduct, traits: DeviceTraits) -> RowsTile:
    """As many rows as there are, up to a power of two."""
    rows = min(_rows_of(what), _few(what, traits))
    if not traits.is_cpu:
        return RowsTile(rows, 1, max(1, min(ITEMS, traits.max_work_group_size // OUTPUTS)))
    width = lanes_of(4, traits)
    # One row is a stream of the weight, read as it lies; of more, a line of memory at a time.
    wanted = OUTPUTS // width if rows <= FOLDED else LINE // 4 // width
    most = max(1, min(wanted, traits.sums // (2 * rows)))
    return RowsTile(rows, 1 << (most.bit_length() - 1), 1)


def _panel_tile(what: CodedProduct, traits: DeviceTraits) -> PanelTile:
    del what
    width = lanes_of(4, traits)
    vectors = min(OUTPUTS // width, 2)
    steps = near(traits) // (vectors * width * 4) // UNIT * UNIT
    return PanelTile(min(FEW, traits.sums // vectors), vectors, max(UNIT, min(128, steps)))


def _plan_rows(what: CodedProduct, traits: DeviceTraits, tile: RowsTile) -> Plan:
    width = lanes_of(4, traits) if traits.is_cpu else 1
    folded = traits.is_cpu and not what.coding.number and math.prod(what.lanes) <= FOLDED
    folded = folded and what.depth // what.coding.group <= MOST_GROUPS
    items = 1 if traits.is_cpu else OUTPUTS
    # A model's weights come from memory, however few. Codes of whole bytes need no help for that
    # where little is done with them.
    streamed = traits.prefetch and (what.coding.parts > 1 or tile.rows > FOLDED)
    return _plan(
        what,
        traits,
        Shape(tile.rows, tile.vectors, width),
        "quantized/rows",
        tile.rows,
        folded=folded,
        chains=2 if folded else 1,
        ahead=AHEAD if streamed else 0,
        slices=tile.slices,
        items=items,
    )


def _integers_fit(what: CodedProduct, traits: DeviceTraits) -> bool:
    """Whether products of codes and rounded rows are allowed, and fit into 16 bits."""
    coding, rows = what.coding, min(_rows_of(what), INTEGERS)
    plain = what.precision == "medium" and what.gathered.dtype == np.float32
    plain = plain and not (coding.table or coding.number or coding.bits != 4)
    nbytes = _most_steps(what) * rows * (2 + 12 / coding.group)
    return plain and traits.is_cpu and nbytes <= traits.local_memory


def _most_steps(what: CodedProduct) -> int:
    return max(1024, 1 << (what.depth - 1).bit_length())


def _integers_tile(what: CodedProduct, traits: DeviceTraits) -> RowsTile:
    rows = min(_rows_of(what), INTEGERS)
    vectors = max(1, min(OUTPUTS // _integers_width(traits), traits.sums // rows))
    return RowsTile(rows, 1 << vectors.bit_length() - 1, 1)


def _integers_width(traits: DeviceTraits) -> int:
    """Outputs of a vector: of 16 bits it has twice as many elements, which end at 16."""
    return min(8, lanes_of(4, traits))


def _plan_integers(what: CodedProduct, traits: DeviceTraits, tile: RowsTile) -> Plan:
    return _plan(
        what,
        traits,
        Shape(tile.rows, tile.vectors, _integers_width(traits)),
        "quantized/integers",
        tile.rows,
        ahead=AHEAD if traits.prefetch else 0,
        most_steps=_most_steps(what),
    )


def _plan_panels(what: CodedProduct, traits: DeviceTraits, tile: PanelTile) -> Plan:
    shape = Shape(tile.rows, tile.vectors, lanes_of(4, traits))
    tiles = MANY // tile.rows
    rows = tiles * tile.rows
    ahead = AHEAD if traits.prefetch else 0
    options = {"most_tiles": tiles, "depth": tile.steps, "ahead": ahead}
    return _plan(what, traits, shape, "quantized/panels", rows, **options)


def _plan(
    what: CodedProduct,
    traits: DeviceTraits,
    shape: Shape,
    template: str,
    rows: int,
    *,
    most_tiles: int = 1,
    **options: Any,
) -> Plan:
    base = contraction_code(what, shape, traits, along="depth", most_tiles=most_tiles)
    coding, lanes, x = what.coding, math.prod(what.lanes), what.gathered
    told = {name: getattr(base, name) for name in base.__dataclass_fields__ if name != "ahead"}
    told["w"] = OperandCode("w", "uchar", "uchar", "direct")
    if what.nbytes >= 2**31:
        told["index"] = "long"
    integers = template == "quantized/integers"
    code = (IntegersCode if integers else CodedCode)(
        **told,
        coding=coding,
        staged=traits.is_cpu and x.dtype != np.float32,
        **({"folded": False} | options),
    )
    groups = -(-lanes // rows) * what.groups
    # Who rounds rows first has more to do with them.
    items = ITEMS // 4 if integers else ITEMS
    share = -(-what.tiles * groups // (items * traits.compute_units)) if traits.is_cpu else 1
    share = max(1, min(share, what.tiles))
    shares = -(-what.tiles // share)
    numbers = {
        "lanes": lanes,
        "lane_1": max(1, what.lanes[1]),
        "lane_2": max(1, what.lanes[2]),
        "outputs": what.outputs,
        "tiles": what.tiles,
        "share": share,
        "blocks": what.depth // coding.steps,
        **(
            {"depth": what.depth}
            if code.depth or integers or (code.folded and code.offsets)
            else {}
        ),
        "x_start": x.start,
        "x_group": x.group,
        **{f"x_lane_{d}": stride for d, stride in enumerate(x.lane)},
        "w_start": what.packed.start,
    }
    parameters, arguments = parameters_of(code, numbers, what)
    main = KernelPlan(
        template,
        replace(code, parameters=parameters),
        arguments,
        (shares * code.items, -(-lanes // rows) * code.slices, what.groups),
        (code.items, code.slices, 1),
        what.nbytes,
        2 * what.groups * lanes * what.outputs * what.depth,
    )
    return Plan((main,), {})


def dense_coded(
    m: int, n: int, k: int, coding: Coding, *, dtype: Any = np.float32, **options: Any
) -> CodedProduct:
    """Describes ``x @ wᵀ`` of a dense x (m, k) with a quantised weight (n, k)."""
    plain = dense_product(m, n, k, "NT", dtype=dtype, **options)
    packed = replace(plain.packed, dtype=np.dtype(np.uint32))
    return CodedProduct.of(plain, coding, packed=packed)


_SCALED = Coding(4, (Field("scale", "half", 32),), 8)


def _examples_rows() -> Iterator[Example[CodedProduct]]:
    """One row and some, scales of blocks and of parts of a unit, offsets, tables, numbers."""
    k_fields = (Field("scale", "half", 256), Field("scale", "uchar", 32))
    minima = (Field("offset", "half", 256), Field("offset", "uchar", 32))
    table = tuple(float(n - 8) for n in range(16))
    yield Example("", dense_coded(1, 96, 64, _SCALED), CPU)
    yield Example("gpu", dense_coded(2, 96, 64, _SCALED), GPU)
    five = Coding(5, (*k_fields, *minima), minus=True)
    large = dense_coded(2, 4096, 2048, _SCALED)
    yield Example("large", large, replace(CPU, prefetch=True))
    yield Example("minima", dense_coded(5, 70, 256, five, dtype=np.float16, beta=True), CPU)
    three = Coding(3, (Field("scale", "half", 256), Field("scale", "char", 16)), 4)
    yield Example("three", dense_coded(2, 64, 256, three), CPU)
    parts = Coding(4, (Field("scale", "bfloat16", 16),), table=table)
    yield Example("table", dense_coded(2, 64, 64, parts), CPU)
    narrow = replace(CPU, vector_bytes=32)
    yield Example("narrow_table", dense_coded(2, 64, 64, parts), narrow)
    yield Example("gpu_table", dense_coded(1, 64, 64, parts), GPU)
    zeros = Coding(8, (Field("scale", "float", 64), Field("zero", "uchar", 64)))
    yield Example("zeros", dense_coded(1, 64, 64, zeros, dtype=np.float16), CPU)
    yield Example("numbers", dense_coded(3, 64, 64, Coding(16, (), number="half")), CPU)


def _examples_panels() -> Iterator[Example[CodedProduct]]:
    minima = Coding(4, (*_SCALED.fields, Field("offset", "half", 32)))
    yield Example("", dense_coded(40, 96, 640, minima), replace(CPU, prefetch=True))
    number = Coding(16, (), number="bfloat16")
    yield Example("half", dense_coded(9, 64, 64, number, dtype=np.float16), CPU)


def _examples_integers() -> Iterator[Example[CodedProduct]]:
    medium = replace(dense_coded(1, 96, 64, _SCALED), precision="medium")
    yield Example("", medium, replace(CPU, prefetch=True))
    fields = (*_SCALED.fields, Field("offset", "half", 32))
    yield Example(
        "minima", replace(dense_coded(4, 70, 64, Coding(4, fields)), precision="medium"), CPU
    )


#: Products with quantised weights.
CODED: Family[CodedProduct] = Family(
    "quantized",
    None,
    (
        Strategy(
            "quantized/integers",
            RowsTile,
            rule=_integers_tile,
            plan=_plan_integers,
            applicable=_integers_fit,
            preferred=lambda what, _: math.prod(what.lanes) <= INTEGERS,
            examples=_examples_integers,
            needs='a CPU, float32 beside codes of 4 bits, matmul_precision="medium"',
        ),
        Strategy(
            "quantized/panels",
            PanelTile,
            rule=_panel_tile,
            plan=_plan_panels,
            applicable=lambda _, traits: traits.is_cpu,
            preferred=lambda what, traits: not _is_few(what, traits),
            examples=_examples_panels,
            needs="a CPU",
        ),
        Strategy(
            "quantized/rows", RowsTile, rule=_rows_tile, plan=_plan_rows, examples=_examples_rows
        ),
    ),
)
