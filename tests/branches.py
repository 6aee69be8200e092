"""Plans that reach the branches of templates which no golden file does.

Found by drawing problems and devices at random, and keeping those that reached something new. A
branch that no problem reaches has no place in a template; one that has just been written gets a
line here, or an example of its strategy.
"""

import dataclasses
from functools import lru_cache

import numpy as np
from planning import (
    ARGMAX,
    CPU,
    CUMULATIVE,
    FLOAT,
    GPU,
    array,
    define,
    map_plan,
    pairs_plan,
    reduce_plan,
    where_possible,
)
from rendered import RUNNING_WELFORD, WEIGHTED, kernel_sum
from support import BFLOAT16

import clprim as cp
from clprim.dtypes import scalar_dtype
from clprim.language.definition import define_pointwise
from clprim.language.epilogue_snippet import define_epilogue
from clprim.language.grouped_definition import define_grouped
from clprim.plan.conv.dense import dense_convolution, dense_depthwise
from clprim.plan.conv.family import CONVOLUTIONS
from clprim.plan.conv.lowering import forward
from clprim.plan.conv.pixels import Shuffle
from clprim.plan.conv.winograd.strategy import WINOGRAD
from clprim.plan.conv.winograd.tile import winograd_tile
from clprim.plan.conv.winograd.weight import WINOGRAD_WEIGHT
from clprim.plan.conv.winograd.weight_tile import weight_tile
from clprim.plan.decomposition.family import DECOMPOSITIONS
from clprim.plan.decomposition.problem import Decomposition, Side
from clprim.plan.depthwise.family import GRADIENTS, PLANES
from clprim.plan.depthwise.problem import depthwise_of
from clprim.plan.depthwise.weight.code import gradient_of
from clprim.plan.epilogue import POSITION, Epilogue
from clprim.plan.fourier.family import FOURIER
from clprim.plan.fourier.problem import Side as Line
from clprim.plan.fourier.problem import Strung, Transform
from clprim.plan.fused.family import ATTENTION_GRADIENTS, ATTENTION_UNIT_GRADIENTS, RESIDUALS
from clprim.plan.fused.residual_tiles import InvertedResidual
from clprim.plan.grouped.family import GROUPS
from clprim.plan.grouped.problem import Groups
from clprim.plan.place import Place
from clprim.plan.product.dense import dense_product
from clprim.plan.product.family import LANES, PRODUCTS
from clprim.plan.product.register_tile import Tile
from clprim.plan.reduction.code import Scaling
from clprim.plan.scan.family import SCANS
from clprim.plan.scan.planner import Scanned
from clprim.plan.sort.family import ORDERS
from clprim.plan.sort.planner import Keys
from clprim.plan.sort.select import FIRST, Least
from clprim.plan.strides import row_major_strides

on = dataclasses.replace
COMPLEX_FUNCTIONS = (
    "y0 = (exp(x0) * log(x0) + sqrt(x0) / tanh(x0) - conj(x0)) * pow(sin(x0), cos(x0)) * tan(x0) "
    "+ reciprocal(x0) * abs(x0) + arg(x0); if (x0 == 1i) y0 = sinh(x0) + cosh(x0);"
)
LARGEST = define(step="reduce_y0 = max(reduce_y0, y0);", init="reduce_y0 = -INFINITY;")
RUNNING_LARGEST = define(step="scan_y0 = max(scan_y0, y0);", init="scan_y0 = -INFINITY;", scan=True)
RANDOM_WALK = define("y0 = x0 + rand();", init="scan_y0 = 0;", step="scan_y0 += y0;", scan=True)
LONG_SUMS = define("y0 = x0 * x1;")
PRODUCTS_IN_TURN = define("y0 = x0 * x1;", finalize="y0 = reduce_y0 / count;")
SCALED = Scaling("scaled", FLOAT)
ARGMIN_OF_PAIRS = define(
    "y0 = x0 - x1;",
    init="reduce_y0 = highest_reduce_y0; reduce_y1 = 0;",
    step="if (y0 < reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
)
LARGEST_SUM = define("y0 = x0 + x1;", "reduce_y0 = -INFINITY;", "reduce_y0 = max(reduce_y0, y0);")
ARGMIN_OF_FIVE = define(
    "y0 = x0 * x2 + x1 * x3 + x4;",
    init="reduce_y0 = highest_reduce_y0;",
    step="if (y0 < reduce_y0) reduce_y0 = y0;",
)
SUMS = {
    "expr": "y0 = x0 - x1; y1 = y0 * y0;",
    "init": "reduce_y0 = 0; reduce_y1 = 0;",
    "step": "reduce_y0 += y0; reduce_y1 += y1;",
    "combine": None,
    "finalize": "group_y0 = reduce_y0 / count + x1; group_y1 = rsqrt(reduce_y1 * w0);",
    "each": "y0 = (x0 - group_y0) * group_y1 + x2 * w0;",
}


@where_possible
def mapped(*args, **options):
    """An elementwise kernel."""
    return (map_plan(*args, **options),)


@where_possible
def reduced(*args, **options):
    """The kernels of a reduction."""
    return reduce_plan(*args, **options).stages


@where_possible
def scan(
    shape,
    axis,
    order=None,
    definition=CUMULATIVE,
    dtype=np.float32,
    scalars=(),
    traits=CPU,
    **options,
):
    """The kernels of a scan; ``order`` is that of axes in memory."""
    float32 = np.dtype(np.float32)
    x, y = array(shape, dtype, order), array(shape, float32, order)
    results, partials = (y,) * definition.results, (float32,) * definition.partials
    types = tuple(scalar_dtype(s, FLOAT) for s in scalars)
    problem = Scanned(definition, shape, axis, results, (x,), types, partials, **options)
    return SCANS.plan(problem, traits).stages


def order(lines, length, traits, k=0):
    """The kernels that find the order of keys, or of the first few."""
    keys = Keys(lines, length, 32, 4)
    return (FIRST.plan(Least(keys, k), traits) if k else ORDERS.plan(keys, traits)).stages


def fourier(n, sizes, traits, *, x=None, y=None, dtype=np.float32, **how):
    """The kernels of Fourier transforms; sides are (step, part, steps of loops), or dense."""
    how.setdefault("real", (x is not None and x[1] == 0) or how.get("half", False))
    dense = (2, 1, tuple(2 * n * k for k in row_major_strides(sizes)))
    sides = [Line(name, 0, *(given or dense)) for name, given in (("x", x), ("y", y))]
    how = {"have": n, "kept": n, "given": np.dtype(dtype)} | how
    return FOURIER.plan(Transform(n, sizes, *sides, np.dtype(dtype), **how), traits).stages


def decomposition(kind, results, size, traits, *, parts=1, dtype=np.float32, given="a", **how):
    """The kernels of a hundred dense matrices; all arrays are as large."""
    m, n, k = size
    steps = parts * n, parts, (parts * m * n,)
    sides = [
        Side(name, 0, *steps, parts, whole=name in ("pivots", "info"))
        for name in (*given.split(), *results.split())
    ]
    count = len(given.split())
    arrays = tuple(sides[:count]), tuple(sides[count:])
    what = Decomposition(kind, m, n, k, (100,), *arrays, np.dtype(dtype), parts, **how)
    return DECOMPOSITIONS.plan(what, traits).stages


def strung(part, text, x, y, *given, numbers=0):
    """A string of a transform, beside arrays of some dtypes, (dtype, step, steps of loops) each."""
    sides = tuple(Line(f"{part}_x{k}", 0, a[1], 0, a[2]) for k, a in enumerate(given, 1))
    types, scalars = tuple(np.dtype(a[0]) for a in given), (np.dtype(np.float32),) * numbers
    definition = define_pointwise(text, name=part, preamble="")
    return Strung(definition, np.dtype(x), np.dtype(y), sides, types, scalars, 1)


def strung_transforms():
    """Transforms with strings on what they read and write."""
    real, pair = "float32", "complex64"
    window = strung("load", "y0 = x0 * x1 + w0;", real, real, (real, 1, (0,)), numbers=1)
    power = strung("store", "y0 = real(x0) * real(x0);", pair, real)
    chirp = strung("load", "y0 = x0 * x1;", pair, pair, (pair, 1, (0,)))
    lines = strung("store", "y0 = x0 * x1;", pair, pair, (pair, 80, (1,)))
    odd = strung("load", "y0 = x0 > 0 ? exp(x0) : x1;", real, real, ("float16", 1, (7,)))
    each = strung("store", "y0 = exp(x0);", pair, pair)
    bare = strung("store", "y0 = x0 + w0;", real, real, numbers=1)
    for traits in (CPU, GPU):
        x, y = (1, 0, (32,)), (1, 0, (17,))
        yield fourier(32, (40,), traits, x=x, y=y, kept=17, load=window, store=power)
        yield fourier(32, (40,), traits, x=x, kept=17, load=odd, have=20)
        yield fourier(15, (40,), traits, load=chirp, store=each, have=9)
        yield fourier(47, (40,), traits, load=chirp, store=lines, kept=3)
        yield fourier(32, (40,), traits, y=x, half=True, have=17, load=chirp, store=bare)
    columns = (80, 1, (2,))
    yield fourier(6, (40,), CPU, x=columns, y=columns, load=chirp, store=lines, have=4, kept=3)
    yield fourier(6, (40,), CPU, x=(120, 1, (3,)), y=(80, 0, (2,)), store=power, load=chirp)
    yield fourier(4093, (2,), CPU, load=chirp, store=each)


def over_pairs():
    """Reductions of operands that broadcast against each other, of every kind."""
    rows, columns = array((200, 1, 64)), array((1, 300, 64))
    each, both = [array((200, 300, 1)), array((200, 1, 1))], array((1, 300, 1))
    weights = [*each, both, array((1, 1, 1)), array((1, 1, 64))]
    mixed = define("y0 = x0 * x1 * x2 + x3 - x4 * x5 + x6;")
    large = on(CPU, cache_bytes=1024)
    turned = array((200, 300, 1), order=(2, 1, 0))
    for traits in (CPU, GPU, large):
        yield reduced([rows, columns, *weights], (2,), traits, mixed)
        yield reduced([rows, columns, *each, both, turned, weights[-1]], (2,), traits, mixed)
        yield reduced([rows, both], (2,), traits, LARGEST_SUM)
        yield reduced([rows, columns, weights[0], both, turned], (2,), traits, ARGMIN_OF_FIVE)
        yield reduced(
            [array((9, 200, 1, 8), order=(1, 0, 3, 2)), array((9, 1, 300, 8))],
            (0, 3),
            traits,
            define("y0 = x0 * x1;"),
        )
        yield reduced([rows, array((1, 300, 64), order=(2, 1, 0))], (2,), traits, LONG_SUMS)


def nested():
    """Nested reductions over pairs, of every kind."""
    rows, columns = array((90, 1, 64)), array((1, 300, 64))
    line, column, both = array((90, 1)), array((300,)), array((90, 300))
    turned, one = array((90, 300), order=(1, 0)), array((1,))
    largest = {"init": "reduce_y0 = -INFINITY;", "step": "if (y0 > reduce_y0) reduce_y0 = y0;"}
    placed = {
        "init": "reduce_y0 = -INFINITY; reduce_y1 = 0;",
        "step": "if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }",
    }
    weights = "y0 = d + x2 * x3 - x4 * x5 + x6;"
    narrow = on(CPU, vector_bytes=16)
    for traits in (CPU, narrow):
        yield planned(
            kernel_sum(weights), rows, columns, line, column, both, turned, one, traits=traits
        )
        yield planned(
            kernel_sum("if (d > 1) y0 = d * x2; else y0 = x3;"), rows, columns, column, both
        )
        yield planned(kernel_sum("y0 = d;", **placed), rows, columns, traits=traits)
        for width in (1, 5, 200):
            v, w = array((1, 300, width)), array((90, 1, width), np.float16)
            more = {"values": "y0 = x0 * x1 + x2;"}
            yield planned(kernel_sum("y0 = d;", **more), rows, columns, v, w, traits=traits)
            more |= {"init": largest["init"], "step": largest["step"]}
            for expr in ("y0 = d;", "if (d > 1) y0 = d; else y0 = 1;"):
                softmax = kernel_sum(expr, **WEIGHTED)
                yield planned(softmax, rows, columns, v, traits=traits)
        finished = cp.Reduction(
            "y0 = x0 * x1 * x2;",
            init="reduce_y0 = 0;",
            step="reduce_y0 += y0;",
            finalize="y0 = reduce_y0; y1 = reduce_y0 / count;",
        )
        total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;")
        op = cp.Pairs(inner=finished, expr="y0 = d0 + d1;", outer=total)
        yield planned(op, array((90, 1, 7)), array((1, 9000, 7)), array((1, 1, 7)), traits=traits)
        inverse = cp.Reduction(
            "y0 = x0; y1 = x1;",
            init="reduce_y0 = 0; reduce_y1 = 0;",
            step="reduce_y0 += y0 / (x0 + 1); reduce_y1 += y1;",
        )
        op = cp.Pairs(expr="y0 = x0; y1 = x1;", outer=inverse)
        whole = cp.Reduction(
            "int a = (int)x0; y0 = a / 3;", init="reduce_y0 = 0;", step="reduce_y0 += y0;"
        )
        yield planned(cp.Pairs(expr="y0 = x0 * x1;", outer=whole), line, column, traits=traits)


@where_possible
def planned(*args, **options):
    """The kernels of a `Pairs`."""
    numbers = (0.5,) * args[0].scalars
    return pairs_plan(*args, numbers=numbers, **options).stages


def double(shape):
    """Describes an array of float64."""
    return array(shape, np.float64)


@where_possible
def near(strings, shape, axes, inputs, outs, keep, traits=CPU):
    """The kernel of groups that a cache holds."""
    definition = define_grouped(**strings, name="group", preamble="")
    value = inputs[0].dtype
    problem = Groups(definition, shape, axes, value, inputs, (value,), outs, keep)
    name = "grouped/runs" if traits.is_cpu else "grouped/items"
    return GROUPS.strategy(name).planned(problem, traits).stages


@where_possible
def mm(*args, traits=CPU, name="auto", **options):
    """The kernels of a product of matrices."""
    return PRODUCTS.plan(dense_product(*args, **options), traits, name).stages


@where_possible
def mixed(m, n, k, a, b, traits, name):
    """Those of one whose operands have dtypes of their own, and doubles as sums."""
    p = dense_product(m, n, k)
    gathered, packed = on(p.gathered, dtype=np.dtype(a)), on(p.packed, dtype=np.dtype(b))
    problem = on(p, value=np.dtype(np.float64), gathered=gathered, packed=packed)
    return PRODUCTS.plan(problem, traits, name).stages


@where_possible
def conv(*args, traits=CPU, name="auto", **options):
    """The kernels of a convolution of square images."""
    return CONVOLUTIONS.plan(dense_convolution(*args, **options), traits, name).stages


@where_possible
def planes(name, *args, **options):
    """Those of a depthwise one by a strategy's name."""
    problem = dense_depthwise(*args, **options)
    lowered = gradient_of if options.get("direction") == "weight" else depthwise_of
    (strategy,) = (s for s in (*PLANES, *GRADIENTS) if s.name == name)
    return strategy.planned(lowered(problem), CPU).stages


@where_possible
def tiled(name, tile, *args, traits=CPU, **options):
    """Those of one with a register tile that no rule chooses."""
    problem = forward(dense_convolution(*args, **options))
    return PRODUCTS.strategy(name).planned(problem, traits, Tile(*tile)).stages


@where_possible
def winograd(images, channels, *args, traits=CPU, kernels, w_last=False, **options):
    """Those by Winograd's algorithm, in so many kernels."""
    p = dense_convolution(images, channels, *args, **options)
    if w_last:
        w = on(p.w, image=9 * channels, channel=1, row=3 * channels, column=channels)
        p = on(p, w=w)
    problem = on(forward(p), error=1.0)
    tile = on(winograd_tile(problem, traits).tile, kernels=kernels)
    return WINOGRAD.planned(problem, traits, tile).stages


@where_possible
def winograd_weight(images, channels, *args, traits=CPU, w_last=False, kernels=2, **options):
    """Those of the gradient in a weight whose channels may lie side by side."""
    p = dense_convolution(images, channels, *args, direction="weight", **options)
    if w_last:
        w = on(p.w, image=9 * channels, channel=1, row=3 * channels, column=channels)
        p = on(p, w=w)
    p = on(p, error=1.0)
    tile = on(weight_tile(p, traits), kernels=kernels)
    return WINOGRAD_WEIGHT.planned(p, traits, tile).stages


@where_possible
def positioned(*args):
    """Those of one whose epilogue asks where it is."""
    p = dense_convolution(*args)
    snippet = define_epilogue("conv2d", "y0 = y0 * w0 + index + coord(1) * size(0);")
    index = Place("index", POSITION, 0, *p.result.strides)
    arrays = (index, Place("coord_1", POSITION, 0, 0, 1, 0, 0))
    epilogue = Epilogue(snippet, arrays, 1, ((1, 1),), ((0, 0),), p.y_shape)
    return CONVOLUTIONS.plan(on(p, epilogue=epilogue), CPU).stages


@where_possible
def copying(*args, **options):
    """Those of one whose epilogue copies an array to a second result."""
    p = dense_convolution(*args, **options)
    arrays = tuple(Place(name, FLOAT, 0, *p.result.strides) for name in ("x0", "y1"))
    snippet = define_epilogue("conv2d", "y1 = x0;", results=2)
    epilogue = Epilogue(snippet, arrays, shape=p.y_shape)
    return CONVOLUTIONS.plan(on(p, epilogue=epilogue), CPU).stages


@where_possible
def inverted(text="y0 = clamp(y0, 0, 6);", *, last=True, expand=True, project=True):
    """The kernel of an inverted residual with biases and an activation."""
    options = {"bias": True, "epilogue": text}
    wide = dense_convolution(2, 8, 14, 16, 1, last=last, padding=0, **options)
    taps = dense_depthwise(2, 16, 14, last=last or expand, **options)
    narrow = dense_convolution(2, 16, 14, 8, 1, last=True, padding=0, bias=True)
    first = forward(wide) if expand else None
    third = forward(narrow) if project else None
    problem = InvertedResidual(first, depthwise_of(taps), third)
    return (RESIDUALS.plan(problem, CPU).main,)


def sub_groups():
    """Taps and channels that make whole steps of a sub-group, and such that do not."""
    for last in (False, True):
        for channels, kernel, padding in ((4, 2, 0), (4, 2, 1), (3, 3, 0), (1, 3, 1), (20, 1, 0)):
            options = {"last": last, "padding": padding, "traits": LANES, "name": "sub_groups"}
            yield conv(1, channels, 8, 40, kernel, **options)
        yield conv(1, 16, 8, 16, last=last, bias=True, traits=LANES, name="sub_groups")
        line = dense_convolution(1, 1, 8, 40, last=last)
        line = on(line, rows=dataclasses.replace(line.rows, kernel=1, before=0, after=0))
        yield PRODUCTS.plan(forward(line), LANES, "sub_groups").stages
    for dtype, depth in ((BFLOAT16, 64), (np.float16, 48), (np.float16, 47)):
        yield mm(64, 64, depth, dtype=dtype, traits=LANES, name="sub_groups")
    blocks = on(GPU, matrix_units=("subgroup_matrix_multiply_accumulate/m8n16k16/float16/16",))
    yield mm(64, 64, 64, "NT", dtype=np.float16, traits=blocks, name="matrix")


def plans():
    """The kernels of every plan, plan by plan."""
    yield mapped("y0 = inside_x0(coord(0)) ? 1 : 0;", array((5,)), out=array((9,)))
    yield mapped("y0 = sin(x0);", array((500,)), traits=on(CPU, vector_trigonometry=False))
    for least in (16, 64):
        uneven = on(CPU, function_bytes=least, estimate_bytes=least)
        yield mapped("y0 = exp(x0) + pow(x0, x0) + native_exp(x0);", array((500,)), traits=uneven)
    doubles = array((500,), np.float64)
    yield mapped("y0 = native_exp(x0) + exp(x0);", doubles, traits=uneven)
    unsigned = array((5,), np.uint32)
    yield mapped("y0 = x0 % x1;", unsigned, unsigned, out=unsigned)
    yield mapped("y0 = erfc(x0);", array((500,), np.float64))
    for pair in (np.complex64, np.complex128):
        whole, one = array((1 << 24,), pair), array((1,), pair)
        yield mapped(COMPLEX_FUNCTIONS, array((500,), pair), dtype=pair)
        yield mapped("y0 = x0 * x1 / x0;", whole, one, dtype=pair)
    short, long = array((500,), np.complex64), array((500,), np.complex128)
    yield mapped("y0 = x0 + x1;", short, long, dtype=np.complex128)
    yield reduced(array((4000, 3), np.int32), (0,), partials=[np.int32])
    yield mapped(
        "y0 = x0 + x1;",
        array((2, 3, 20, 20), order=(0, 2, 3, 1)),
        array((3, 1, 1)),
        out=array((2, 3, 20, 20), order=(0, 2, 3, 1)),
        traits=on(CPU, cache_bytes=1024),
    )
    yield mapped(
        "y0 = x0 + x1;",
        array((8, 3, 40, 50), order=(0, 2, 3, 1)),
        array((8, 3, 1, 1)),
        out=array((8, 3, 40, 50)),
    )
    yield mapped(
        "y0 = x0;",
        array((2, 128, 128, 2, 2)),
        out=array((2, 128, 128, 2, 2), order=(0, 3, 1, 4, 2)),
    )
    yield mapped("y0 = x0;", array((6, 5, 50, 3), order=(1, 0, 3, 2)), out=array((6, 5, 50, 3)))
    yield mapped(
        "y0 = x0 + randn();",
        array((16, 2, 5), np.float16),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        out=array((16, 2, 5), order=(2, 1, 0)),
    )
    yield mapped(
        "y0 = x0 + x1 + x2; y1 = y0 * 2;",
        array((1, 17), order=(1, 0)),
        array((4096, 17), order=(1, 0)),
        array((4096, 17), np.float64),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        results=2,
    )
    yield mapped(
        "y0 = x0 + x1 + x2;",
        array((100, 100000, 2)),
        array((100, 100000, 2)),
        array((1, 100000, 2)),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        out=array((100, 100000, 2), BFLOAT16, order=(0, 2, 1)),
    )
    yield mapped(
        "y0 = x0 + x1 + x2;",
        array((2, 5, 100000), BFLOAT16),
        array((2, 5, 100000)),
        array((2, 5, 100000), BFLOAT16),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        out=array((2, 5, 100000), order=(1, 2, 0)),
    )
    yield mapped(
        "y0 = x0 + x1;",
        array((2, 50, 4096), np.float16),
        array((1, 1, 1)),
        traits=on(CPU, vector_bytes=32),
        out=array((2, 50, 4096), order=(2, 0, 1), offset=16),
    )
    yield mapped(
        "y0 = x0;",
        array((50, 2, 64, 7), np.float64, order=(1, 3, 0, 2)),
        traits=on(CPU, vector_bytes=16),
    )
    yield reduced(
        [array((50, 17, 1), np.bool_, order=(0, 2, 1)), array((50, 1, 1), np.bool_, offset=16)],
        (2,),
        traits=GPU,
        definition=define("y0 = x0 * x1;"),
        scaling=[Scaling()],
    )
    yield reduced(
        [array((7, 2, 5, 5), np.int32, steps=2), array((1, 2, 5, 1), np.float16)],
        (0, 3),
        traits=on(GPU, max_work_group_size=64, local_memory=4096),
        definition=define("y0 = x0 * x1;"),
        results=[np.float32],
    )
    yield reduced(
        array((1,)),
        (0,),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        definition=LARGEST,
        scaling=[Scaling("scaled", FLOAT)],
        results=[np.int32],
    )
    yield reduced(array((64, 4096)), (0,), traits=on(CPU, prefetch=True, cache_bytes=1024))
    yield reduced(
        array((2, 2, 4, 100000), order=(1, 0, 3, 2)),
        (1, 3),
        traits=on(CPU, vector_bytes=16),
        definition=LARGEST,
    )
    yield reduced(
        array((2, 3, 4, 100000), BFLOAT16, order=(3, 0, 1, 2)),
        (0, 2, 3),
        traits=GPU,
        definition=ARGMAX,
        partials=["f4", "i8"],
    )
    yield reduced(
        array((2, 5, 4096, 2), BFLOAT16),
        (0, 2),
        traits=GPU,
        definition=ARGMAX,
        partials=["f4", "i8"],
        results=[BFLOAT16] * 2,
    )
    yield reduced(
        array((4, 100000, 100, 2), steps=3),
        (2, 3),
        traits=on(GPU, sub_group_size=32, compute_units=64),
        definition=define("y0 = x0 * coord(0) + index;"),
    )
    yield reduced(array((4096,)), (0,))
    yield reduced(array((2, 12_000)), (1,))
    yield reduced(array((64, 16)), (1,))
    yield reduced(array((64, 4, 128)), (0, 2))
    yield scan((100000, 64), 0)
    yield scan(
        (100000,),
        0,
        order=(0,),
        definition=RUNNING_WELFORD,
        dtype=np.float64,
        exclusive=True,
        reverse=False,
        traits=on(CPU, vector_bytes=16),
    )
    yield scan(
        (100000,),
        0,
        order=(0,),
        definition=RUNNING_LARGEST,
        exclusive=False,
        reverse=False,
        traits=on(CPU, prefetch=True, cache_bytes=1024),
    )
    yield scan(
        (7, 1000),
        1,
        order=(1, 0),
        definition=RANDOM_WALK,
        dtype=np.float64,
        exclusive=False,
        reverse=True,
        traits=GPU,
    )
    short = on(CPU, vector_bytes=16)
    yield fourier(15, (3, 100), short, have=7, inverse=True)
    yield fourier(1 << 19, (1,), GPU)
    yield fourier(17, (3,), CPU, x=(1, 100, (9,)), half=True, have=9)
    yield fourier(1, (40,), CPU, dtype=np.float64)
    columns = (80, 1, (2,))
    yield fourier(6, (40,), CPU, x=columns, y=columns, have=4, kept=3)
    yield fourier(8, (40,), CPU, x=(1, 0, (8,)), kept=5)
    yield fourier(8, (40,), CPU, y=(1, 0, (8,)), half=True, have=5)
    yield fourier(4, (40,), CPU, x=(40, 0, (1,)), y=(40, 0, (1,)))
    yield fourier(4, (40,), on(CPU, vector_bytes=8), kept=3)
    yield fourier(17, (1,), CPU, x=(1, 0, (17,)))
    for dtype in (np.dtype(np.float16), BFLOAT16):
        for step, lines in ((1, 8), (40, 1)):
            yield fourier(8, (40,), CPU, x=(step, 0, (lines,)), given=dtype)
        yield fourier(8192, (3,), CPU, x=(1, 0, (4097,)), half=True, have=4097, given=dtype)
    yield fourier(17, (40,), CPU, kept=9)
    yield fourier(17, (3,), GPU, half=True, have=9, inverse=True)
    yield fourier(64, (40,), GPU, x=(80, 1, (2,)), have=60, kept=3)
    yield fourier(4, (40,), CPU, y=(160, 1, (4,)))
    yield fourier(1_000_003, (1,), CPU)
    for traits in (CPU, GPU):
        yield fourier(32, (40,), traits, x=(1, 0, (32,)), kept=17, inverse=True)
        yield fourier(32, (40,), traits, y=(1, 0, (32,)), half=True, have=9)
    yield fourier(32, (40,), CPU, x=(40, 0, (1,)), y=(80, 1, (2,)), kept=17)
    yield fourier(32, (40,), CPU, x=(80, 1, (2,)), y=(40, 0, (1,)), half=True, have=17)
    real = {"x": (1, 0, (8192,)), "y": (2, 1, (8194,)), "kept": 4097}
    yield fourier(8192, (2,), CPU, **real)
    yield fourier(8192, (2,), CPU, **real, have=100, scaled=False)
    yield fourier(8192, (2,), CPU, x=(2, 1, (8194,)), y=(1, 0, (8192,)), half=True, have=3000)
    for traits in (CPU, GPU):
        for n in (15, 47):
            yield fourier(n, (40,), traits, y=(1, 0, (n,)), half=True, have=24)
    for traits in (CPU, GPU):
        yield fourier(47, (40,), traits, x=(1, 0, (47,)), kept=24)
    yield fourier(4093, (2,), CPU, x=(1, 0, (4093,)), kept=2047)
    yield decomposition("cholesky", "l info", (32, 32, 0), CPU)
    for traits, parts, dtype in ((CPU, 1, np.float64), (CPU, 2, np.float32), (GPU, 1, np.float32)):
        for size in ((4, 4, 4), (20, 20, 3)):
            how = {"traits": traits, "size": size, "parts": parts, "dtype": dtype}
            yield decomposition("solve", "x info", given="a b", **how)
            for unit in (False, True):
                yield decomposition("triangular", "x", given="a b", unit=unit, **how)
            for kind, results in (
                *(("lu", "lu pivots info"), ("det", "det"), ("det", "det logabs")),
                *(
                    ("cholesky", "l info"),
                    ("qr", "q r"),
                    ("qr", "r"),
                    ("qr", "h tau"),
                    ("inv", "x info"),
                ),
                *(("eigh", "w info"), ("eigh", "w v info"), ("svd", "u s v info"), ("svd", "s")),
            ):
                yield decomposition(kind, results, **how)

    yield from strung_transforms()
    every = *ATTENTION_GRADIENTS.examples(), *ATTENTION_UNIT_GRADIENTS.examples()
    for _, strategy, one in every:
        yield where_possible(strategy.planned)(one.problem, one.traits).stages
    yield order(1, 100000000, GPU)
    yield order(1, 1000000, CPU)
    yield order(1, 1000000, CPU, k=5)
    yield near(
        SUMS,
        (32, 64, 14, 16),
        (0, 2, 3),
        (array((32, 64, 14, 16)), array((1, 64, 1, 1)), array((32, 64, 14, 16))),
        (array((32, 64, 14, 16)),),
        (None, array((1, 64, 1, 1))),
        traits=on(CPU, cache_bytes=1024, prefetch=True),
    )
    yield near(
        SUMS,
        (64, 40, 20),
        (1, 2),
        (double((64, 40, 20)), double((64, 1, 1)), double((1, 40, 1))),
        (double((64, 40, 20)),),
        (None, double((64, 1, 1))),
    )
    yield near(
        SUMS,
        (64, 40, 80),
        (1, 2),
        (double((64, 40, 80)), double((64, 1, 1)), double((1, 40, 1))),
        (double((64, 40, 80)),),
        (None, double((64, 1, 1))),
        traits=GPU,
    )
    yield mm(130, 1, 5000, "TN", traits=on(CPU, prefetch=True, cache_bytes=1024), name="panels")
    yield mm(
        96, 7, 5000, "TN", dtype=BFLOAT16, epilogue="if (y0 < 0) y0 = 0;", traits=GPU, name="tiles"
    )
    yield mixed(128, 128, 64, BFLOAT16, np.float64, GPU, "tiles")
    yield mixed(128, 128, 64, np.float16, np.float64, GPU, "tiles")
    yield mixed(128, 128, 64, np.float32, np.float32, GPU, "tiles")
    yield mixed(64, 64, 64, BFLOAT16, np.float64, CPU, "panels")
    yield mixed(64, 64, 64, np.float16, np.float64, CPU, "panels")
    yield conv(
        1,
        16,
        56,
        16,
        1,
        last=True,
        stride=3,
        padding=1,
        direction="input",
        epilogue="if (y0 < 0) y0 = 0;",
        beta=True,
        groups=16,
        traits=on(CPU, vector_bytes=16),
    )
    yield conv(
        1,
        16,
        56,
        16,
        3,
        bias=True,
        groups=16,
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        name="depthwise",
    )
    yield conv(
        1,
        2,
        56,
        16,
        5,
        stride=2,
        padding=2,
        epilogue="y0 = clamp(y0, 0, 6);",
        bias=True,
        shuffle=Shuffle(2, "CRD", 4, "ijc"),
        traits=GPU,
        name="in_place",
    )
    yield conv(
        1,
        3,
        14,
        6,
        3,
        padding=1,
        direction="input",
        epilogue="y0 += x0;",
        beta=True,
        groups=3,
        traits=on(CPU, prefetch=True),
    )
    yield conv(
        1,
        32,
        14,
        8,
        1,
        last=True,
        stride=2,
        padding=1,
        dilation=2,
        bias=True,
        shuffle=Shuffle(2, "DCR", 2, "ijc"),
        traits=on(CPU, vector_bytes=32),
    )
    yield conv(
        1,
        32,
        56,
        4,
        3,
        direction="weight",
        beta=True,
        shuffle=Shuffle(2, "CRD", 1, "cij"),
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        name="panels",
    )
    yield conv(
        1, 8, 56, 8, 1, last=True, stride=3, padding=1, step=2, groups=8, traits=GPU, name="tiles"
    )
    yield conv(
        2,
        2,
        5,
        2,
        3,
        padding=0,
        dtype=np.int32,
        epilogue="y0 = max(y0, 0);",
        bias=True,
        groups=2,
        traits=on(CPU, prefetch=True, cache_bytes=1024),
        name="depthwise",
    )
    yield conv(2, 32, 14, 16, 3, stride=2, padding=1, step=2, traits=on(CPU, compute_units=1))
    yield conv(
        2,
        32,
        5,
        48,
        3,
        last=True,
        dtype=np.float64,
        direction="weight",
        traits=on(CPU, prefetch=True),
    )
    yield conv(
        2,
        32,
        56,
        8,
        3,
        last=True,
        epilogue="y0 = clamp(y0, 0, 6);",
        groups=2,
        traits=on(CPU, compute_units=1),
    )
    yield tiled("panels", (6, 2), 2, 32, 5, 48, 3, last=True, direction="weight")
    yield conv(
        2, 8, 14, 48, 1, stride=3, direction="weight", traits=on(CPU, prefetch=True), name="tiles"
    )
    yield conv(4, 16, 14, 4, 3, dtype=np.float64, epilogue="y0 = max(y0, 0);")
    yield conv(
        4,
        16,
        7,
        16,
        3,
        last=True,
        stride=2,
        padding=0,
        dilation=2,
        direction="weight",
        beta=True,
        groups=16,
        traits=GPU,
    )
    yield conv(
        4,
        2,
        14,
        4,
        2,
        last=True,
        dilation=2,
        dtype=BFLOAT16,
        direction="weight",
        groups=2,
        traits=GPU,
    )
    yield conv(
        4,
        8,
        28,
        8,
        5,
        last=True,
        stride=2,
        epilogue="y0 = tanh(y0) + x0;",
        beta=True,
        groups=8,
        traits=on(CPU, prefetch=True, cache_bytes=1024),
    )
    yield conv(4, 8, 7, 64, 7, stride=2, epilogue="y0 = tanh(y0) + x0;", bias=True, traits=GPU)
    yield conv(1, 32, 28, 16, 3, padding=1, epilogue="y0 += x0;", traits=on(CPU, prefetch=True))
    # Tiles of more rows than a vector has elements, and lines that do not divide into them.
    yield conv(1, 16, 46, 3, 3, stride=2, padding=1, traits=on(CPU, vector_bytes=32))
    for channels in (
        24,
        64,
        2048,
    ):  # prefetched by rows, parts of them, and at once
        image = (1, channels, 28, 64, 1)
        prefetching = on(CPU, prefetch=True)
        yield tiled("in_place", (6, 4), *image, last=True, epilogue="y0 += x0;", traits=prefetching)
    yield planes(
        "depthwise/weight/channels", 2, 32, 30, 7, direction="weight", last=True, beta=True
    )
    yield tiled(
        "in_place",
        (7, 3),
        2,
        32,
        7,
        36,
        3,
        shuffle=Shuffle(3, "CRD", 4, "cij"),
        traits=on(CPU, vector_bytes=16),
    )
    yield winograd(2, 3, 14, 24, traits=on(CPU, prefetch=True), kernels=1)
    yield winograd(
        2,
        32,
        14,
        64,
        shuffle=Shuffle(2, "CRD", 16, "cij"),
        traits=on(CPU, prefetch=True),
        kernels=3,
    )
    yield winograd(2, 16, 56, 64, kernels=1)  # channels that are added up in short chains
    yield winograd(2, 32, 14, 64, w_last=True, kernels=2)
    yield winograd(2, 32, 14, 64, stride=2, kernels=2)
    yield winograd(2, 32, 14, 64, stride=2, kernels=3)
    backward = {"direction": "input", "kernels": 3}
    yield winograd(2, 32, 14, 64, w_last=True, **backward)
    yield winograd(2, 32, 14, 64, traits=on(CPU, prefetch=True), w_last=True, **backward)
    yield winograd(2, 32, 14, 64, traits=on(CPU, vector_bytes=32), **backward)
    yield winograd_weight(2, 32, 14, 64, w_last=True)
    yield winograd_weight(
        2, 32, 14, 64, traits=on(CPU, prefetch=True), w_last=True, last=True, beta=True
    )
    yield winograd_weight(2, 16, 14, 16, last=True)
    yield positioned(2, 32, 14, 64)
    yield conv(1, 32, 15, 16, 5, padding=0, traits=GPU)
    yield from over_pairs()
    yield from nested()
    yield copying(2, 16, 14, 32, 1, padding=0)
    yield from sub_groups()
    yield inverted(last=False, expand=False)
    yield inverted(last=False)
    yield inverted(text="if (y0 < 0) y0 = 0;")
    yield inverted(project=False)


@lru_cache(maxsize=1)
def kernels():
    """All of these, as (name, template, code)."""
    return [
        (f"{n}: {stage.template}", stage.template, stage.code)
        for n, stages in enumerate(plans())
        for stage in stages
    ]
