"""Training with an activation and a loss that are strings of one's own; nothing else is written.

A network of two layers learns a spiral. The activation has a slope that is learnt as well, and the
loss is the focal loss of two classes (Lin and others 2017); the gradients of both are derived.
"""

import numpy as np

import clprim as cp
from clprim import ops

# x · sigmoid(s x), where every channel learns its s.
swish = cp.Pointwise("y0 = x0 / (1 + exp(-x1 * x0));", name="swish")
# −(1 − p)² log p, where p is the probability of the right class, x1 = ±1.
focal = cp.Reduction(
    """
    typeof_y0 z = x0 * x1;
    typeof_y0 e = exp(-fabs(z));
    typeof_y0 p = (z < 0 ? e : 1) / (1 + e);
    y0 = (1 - p) * (1 - p) * (log1p(e) + (z < 0 ? -z : 0));
    """,
    init="reduce_y0 = 0;",
    step="reduce_y0 += y0;",
    finalize="y0 = reduce_y0 / count;",
    name="focal",
)
swish_gradient = swish.gradient()
focal_gradient = focal.gradient("x0")


def spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals, and which of them each is on: 1 or -1."""
    rng = np.random.default_rng(0)
    turn = np.sqrt(rng.uniform(0.05, 1, count)) * 5
    label = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    angle = turn + np.where(label > 0, 0, np.pi)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * turn[:, None] / 5
    return points.astype(np.float32), label[:, None].astype(np.float32)


def main() -> None:
    points, labels = spirals(512)
    x, target = cp.asarray(points), cp.asarray(labels)
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> cp.Array:
        return cp.asarray(rng.normal(0, 1 / np.sqrt(shape[0]), shape).astype(np.float32))

    hidden = 64
    parameters = [weights(2, hidden) * 4, weights(1, hidden), cp.full(hidden, 1.0)]
    parameters += [weights(hidden, 1), cp.zeros((1, 1))]
    state = [[cp.zeros(p.shape) for p in parameters] for _ in range(2)]

    print(f"on {cp.current_device()}")
    print(f"swish hands on\n{swish_gradient}\nthe loss hands on\n{focal_gradient}\n")
    losses = []
    for step in range(1, 301):
        w1, b1, s, w2, b2 = parameters
        before = ops.matmul(x, w1) + b1
        after = swish(before, s)
        logits = ops.matmul(after, w2) + b2
        losses.append(focal(logits, target))

        g_logits = focal_gradient(logits, target, grad=1.0)
        g_after = ops.matmul(g_logits, w2, transpose_b=True)
        g_before, g_s = swish_gradient(before, s, grad=g_after)
        gradients = [
            ops.matmul(x, g_before, transpose_a=True),
            ops.sum(g_before, axis=0, keepdims=True),
            g_s,
            ops.matmul(after, g_logits, transpose_a=True),
            ops.sum(g_logits, axis=0, keepdims=True),
        ]
        ops.optim.adam(parameters, gradients, *state, lr=0.02, step=step)
        if step % 100 == 0:
            right = np.mean((logits.get() > 0) == (labels > 0))
            print(f"step {step}: loss {float(losses[-1].get()):.4f}, {right:.0%} right")
    assert float(losses[-1].get()) < 0.2 * float(losses[0].get())


if __name__ == "__main__":
    main()
