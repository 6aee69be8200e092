"""Lines of what networks repeat, over weights that stay: for passes that join several layers."""

from __future__ import annotations

from bench.torture.graphs.draw import Drawing, Value


def _image(d: Drawing) -> Value | None:
    if d.mode == "bits":
        return None  # sums in another order, of which nothing can be said
    x = d.pick(lambda v: len(v.shape) == 4 and v.dtype == "float32" and min(v.shape[1:]) > 1)
    return x if x is not None and d.bound(x) <= 64 else None


def _last(d: Drawing) -> Value:
    return d.values[-1]


def _weights(d: Drawing, *shapes: tuple[int, ...]) -> list[Value]:
    return [d.new(shape, "float32", 1, stays=True) for shape in shapes]


def _rows(terms: int, bound: float, d: Drawing) -> float:
    """How large sums of products get; see `layers`."""
    return terms * bound + 1 if d.mode == "whole" else (terms * bound) ** 0.5 + 1


def _in_last(d: Drawing, x: Value) -> Value:
    """The same image, channels-last."""
    text = f"ops.contiguous({x.name}, memory_format='channels_last')"
    return _last(d) if d.line(text, d.bound(x), shares=x.root) else x


def mobile(d: Drawing) -> bool:
    """An inverted residual: 1 x 1, depthwise, mostly 1 x 1 again."""
    x = _image(d)
    if x is None:
        return False
    x = _in_last(d, x)
    channels, middle = x.shape[1], 2 * x.shape[1]
    w, b, k, c, v = _weights(
        d,
        (middle, channels, 1, 1), (middle,), (middle, 1, 3, 3), (middle,), (channels, middle, 1, 1),
    )  # fmt: skip
    activation = d.few(("ops.relu6({})", "ops.relu({})", "ops.clamp({}, -1, 2)"), 2)
    bound = _rows(channels, d.bound(x), d)
    done = d.line(activation.format(f"ops.conv2d({x.name}, {w.name}, {b.name})"), bound)
    text = f"ops.conv2d({_last(d).name}, {k.name}, {c.name}, padding=1, groups={middle})"
    done = done and d.line(activation.format(text), bound := _rows(9, bound, d))
    if not done or d.draw.chance(0.3):
        return done
    text = f"ops.conv2d({_last(d).name}, {v.name})"
    text += f" + {x.name}" if d.draw.chance(0.5) else ""
    return d.line(text, _rows(middle, bound, d) + d.bound(x))


def normed(d: Drawing) -> bool:
    """A convolution with a map of channels and an activation behind it, or before a 1 x 1 one."""
    x = _image(d)
    if x is None:
        return False
    channels = x.shape[1]
    if d.draw.chance(0.5):
        w, s, t = _weights(d, (channels, channels, 3, 3), (channels, 1, 1), (channels, 1, 1))
        bound = _rows(9 * channels, d.bound(x), d)
        done = d.line(f"ops.conv2d({x.name}, {w.name}, padding=1)", bound)
        return done and d.line(f"ops.relu({_last(d).name} * {s.name} + {t.name})", bound + 1)
    w, s, t = _weights(d, (channels, channels, 1, 1), (channels, 1, 1), (channels, 1, 1))
    done = d.line(f"ops.relu({x.name} * {s.name} + {t.name})", d.bound(x) + 1)
    bound = _rows(channels, d.bound(x) + 1, d)
    return done and d.line(f"ops.conv2d({_last(d).name}, {w.name})", bound)


def gate(d: Drawing) -> bool:
    """A gate of channels: squeeze and excitation."""
    x = _image(d)
    if x is None or d.mode == "whole":
        return False
    channels = x.shape[1]
    w, b, v, c = _weights(d, (4, channels, 1, 1), (4,), (channels, 4, 1, 1), (channels,))
    x = _in_last(d, x)
    done = d.line(f"ops.mean({x.name}, (2, 3), keepdims=True)", d.bound(x))
    text = f"ops.relu(ops.conv2d({_last(d).name}, {w.name}, {b.name}))"
    done = done and d.line(text, _rows(channels, d.bound(x), d))
    text = f"ops.sigmoid(ops.conv2d({_last(d).name}, {v.name}, {c.name}))"
    return done and d.line(text, 1) and d.line(f"{x.name} * {_last(d).name}", d.bound(x))


def deep(d: Drawing) -> bool:
    """Convolutions in a row, whose images nobody else sees."""
    x = _image(d)
    if x is None:
        return False
    channels, bound = x.shape[1], d.bound(x)
    for _ in range(3):
        (w,) = _weights(d, (channels, channels, 1, 1))
        bound = _rows(channels, bound, d)
        if not d.line(f"ops.conv2d({x.name}, {w.name})", bound):
            return False
        x = _last(d)
    name = "ops.mean" if d.mode == "smooth" else "ops.amax"
    return d.line(f"{name}({x.name}, (2, 3))", bound)


def gradients(d: Drawing) -> bool:
    """A loss and its gradient, in little memory."""
    x = d.pick(lambda v: v.dtype == "float32" and len(v.shape) == 2)
    if x is None or d.mode == "whole":
        return False
    inner = "t"
    for _ in range(int(d.one((2, 3, 4)))):
        inner = f"ops.softmax({inner} * 3, -1)"
    loss = f"ops.sum(ops.square({inner}))"
    text = f"cp.value_and_grad(lambda t: {loss}, 't', memory=1)({x.name})"
    return d.line(text, x.shape[0], made=2)


PARTS = (mobile, mobile, normed, normed, gate, deep, gradients)
