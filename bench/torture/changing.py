"""Functions of PyTorch's, compiled, of Python numbers that change from call to call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import clprim as cp
from bench.torture.case import Case
from bench.torture.draw import Draw, Host

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
    hosts = [draw.random.choice([0.25, 0.5, 1.5, 2.0], (3, 4)) for _ in range(2)]
    function = space["f"]
    expected = tuple(function(*map(torch.from_numpy, hosts), *c).numpy() for c in calls)
    compiled = torch.compile(function, backend="clprim")

    def run() -> tuple[Host, ...]:
        with _lock, torch.no_grad():
            given = [ct.tensor(cp.asarray(h.astype(np.float32))) for h in hosts]
            return tuple(compiled(*given, *c).cpu().numpy() for c in calls)

    return Case(f"{text}with {calls}", run, expected, 1e-5)
