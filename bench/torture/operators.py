"""Cases of operators: conversions, elements in other places, narrow dtypes, slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import clprim as cp
from bench.torture.case import Case
from bench.torture.draw import Draw, Host
from clprim import ops
from clprim.ops.elementwise.table import ROWS

INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
_EXTREMES = (np.nan, np.inf, -np.inf, -0.0, -5, 300, 2.0**31, 2.0**63, 1.5 * 2.0**63, 2.0**64)
_DOORS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("astype", lambda x, t: x.astype(t)),
    ("y0 = x0;", lambda x, t: cp.Pointwise("y0 = x0;", result_type=t)(x)),
    ("y0 = (typeof_y0)x0;", lambda x, t: cp.Pointwise("y0 = (typeof_y0)x0;", result_type=t)(x)),
    ("y0 += x0;", lambda x, t: cp.Pointwise("y0 += x0;", result_type=t)(x)),
)


def wrapped(values: Host, dtype: Any) -> Host:
    """Returns what real numbers become as integers of a dtype."""
    dtype = np.dtype(dtype)
    bits = 64 if dtype.name in ("uint32", "int64", "uint64") else 32
    found = []
    for v in values.astype(np.float64).ravel():
        if dtype == np.uint64 and v >= 2.0**63:
            found.append(int(v) if v < 2.0**64 else 0)
        else:
            found.append(int(v) if abs(v) < 2.0 ** (bits - 1) else -(2 ** (bits - 1)))
    low = np.array(found, object) & (2 ** (8 * dtype.itemsize) - 1)
    return low.astype(np.uint64).astype(dtype).reshape(values.shape)


def conversion(draw: Draw) -> Case:
    """Real numbers as integers that cannot hold them: what docs/language.md promises."""
    text, convert = draw.one(_DOORS)
    doubles = ("float64",) if cp.current_device().traits.fp64 else ()
    source, dtype = draw.one(("float32", "float32", "float16", *doubles)), draw.one(INTEGERS)
    count, step = int(draw.random.integers(1, 80)), int(draw.one((1, 1, 2, -1, -3)))
    numbers = draw.random.normal(size=count) * 10.0 ** draw.random.integers(0, 22, count)
    special = draw.random.random(count) < 0.3
    numbers[special] = draw.random.choice(_EXTREMES, int(special.sum()))
    if draw.chance(0.3):
        numbers[:] = numbers[0]
    with np.errstate(over="ignore"):
        host = np.repeat(numbers.astype(source), abs(step))
    view = cp.asarray(host)[::step]
    expected = wrapped(host[::step], dtype)
    run = lambda: (convert(view, dtype).get(),)  # noqa: E731
    return Case(f"{text} of {source} as {dtype}", run, (expected,))


# By name, how many arrays they take; of those that have a gradient, it is drawn as well.
_OPERANDS = {name: len(row.operands.split(",")) for name, row in ROWS.items() if hasattr(ops, name)}
_OPERANDS |= {"nan_to_num": 1, "lerp": 3, "where": 3}
for _name in ("threshold", "prelu", "glu"):  # these take more, or an even size
    del _OPERANDS[_name]
_DTYPES = (np.float32, np.float32, np.float32, np.float16, ml_dtypes.bfloat16, np.float64)
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, 3e38, -3e38, 20, -90, 1e5)
_ELEMENTS = 1024
_LONGEST = 40  # of what is alone: some vectors and what they leave


def place(draw: Draw) -> Case:
    """An operator of the same elements in other places: in vectors, behind the last one, alone."""
    name = draw.one(list(_OPERANDS))
    arrays, operator = _OPERANDS[name], getattr(ops, name)
    if draw.chance(0.5) and hasattr(ops, f"{name}_backward"):
        name, arrays = f"{name}_backward", arrays + 1
        operator = getattr(ops, name)
    dtype = np.dtype(draw.one(_DTYPES))
    if dtype == np.float64 and not cp.current_device().traits.fp64:
        dtype = np.dtype(np.float32)
    hosts = [_numbers(draw, dtype) for _ in range(arrays)]
    order = draw.random.permutation(_ELEMENTS)
    step = int(draw.one((2, 3, -1, -2)))
    lengths = [int(n) for n in draw.random.integers(1, _LONGEST + 1, 4)]
    starts = [int(draw.random.integers(0, _ELEMENTS - n)) for n in lengths]
    at = int(draw.random.integers(_ELEMENTS))
    parts = [np.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)]

    def computed(given: Callable[[Host], Any]) -> list[Host]:
        found = operator(*(given(h) for h in hosts))
        return [_bits(y.get()) for y in (found if isinstance(found, tuple | list) else [found])]

    def turned(h: Host) -> Any:
        return cp.asarray(h.reshape(32, -1)).T

    def run() -> tuple[Host, ...]:
        found = computed(lambda h: cp.asarray(h[order])) + computed(turned)
        found += computed(lambda h: cp.asarray(h)[::step])
        for part in parts:
            found += computed(lambda h, part=part: cp.asarray(h[part]))
        for n in lengths:
            found += computed(lambda h, n=n: cp.full(n, h[at], h.dtype))
        return tuple(found)

    whole = computed(cp.asarray)
    places = [order, np.arange(_ELEMENTS).reshape(32, -1).T.ravel(), np.arange(_ELEMENTS)[::step]]
    places += [*parts, *(np.full(n, at) for n in lengths)]
    expected = tuple(bits[place] for place in places for bits in whole)
    return Case(f"{name} of {dtype}, by {step}, {lengths} from {starts}, {at}", run, expected)


def _numbers(draw: Draw, dtype: np.dtype[Any]) -> Host:
    random, n = draw.random, _ELEMENTS // 4
    found = [random.uniform(-1, 1, 2 * n), 4 * random.standard_normal(n)]
    found.append(np.exp(random.uniform(-12, 12, n)) * random.choice([-1, 1], n))
    numbers = random.permutation(np.concatenate(found))
    where = random.choice(_ELEMENTS, 2 * len(_SPECIAL), replace=False)
    numbers[where] = _SPECIAL * 2
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


def _bits(array: Host) -> Host:
    """Elements by their bits, each NaN the same."""
    flat = np.ascontiguousarray(array).ravel()
    halves = max(1, flat.dtype.itemsize // 4)
    bits = flat.view(np.uint16 if flat.dtype.itemsize == 2 else np.uint32).reshape(-1, halves)
    return np.where(np.isnan(flat)[:, None], 7, bits)


_HALVES = {np.dtype(np.float16): 2.0**-10, np.dtype(ml_dtypes.bfloat16): 2.0**-7}
_WHOLE = [np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32")]

# By name: what runs, and the same of NumPy's in float64, of rows a and b and their greatest number.
# Results fit in 16 bits, squares and sums on the way to them need not.
_Reference = Callable[[Host, Host, float], Any]
_COMPOSITES: dict[str, tuple[Callable[[Any, Any, float], Any], _Reference]] = {
    "std": (lambda a, b, m: ops.std(a, 1), lambda a, b, m: a.std(1, ddof=1)),
    "std_mean": (lambda a, b, m: ops.std_mean(a, 1)[0], lambda a, b, m: a.std(1, ddof=1)),
    "corrcoef": (lambda a, b, m: ops.corrcoef(a), lambda a, b, m: np.corrcoef(a)),
    "average": (
        lambda a, b, m: cp.average(a, axis=1, weights=ops.abs(b)),
        lambda a, b, m: (a * abs(b)).sum(1) / abs(b).sum(1),
    ),
    "cosine_similarity": (
        lambda a, b, m: ops.cosine_similarity(a, b),
        lambda a, b, m: (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1)),
    ),
    "pairwise_distance": (
        lambda a, b, m: ops.pairwise_distance(a, b),
        lambda a, b, m: np.sqrt(((a - b + 1e-6) ** 2).sum(1)),
    ),
    "normalize": (
        lambda a, b, m: ops.normalize(a),
        lambda a, b, m: a / np.sqrt((a * a).sum(1, keepdims=True)),
    ),
    "einsum": (
        lambda a, b, m: ops.einsum("ij,ij,i->j", a, b, (a[:, 0] * 0 + 1) / 64),
        lambda a, b, m: (a * b).sum(0) / 64,
    ),
    "diff": (lambda a, b, m: ops.diff(a, 3, 1), lambda a, b, m: np.diff(a, 3, 1)),
    "lp_pool2d": (
        lambda a, b, m: ops.lp_pool2d(ops.abs(a)[None], 3, (1, 2)),
        lambda a, b, m: (abs(a[:, :-1:2]) ** 3 + abs(a[:, 1::2]) ** 3)[None] ** (1 / 3),
    ),
}


def composite(draw: Draw) -> Case:
    """An operator made of several calls, of float16 or bfloat16: one rounding at its end."""
    dtype = draw.one(list(_HALVES))
    name = draw.one(list(_COMPOSITES))
    shape = int(draw.one((2, 3, 5))), int(draw.one((4, 7, 16, 33)))
    # A distance of 33 elements is 12 times as large as one of them, the third difference 8 times.
    most = float(draw.one((1, 30, 300))) if name == "einsum" else float(draw.one((1, 300, 5000)))
    a, b = (
        (draw.random.uniform(-most, most, shape) + most / 9).astype(np.float32).astype(dtype)
        for _ in range(2)
    )
    run, reference = _COMPOSITES[name]
    x, y = cp.asarray(a), cp.asarray(b)
    expected = np.asarray(reference(a.astype(np.float64), b.astype(np.float64), most))
    largest = float(abs(expected).max())

    def found() -> tuple[Host, ...]:
        return (run(x, y, most).get().astype(np.float64) / largest,)

    text = f"{name} of {dtype} {shape} up to {most}"
    return Case(text, found, (expected / largest,), 2 * _HALVES[dtype])


def narrow(draw: Draw) -> Case:
    """A sum or mean of integers, which wraps only where a short dtype is asked for."""
    dtype, wanted = draw.one(_WHOLE), draw.one(_WHOLE)
    ends = np.iinfo(dtype)
    size = int(draw.one((3, 40, 300)))
    a = draw.random.integers(ends.min, ends.max, (4, size), dtype, endpoint=True)
    index = draw.random.integers(0, 3, size)
    x, places = cp.asarray(a), cp.asarray(index)
    zeros = cp.zeros((4, 3), dtype)
    spread = cp.asarray(np.ascontiguousarray(np.broadcast_to(index, a.shape)))
    wide = a.astype(np.int64)
    name = draw.one(("sum", "prod", "cumsum", "mean", "scatter_reduce", "index_add", "einsum"))
    expected: Host
    run: Callable[[], Any]
    if name in ("sum", "prod", "cumsum"):
        expected = getattr(np, name)(a.astype(wanted), 1, dtype=wanted)
        run = lambda: getattr(ops, name)(x, axis=1, dtype=wanted)  # noqa: E731
    elif name == "mean":
        expected, run = wide.mean(1), lambda: ops.mean(x, 1, dtype=np.float32)
    elif name == "scatter_reduce":
        parts = [wide[:, index == n] for n in range(3)]
        means = [p.sum(1) // p.shape[1] if p.size else np.zeros(4, np.int64) for p in parts]
        expected = np.stack(means, 1)
        run = lambda: ops.scatter_reduce(  # noqa: E731
            zeros, 1, spread, x, "mean", include_self=False
        )
    elif name == "index_add":
        expected = np.stack([wide[:, index == n].sum(1) for n in range(3)], 1).astype(dtype)
        run = lambda: ops.index_add(zeros, 1, places, x)  # noqa: E731
    else:
        expected = wide.sum(1).astype(np.int32 if dtype.itemsize < 4 else dtype)
        run = lambda: ops.einsum("ij->i", x)  # noqa: E731
    text = f"{name} of {dtype} {a.shape}, dtype={wanted}"
    # A float32 mean of 300 numbers is off by a few units in its last place.
    return Case(text, lambda: (run().get(),), (expected,), 1e-6 if name == "mean" else 0.0)


_Value = Callable[..., Host]
# By name: the same as OpenCL C, if there is such, its value, and its slope in each operand. The
# last ones end expressions: what they compute is rounded, and a rounding is no corner.
_EXACT: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "add": ("{} + {}", np.add, (lambda a, b: a * 0 + 1, lambda a, b: b * 0 + 1)),
    "sub": ("{} - {}", np.subtract, (lambda a, b: a * 0 + 1, lambda a, b: b * 0 - 1)),
    "mul": ("{} * {}", np.multiply, (lambda a, b: b, lambda a, b: a)),
    "maximum": (
        "max({}, {})",
        np.maximum,
        (lambda a, b: np.heaviside(a - b, 0.5), lambda a, b: np.heaviside(b - a, 0.5)),
    ),
    "minimum": (
        "min({}, {})",
        np.minimum,
        (lambda a, b: np.heaviside(b - a, 0.5), lambda a, b: np.heaviside(a - b, 0.5)),
    ),
    "abs": ("fabs({})", np.abs, (np.sign,)),
    "square": ("{0} * {0}", np.square, (lambda a: 2 * a,)),
    "relu": ("{0} > 0 ? {0} : 0", lambda a: np.maximum(a, 0), (lambda a: (a > 0) * 1.0,)),
    "hardtanh": (
        "{0} <= -1 ? -1 : {0} >= 1 ? 1 : {0}",
        lambda a: np.clip(a, -1, 1),
        (lambda a: (abs(a) < 1) * 1.0,),
    ),
}
_MULTIPLES: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "fmod": ("fmod({}, {})", np.fmod, (lambda a, b: a * 0 + 1, lambda a, b: -np.trunc(a / b))),
    "remainder": ("", np.remainder, (lambda a, b: a * 0 + 1, lambda a, b: -np.floor(a / b))),
}
_LAST: dict[str, tuple[str, _Value, tuple[_Value, ...]]] = {
    "logaddexp": (
        "",
        np.logaddexp,
        (lambda a, b: 1 / (1 + np.exp(b - a)), lambda a, b: 1 / (1 + np.exp(a - b))),
    ),
    "logaddexp2": (
        "",
        np.logaddexp2,
        (lambda a, b: 1 / (1 + np.exp2(b - a)), lambda a, b: 1 / (1 + np.exp2(a - b))),
    ),
    "xlogy": ("", lambda a, b: a * np.log(b), (lambda a, b: np.log(b), lambda a, b: a / b)),
}
_ALL = _EXACT | _MULTIPLES | _LAST
_POINTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)


def slope(draw: Draw) -> Case:
    """Gradients of an expression under `value_and_grad`, and derived from it as a string."""
    size = 16
    hosts = [draw.random.choice(_POINTS, size), draw.random.choice(_POINTS, size)]
    hosts.append(abs(draw.random.choice(_POINTS, size)) + 0.5)  # to divide by
    weight = draw.random.choice(_POINTS, size)
    steps: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(int(draw.one((1, 2, 3, 4)))):
        name = draw.one([*_EXACT, *_MULTIPLES])
        count, known = len(_ALL[name][2]), 3 + len(steps)
        given = tuple(int(draw.random.integers(known)) for _ in range(count))
        steps.append((name, (given[0], 2) if name in _MULTIPLES else given))
    if draw.chance(0.4):
        name = draw.one(list(_LAST))
        steps.append((name, (2 + len(steps), 2)))

    def computed(arrays: list[cp.Array]) -> cp.Array:
        found = [*arrays]
        for name, given in steps:
            found.append(getattr(ops, name)(*(found[n] for n in given)))
        return (found[-1] * cp.asarray(weight)).sum()

    values = [h.astype(np.float64) for h in hosts]
    slopes = [np.eye(3)[n][:, None] * np.ones(size) for n in range(3)]
    lines = []
    for name, given in steps:
        text, value, partials = _ALL[name]
        of = [values[n] for n in given]
        values.append(value(*of))
        slopes.append(sum(p(*of) * slopes[n] for p, n in zip(partials, given, strict=True)))
        labels = [f"x{n}" if n < 3 else f"t{n}" for n in given]
        lines.append(f"typeof_y0 t{len(values) - 1} = {text.format(*labels)};" if text else "")
    expected = tuple(slopes[-1] * weight)
    string = f"(void)x0; (void)x1; (void)x2; {' '.join(lines)} y0 = t{len(values) - 1};"
    operator = cp.Pointwise(string) if all(lines) else None

    def run() -> tuple[Host, ...]:
        arrays = [*map(cp.asarray, hosts)]
        _, found = cp.value_and_grad(computed, 0)(arrays)
        derived = () if operator is None else operator.gradient()(*arrays, grad=cp.asarray(weight))
        return tuple(g.get() for g in (*found, *derived))

    text = f"{steps} of {hosts}, string {string if operator else 'none'}"
    return Case(text, run, expected * (1 if operator is None else 2), 1e-12)
