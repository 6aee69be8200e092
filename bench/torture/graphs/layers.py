"""Lines of layers, reductions and what moves elements."""

from __future__ import annotations

import numpy as np

from bench.torture.graphs.draw import Drawing, Value


def _image(d: Drawing) -> Value | None:
    return d.pick(lambda v: len(v.shape) == 4 and v.is_float and v.dtype != "float64")


def _carried(d: Drawing, x: Value, terms: int, w: Value) -> float:
    """How large sums of products get; smooth numbers are rarely of one sign."""
    most = terms * d.bound(x) * d.bound(w)
    return most if d.mode == "whole" else most**0.5


def convolution(d: Drawing) -> bool:
    """A convolution of any kind, with or without a bias."""
    x = _image(d)
    if x is None:
        return False
    channels = x.shape[1]
    kind = d.few(("", "", "1", "depthwise", "groups", "transposed"))
    size = d.few(((3, 3), (3, 3), (1, 3), (2, 2))) if kind != "1" else (1, 1)
    filters = int(d.few((4, 8, channels), 1))
    groups = {"depthwise": channels, "groups": 2}.get(kind, 1)
    if kind == "depthwise":
        filters = channels * int(d.one((1, 1, 2)))
    if channels % groups or filters % groups:
        return False
    told = d.few(("", ", padding=1", ", padding=1, stride=2", ", stride=2"))
    shape = (channels, filters, *size) if kind == "transposed" else (filters, channels // groups)
    w = d.new(shape if kind == "transposed" else (*shape, *size), x.dtype, 2)
    bias = f", {d.new((filters,), x.dtype).name}" if d.draw.chance(0.5) else ""
    name = "conv_transpose2d" if kind == "transposed" else "conv2d"
    groups_text = f", groups={groups}" if groups > 1 else ""
    if d.draw.chance(0.1):
        told += ", epilogue='y0 = max(y0, 0.0f);'"
    terms = channels // groups * size[0] * size[1] + 1
    text = f"ops.{name}({x.name}, {w.name}{bias}{told}{groups_text})"
    return d.line(text, _carried(d, x, terms, w) + 3)


def product(d: Drawing) -> bool:
    x = d.pick(lambda v: len(v.shape) in (2, 3) and v.dtype in ("float32", "float16", "float64"))
    if x is None:
        return False
    depth, columns = x.shape[-1], int(d.few((3, 8, 16), 1))
    terms = depth + 1
    if d.draw.chance(0.5):
        w = d.new((columns, depth), x.dtype, 2)
        bias = f", {d.new((columns,), x.dtype).name}" if d.draw.chance(0.5) else ""
        return d.line(f"ops.linear({x.name}, {w.name}{bias})", _carried(d, x, terms, w) + 3)
    other = d.pick(lambda v: v.dtype == x.dtype and len(v.shape) == 2 and v.shape[0] == depth)
    w = other or d.new((depth, columns), x.dtype, 2)
    return d.line(f"{x.name} @ {w.name}", _carried(d, x, terms, w))


def accumulated(d: Drawing) -> bool:
    """A product or a step of an optimizer that goes to memory that is there."""
    into = d.pick(lambda v: len(v.shape) == 2 and v.dtype in ("float32", "float64"))
    if into is None:
        return False
    if d.draw.chance(0.3):
        other = d.pick(lambda v: v.dtype == into.dtype and v.shape == into.shape and v != into)
        if other is None or other.root == into.root:
            return False
        text = f"ops.optim.sgd([{into.name}], [{other.name}], lr=0.5)"
        # Halves are exact as long as they are few: smooth numbers take them.
        return d.mode != "whole" and d.write(text, into, d.bound(into) + d.bound(other))
    rows, columns = into.shape
    a = d.pick(lambda v: v.dtype == into.dtype and len(v.shape) == 2 and v.shape[0] == rows)
    if a is None or a.root == into.root:
        return False
    w = d.new((a.shape[1], columns), into.dtype, 2)
    beta = d.one(("", ", beta=1"))
    epilogue = d.one(("", "", ", epilogue='y0 = max(y0, 0.0f);'"))
    bound = _carried(d, a, a.shape[1], w) + d.bound(into)
    return d.write(f"ops.matmul({a.name}, {w.name}, out={into.name}{beta}{epilogue})", into, bound)


def ordered(d: Drawing) -> bool:
    x = d.pick(lambda v: v.dtype in ("float32", "int32") and len(v.shape) > 0)
    if x is None or d.mode == "smooth":
        return False
    text = d.one((f"ops.sort({x.name})[0]", f"ops.topk({x.name}, 2)[0]"))
    return d.line(text, d.bound(x))


def channels(d: Drawing) -> bool:
    """A map of channels, as a batch norm is."""
    x = _image(d)
    if x is None:
        return False
    count = x.shape[1]
    scale, shift = (d.new((count, 1, 1), x.dtype, 2) for _ in range(2))
    if d.mode == "whole" or d.draw.chance(0.4):
        text = f"{x.name} * {scale.name} + {shift.name}"
    else:
        mean, var = d.new((count,), x.dtype), d.new((count,), x.dtype)
        text = f"ops.batch_norm({x.name}, {mean.name}, ops.abs({var.name}) + 1)"
    return d.line(text, d.bound(x) * d.bound(scale) + d.bound(shift))


def norm(d: Drawing) -> bool:
    x = d.pick(lambda v: v.dtype == "float32" and len(v.shape) > 1)
    if x is None or d.mode == "whole":
        return False
    count = x.shape[-1]
    texts = [
        (f"ops.softmax({x.name}, {d.one((-1, 1, 0))})", 1),
        (f"ops.log_softmax({x.name}, -1)", 2 * d.bound(x) + 4),
        (f"ops.layer_norm({x.name}, {count})", count),
        (f"ops.rms_norm({x.name}, {count})", count),
    ]
    if len(x.shape) == 4 and x.shape[1] % 2 == 0:
        texts.append((f"ops.group_norm({x.name}, 2)", count))
    if d.draw.chance(0.4):
        w, b = d.new((count,), x.dtype), d.new((count,), x.dtype)
        texts = [(f"ops.layer_norm({x.name}, {count}, {w.name}, {b.name})", count + 1)]
    return d.line(*d.few(texts, 2))


def reduction(d: Drawing) -> bool:
    """Sums, extrema and so on along some axes."""
    x = d.pick(lambda v: v.dtype != "bool")
    if x is None:
        return False
    ndim, bound = len(x.shape), d.bound(x)
    axis = d.few((0, ndim - 1, tuple(range(1, ndim)) or 0, None, (0, ndim - 1) if ndim > 1 else 0))
    keep = ", keepdims=True" if d.draw.chance(0.6) else ""
    whole = x.array.size * bound
    found = [("sum", whole), ("amax", bound), ("amin", bound)]
    if d.mode != "whole" and x.is_float:
        found.append(("mean", bound))
    if d.mode == "bits" and x.is_float:
        found.append(("var", bound**2 + 1))
    name, most = d.few(found)
    if d.draw.chance(0.1):
        return d.line(f"ops.cumsum({x.name}, {ndim - 1})", whole)
    if d.draw.chance(0.1):
        text = "cp.Reduction('y0 = 2 * x0;', init='reduce_y0 = 0;', step='reduce_y0 += y0;')"
        return d.line(f"{text}({x.name}, axis={axis}{keep})", 2 * whole)
    return d.line(f"ops.{name}({x.name}, {axis}{keep})", most)


def pool(d: Drawing) -> bool:
    """A pooling, or nearest neighbours."""
    x = _image(d)
    if x is None:
        return False
    found = [
        f"ops.max_pool2d({x.name}, 2)",
        f"ops.max_pool2d({x.name}, 3, 1, 1)",
        f"ops.interpolate({x.name}, scale_factor=2)",
    ]
    if d.mode != "whole":
        found += [f"ops.avg_pool2d({x.name}, 2)", f"ops.adaptive_avg_pool2d({x.name}, 1)"]
    if x.shape[1] % 4 == 0:
        found.append(f"ops.pixel_shuffle({x.name}, 2)")
    return d.line(d.few(found), d.bound(x))


def joined(d: Drawing) -> bool:
    """Several arrays as one, one as several, or an edge around one."""
    x = d.pick()
    if x is None:
        return False
    axis = int(d.draw.random.integers(len(x.shape))) if x.shape else 0
    if not x.shape:
        return False

    def fits(v: Value) -> bool:
        return v.dtype == x.dtype and len(v.shape) == len(x.shape) and all(
            m == n or k == axis for k, (m, n) in enumerate(zip(v.shape, x.shape, strict=True))
        )  # fmt: skip

    others = [v for v in (d.pick(fits) for _ in range(int(d.one((1, 2, 3))))) if v]
    kind = d.one(("cat", "cat", "cat", "stack", "split", "chunk", "pad", "chain"))
    bound = max(d.bound(v) for v in (x, *others))
    names = ", ".join(v.name for v in (x, *others))
    if kind == "cat":
        return d.line(f"ops.cat([{names}], {axis})", bound)
    if kind == "chain":
        return d.line(f"ops.cat([ops.relu({x.name}), {names}, {x.name} * 2], {axis})", 2 * bound)
    if kind == "stack":
        same = [v.name for v in (x, *others) if v.shape == x.shape]
        return d.line(f"ops.stack([{', '.join(same)}], {axis})", bound)
    if kind == "pad":
        return d.line(f"ops.pad({x.name}, {d.one(([1, 1], [0, 2], [2, 0]))})", bound)
    count = x.shape[axis]
    if count < 2:
        return False
    if kind == "chunk":
        made = len(range(0, count, -(-count // 2)))
        return d.line(f"ops.chunk({x.name}, 2, {axis})", d.bound(x), shares=x.root, made=made)
    sizes = [1, count - 1] if count < 4 else [1, 2, count - 3]
    text = f"ops.split({x.name}, {sizes}, {axis})"
    return d.line(text, d.bound(x), shares=x.root, made=len(sizes))


def moved(d: Drawing) -> bool:
    """A view, or the same elements elsewhere."""
    x = d.pick()
    if x is None or not x.shape:
        return False
    order = tuple(int(n) for n in d.draw.random.permutation(len(x.shape)))
    flat = int(np.prod(x.shape[1:], dtype=int))
    views = [
        f"{x.name}.transpose{order}" if len(order) > 1 else f"{x.name}[::-1]",
        f"{x.name}.T",
        f"{x.name}[1:]",
        f"{x.name}[..., ::2]",
        f"{x.name}[::-1]",
        f"{x.name}[0]",
        f"{x.name}[..., None]",
        f"{x.name}.reshape({x.shape[0]}, {flat})",
        f"{x.name}.reshape(-1)",
    ]
    if d.draw.chance(0.6):
        return d.line(d.few(views, 4), d.bound(x), shares=x.root)
    copies = [
        f"ops.flip({x.name}, 0)",
        f"ops.roll({x.name}, 1, {len(x.shape) - 1})",
        f"{x.name}.copy()",
        f"ops.contiguous({x.name}.T)",
        f"cp.broadcast_to({x.name}, {(2, *x.shape)})",
    ]
    if len(x.shape) == 4:
        copies += [f"ops.contiguous({x.name}, memory_format='channels_last')"] * 3
        copies += [f"ops.contiguous({x.name})"]
    if d.draw.chance(0.3):
        index = d.new(d.one(((3,), (5,))), "int32", x.shape[0], "index")
        copies = [f"ops.index_select({x.name}, 0, {index.name})"]
    text = d.few(copies)
    shares = x.root if text.startswith(("cp.broadcast_to", "ops.contiguous")) else ""
    return d.line(text, d.bound(x), shares=shares)
