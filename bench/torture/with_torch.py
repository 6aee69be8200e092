"""Cases of PyTorch's: transforms of functions, compiled functions of changing numbers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import clprim as cp
import clprim.torch
from bench.torture.case import Case
from bench.torture.draw import Draw, Host

_F, _func = torch.nn.functional, torch.func
# PyTorch differentiates all of these twice, forward too.
_ELEMENTS = """relu elu silu tanh sigmoid gelu mish softplus hardswish hardshrink hardtanh celu
selu leaky_relu logsigmoid softshrink softsign tanhshrink relu6""".split()
# Of a matrix x and weights w of as many columns; all keep the shape.
_LAYERS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "linear": lambda x, w: x @ w.T @ w * 0.3,
    "prelu": lambda x, w: _F.prelu(x, w[0]),
    "softmax": lambda x, w: x.softmax(-1) * w[0],
    "log_softmax": lambda x, w: x.log_softmax(-2),
    "layer_norm": lambda x, w: _F.layer_norm(x, x.shape[-1:], w[0], w[1]),
    "normalize": lambda x, w: _F.normalize(x + w[0], dim=-1),
    "cumsum": lambda x, w: x.cumsum(-1) * w[1],
    "cumprod": lambda x, w: (x * 0.5).cumprod(-1),
    "logcumsumexp": lambda x, w: x.logcumsumexp(-1),
    "logsumexp": lambda x, w: x - x.logsumexp(-1, keepdim=True),
    "var": lambda x, w: x / (1 + x.var(-1, keepdim=True)),
    "sort": lambda x, w: x.sort(-1).values * w[0],
    "pad": lambda x, w: _F.pad(x, (1, 1), mode="replicate")[..., 2:] * w[1],
    "pool": lambda x, w: _F.avg_pool1d(_F.pad(x, (0, 2)), 3, 1),
    "conv": lambda x, w: _F.conv1d(x[:, None], w[:1, None, :2] * 0.5, padding=1)[:, 0, 1:],
    "where": lambda x, w: torch.where(x > w[0], x * w[1], x.sin()),
    "glu": lambda x, w: _F.glu(torch.cat([x, x * w[0]], -1), -1),
    "attention": lambda x, w: _F.scaled_dot_product_attention(x, x * w[0], x),
}  # fmt: skip
_ENDS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mse_loss": lambda x, w: _F.mse_loss(x, w[:1].expand_as(x), reduction="sum"),
    "smooth_l1_loss": lambda x, w: _F.smooth_l1_loss(x, w[:1].expand_as(x), beta=0.5),
    "bce": lambda x, w: _F.binary_cross_entropy(x.sigmoid(), w[:1].sigmoid().expand_as(x)),
    "logits": lambda x, w: _F.binary_cross_entropy_with_logits(x, w[:1].sigmoid().expand_as(x)),
    "norm": lambda x, w: (x + w[0]).norm(),
    "logsumexp": lambda x, w: x.flatten().logsumexp(0),
    "square": lambda x, w: x.square().mean(),
}
# A level of tangents belongs to the whole process.
_one = threading.Lock()


def transform(draw: Draw) -> Case:
    """A transform of a composed function of a matrix and of weights."""
    names = [draw.one((*_ELEMENTS, *_LAYERS)) for _ in range(int(draw.random.integers(1, 5)))]
    end, kind = draw.one(list(_ENDS)), draw.one(list(_TRANSFORMS))
    rows, columns = (int(draw.one((2, 3, 4))) for _ in range(2))
    shapes = (rows, columns), (3, columns)
    x, w = (torch.from_numpy(draw.random.standard_normal(s).astype(np.float32)) for s in shapes)

    def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for name in names:
            x = _LAYERS[name](x, w) if name in _LAYERS else getattr(_F, name)(x)
        return x

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return _ENDS[end](layers(x, w), w)

    apply = _TRANSFORMS[kind]

    def results(x: torch.Tensor, w: torch.Tensor) -> tuple[Host, ...]:
        with _one, warnings.catch_warnings(), _as_parts():
            warnings.simplefilter("ignore")
            found = torch.utils._pytree.tree_leaves(apply(layers, loss, x, w))
            return tuple(t.detach().cpu().double().numpy() for t in found)

    expected = results(x.double(), w.double())
    text = f"{kind} of {', '.join(names)}, {end} of {tuple(x.shape)}"
    return Case(text, lambda: results(x.to("opencl"), w.to("opencl")), expected, 1e-3)


def _as_parts() -> Any:
    """Attention of operators that have tangents."""
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


def _batched(layers: Any, loss: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    y = layers(x, w)
    seeds = torch.eye(y.numel(), dtype=y.dtype).to(y.device).reshape(-1, *y.shape)
    return torch.autograd.grad(y, x, seeds, is_grads_batched=True)


def _each(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.stack([x, x * 0.5, x * -0.75], dim)


def _product(layers: Any, loss: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
    """A Hessian times a vector, forward over reverse."""
    return _func.jvp(_func.grad(lambda x: loss(x, w)), (x,), (x.cos(),))


_TRANSFORMS: dict[str, Callable[[Any, Any, torch.Tensor, torch.Tensor], Any]] = {
    "jacrev": lambda f, g, x, w: _func.jacrev(f, (0, 1))(x, w),
    "jacfwd": lambda f, g, x, w: _func.jacfwd(f, (0, 1))(x, w),
    "hessian": lambda f, g, x, w: _func.hessian(g)(x, w),
    "reverse twice": lambda f, g, x, w: _func.jacrev(_func.jacrev(g))(x, w),
    "vmap": lambda f, g, x, w: _func.vmap(f, (1, None), 2)(_each(x, 1), w),
    "vmap of both": lambda f, g, x, w: _func.vmap(f, (-1, 0))(_each(x, -1), _each(w, 0)),
    "a gradient each": lambda f, g, x, w: _func.vmap(_func.grad(g, (0, 1)), (0, None))(
        _each(x, 0), w
    ),
    "jvp": lambda f, g, x, w: _func.jvp(f, (x, w), (x.sin(), w.cos())),
    "hvp": _product,
    "is_grads_batched": _batched,
}


_LINES = (
    "v = v.mul({n}).add(y, alpha={m})", "v = torch.sub(v, y, alpha={m})", "v = v.lerp(y, {n})",
    "v = torch.addcmul(y, v, y, value={m})", "v = v.clamp({n}, 1 + {n})", "v = v.clamp(max={m})",
    "v = v + torch.full_like(v, {n})", "v = v.masked_fill(y > 1, {m})", "v = {n} - v",
    "v = torch.where(y > {n}, v, {m})", "v = F.threshold(v, {n}, {m})", "v = v / (1 + {n})",
    "v = F.hardshrink(v, {n})", "v = F.leaky_relu(v, {m})", "v = F.elu(v, 1 + {n})",
    "v = (1 + v.abs()) ** {n}", "v = v * torch.linalg.vector_norm(y, 1 + {n})",
    "v = v + (y if {n} > 0.5 else {m})", "v = F.pad(v, (1, 0), value={n})[:, 1:] + {m}",
)  # fmt: skip
_NUMBERS = ("n", "1 - n", "2 * n", "numbers['a']", "numbers['b'][0]", "k", "0.25")
# PyTorch's compiler takes one thread at a time.
_lock = threading.Lock()


def changing(draw: Draw) -> Case:
    """Draws a function of two tensors, a float, an integer and a dictionary of numbers."""
    import torch

    import clprim.torch as ct

    lines = [
        draw.one(_LINES).format(n=draw.one(_NUMBERS), m=draw.one(_NUMBERS))
        for _ in range(int(draw.one((1, 2, 3))))
    ]
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def f(v, y, n, k, numbers):\n{body}    return v\n"
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(text, space)
    numbers = draw.random.permutation([0.1, 0.2, 0.3, 0.7]).tolist()
    calls = [(n, k, {"a": 1 - n, "b": [n / 2]}) for n, k in zip(numbers, (1, 2, 3, 2), strict=True)]
    if not cp.current_device().traits.fp64:  # PyTorch hands some changing numbers over in float64
        calls = calls[:1]
    hosts = [draw.random.choice([0.25, 0.5, 1.5, 2.0], (3, 4)) for _ in range(2)]
    function = space["f"]
    expected = tuple(function(*map(torch.from_numpy, hosts), *c).numpy() for c in calls)
    compiled = torch.compile(function, backend="clprim")

    def run() -> tuple[Host, ...]:
        with _lock, torch.no_grad():
            given = [ct.tensor(cp.asarray(h.astype(np.float32))) for h in hosts]
            return tuple(compiled(*given, *c).cpu().numpy() for c in calls)

    return Case(f"{text}with {calls}", run, expected, 1e-5)
