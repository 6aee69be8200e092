"""Lines of elementwise operators and of what writes in place."""

from __future__ import annotations

from bench.torture.graphs.draw import Drawing, Value

# Text, and how the bound follows from the operand's; by the modes that have it.
_ONE = {
    "ops.relu({})": ("bits whole smooth", 1, 0),
    "ops.abs({})": ("bits whole smooth", 1, 0),
    "-{}": ("bits whole smooth", 1, 0),
    "ops.clamp({}, -2, 3)": ("bits whole smooth", 0, 3),
    "{} * 2": ("bits whole smooth", 2, 0),
    "{} + 1": ("bits whole smooth", 1, 1),
    "3 - {}": ("bits whole smooth", 1, 3),
    "{} * 0.5": ("bits smooth", 0.5, 0),
    "{} * 1.7 - 0.3": ("bits smooth", 1.7, 0.3),
    "ops.tanh({})": ("bits smooth", 0, 1),
    "ops.sigmoid({})": ("bits smooth", 0, 1),
    "ops.silu({})": ("bits smooth", 1, 0),
    "ops.gelu({})": ("bits smooth", 1, 0),
    "ops.hardswish({})": ("bits smooth", 1, 0),
    "ops.exp({})": ("bits", 0, 1e30),
    "ops.sqrt({})": ("bits", 1, 1),
    "ops.log1p({})": ("bits", 1, 1),
    "1 / {}": ("bits", 0, 1e30),
    "ops.floor({})": ("bits whole", 1, 0),
    "ops.sign({})": ("bits whole", 0, 1),
    "ops.square({})": ("bits", 0, 1e30),
    "cp.Pointwise('y0 = x0 > 0 ? x0 : w0 * x0;')({}, 2.0)": ("bits whole smooth", 2, 0),
    "cp.Pointwise('typeof_y0 t = x0 + 1; if (t < w0) t = w0; y0 = t;')({}, -1)": (
        "bits whole smooth",
        1,
        1,
    ),
    "cp.Pointwise('y0 = x0 + (index % 3);')({})": ("bits whole smooth", 1, 2),
    "cp.Pointwise('y0 = x0 * coord(0);')({})": ("bits whole", 8, 0),
}
_FLOATS = ("0.5", "1.7", "tanh", "sigmoid", "silu", "gelu", "hardswish", "exp", "sqrt", "log1p")
_FLOATS += ("1 /", "floor", "relu")
_TWO = {
    "{} + {}": ("bits whole smooth", "sum"),
    "{} - {}": ("bits whole smooth", "sum"),
    "{} * {}": ("bits whole smooth", "product"),
    "ops.maximum({}, {})": ("bits whole smooth", "most"),
    "ops.minimum({}, {})": ("bits whole smooth", "most"),
    "{} / {}": ("bits", "most"),
    "ops.add({}, {}, alpha=2)": ("bits whole smooth", "twice"),
    "ops.where({0} > {1}, {0}, {1} + 1)": ("bits whole", "sum"),
    "ops.where({0} > 0, {1}, {0})": ("bits whole", "most"),
    "cp.Pointwise('y0 = x0 > x1 ? 1 : x0;')({}, {})": ("bits whole", "most"),
    "cp.Pointwise('y0 = x0 * w0 + x1;')({}, {}, 2)": ("bits whole smooth", "twice"),
}
_PLAIN_ONE = ("ops.relu({})", "{} * 2")
_PLAIN_TWO = ("{} + {}", "ops.maximum({}, {})")
_DTYPES = ("float32", "float32", "float16", "int32", "float64")


def _bound(kind: str, a: float, b: float) -> float:
    return {"sum": a + b + 1, "product": a * b, "most": max(a, b, 1), "twice": 2 * (a + b)}[kind]


def broadcasts(a: Value, b: Value) -> bool:
    pairs = zip(a.shape[::-1], b.shape[::-1], strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def one(d: Drawing) -> bool:
    v = d.pick()
    known = [t for t, (modes, _, _) in _ONE.items() if d.mode in modes]
    text = d.few(_PLAIN_ONE, 1) if d.plain else d.few(known)
    if v is None or v.dtype == "bool" or (not v.is_float and any(f in text for f in _FLOATS)):
        return False
    _, times, more = _ONE[text]
    return d.line(text.format(v.name), times * d.bound(v) + more)


def two(d: Drawing) -> bool:
    """An operator of two arrays, which may broadcast."""
    a = d.pick(lambda v: v.dtype != "bool")
    if a is None:
        return False
    if d.draw.chance(0.15):
        b: Value | None = d.new(d.draw.broadcast(a.shape), a.dtype)
    else:
        b = d.pick(lambda v: v.dtype == a.dtype and broadcasts(a, v))
    known = [t for t, (modes, _) in _TWO.items() if d.mode in modes]
    text = d.few(_PLAIN_TWO, 1) if d.plain else d.few(known)
    if b is None or (" / " in text and not a.is_float):
        return False
    if d.draw.chance(0.5):
        a, b = b, a
    return d.line(text.format(a.name, b.name), _bound(_TWO[text][1], d.bound(a), d.bound(b)))


def several(d: Drawing) -> bool:
    a = d.pick(lambda v: v.is_float)
    b = d.pick(lambda v: a is not None and v.dtype == a.dtype and broadcasts(a, v))
    if a is None or b is None:
        return False
    text = "y0 = x0 + x1; y1 = y0 * 2 - x1;"
    bound = 2 * d.bound(a) + 3 * d.bound(b)
    return d.line(f"cp.Pointwise({text!r})({a.name}, {b.name})", bound, made=2)


def cast(d: Drawing) -> bool:
    """Another dtype; to integers only what is finite."""
    v, dtype = d.pick(), d.few(_DTYPES)
    if v is None or (dtype in ("float16", "int32") and d.mode == "bits" and v.is_float):
        return False
    if dtype == "int32" and d.mode == "smooth":
        return False
    return d.line(f"{v.name}.astype({dtype!r})", max(d.bound(v), 1))


def written(d: Drawing) -> bool:
    """Something that changes an array, or a part of it, in place."""
    into = d.pick(lambda v: v.dtype != "bool")
    if into is None:
        return False
    before = d.bound(into)
    part = d.few(("", "", "[...]", "[1:]", "[0]", "[::2]", "[..., 1:]", "[..., :2]"))
    if d.draw.chance(0.4):
        text, bound = d.few(((" += 1", before + 1), (" *= 2", 2 * before), (" -= 3", before + 3)))
        return d.write(f"{into.name}{part or '[...]'}{text}", into, bound)
    if d.draw.chance(0.2):
        return d.write(f"{into.name}{part or '[...]'} = {d.one((0, 2))}", into, max(2, before))
    other = d.pick(lambda v: v.dtype == into.dtype and broadcasts(into, v))
    if other is None:
        return False
    sign = d.few((" =", " =", " +=", " -="))
    if other.shape == into.shape:
        text = f"{into.name}{part or '[...]'}{sign} {other.name}{part}"
    else:
        text = f"{into.name}[...]{sign} {other.name}"
    return d.write(text, into, d.bound(other) + (before if sign != " =" else 0))


def out(d: Drawing) -> bool:
    a = d.pick(lambda v: v.is_float)
    if a is None:
        return False
    b = d.pick(lambda v: v.dtype == a.dtype and v.shape == a.shape)
    into = d.pick(lambda v: v.dtype == a.dtype and v.shape == a.shape)
    if b is None or into is None:
        return False
    before = d.bound(into)
    text, bound = d.few(
        (
            (f"ops.add({a.name}, {b.name}, out={into.name})", d.bound(a) + d.bound(b)),
            (f"ops.relu({a.name}, out={into.name})", d.bound(a)),
            (f"ops.maximum({a.name}, {b.name}, out={into.name})", max(d.bound(a), d.bound(b))),
            (f"cp.Pointwise('y0 = 2 * x0;')({a.name}, out={into.name})", 2 * d.bound(a)),
        )
    )
    return d.write(text, into, max(bound, before))


def created(d: Drawing) -> bool:
    like = d.pick()
    if like is None or like.dtype == "bool":
        return False
    shape, dtype = like.shape, like.dtype
    text, bound = d.few(
        (
            (f"cp.zeros({shape}, {dtype!r})", 0),
            (f"cp.full({shape}, 2, {dtype!r})", 2),
            (f"{like.name}.copy()", d.bound(like)),
            (f"cp.asarray(np.arange({like.array.size}).reshape({shape}).astype({dtype!r}) % 5)", 4),
        )
    )
    return d.line(text, bound)
