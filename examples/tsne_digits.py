"""t-SNE of handwritten digits by reductions over pairs: exact, and no matrix of pairs is stored.

    python examples/tsne_digits.py -o digits.png

The data are scikit-learn's 1,797 digits of 8 × 8 pixels. How near two of them are (p), how near
their points in the plane are (q), and what pulls and pushes every point follow from the images and
the points again in every step: memory is that of the images. One seed gives one picture.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np

import clprim as cp

SQUARES = cp.Reduction("y0 = x0 - x1;", init="reduce_y0 = 0;", step="reduce_y0 += y0 * y0;")


def sums(count: int) -> cp.Reduction:
    """Returns sums of so many values of a pair."""
    numbers = range(count)
    return cp.Reduction(
        " ".join(f"y{n} = x{n};" for n in numbers),
        init=" ".join(f"reduce_y{n} = 0;" for n in numbers),
        step=" ".join(f"reduce_y{n} += y{n};" for n in numbers),
    )


# How far every image's neighbourhood reaches: x2 is its precision, and one pair is with itself.
NEIGHBOURS = cp.Pairs(
    inner=SQUARES,
    expr="y0 = d > 0 ? exp(-d * x2) : 0; y1 = d * y0;",
    outer=sums(2),
)

# x2 … x5: precisions, and sums of the neighbourhood, of rows and of columns; x6 … x9: the points.
FORCES = cp.Pairs(
    inner=SQUARES,
    expr="""
    typeof_y0 p = d > 0 ? exp(-d * x2) / x4 + exp(-d * x3) / x5 : 0;
    typeof_y0 u = x6 - x7, v = x8 - x9;
    typeof_y0 w = 1 / (1 + u * u + v * v);
    y0 = p * w * u; y1 = p * w * v;
    y2 = w * w * u; y3 = w * w * v;
    y4 = w;
    """,
    outer=sums(5),
)


def precisions(x: cp.Array, perplexity: float, steps: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Returns the precision at which each image has so many neighbours, and their weights' sum.

    All of them are found at once by bisection of the entropies.

    Args:
        x: The images, (N, D).
        perplexity: How many.
        steps: Of the bisection.
    """
    low, high = np.zeros(len(x), np.float32), np.full(len(x), np.inf, np.float32)
    beta = np.ones(len(x), np.float32)
    for _ in range(steps):
        total, moment = NEIGHBOURS(x[:, None], x[None], cp.asarray(beta[:, None]))
        total, moment = total.get(), moment.get()
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = np.log(total) + beta * moment / total
        wide = ~(entropy < np.log(perplexity))
        wide &= total > 0
        low, high = np.where(wide, beta, low), np.where(wide, high, beta)
        beta = np.where(np.isinf(high), 2 * low, (low + high) / 2).astype(np.float32)
    total = NEIGHBOURS(x[:, None], x[None], cp.asarray(beta[:, None]))[0]
    return beta, total.get()


def embed(x: cp.Array, *, perplexity: float = 30, steps: int = 500, seed: int = 0) -> np.ndarray:
    """Returns a point of the plane for every image.

    Args:
        x: The images, (N, D).
        perplexity: How many neighbours count.
        steps: Of gradient descent with momentum.
        seed: Of the points at the beginning.
    """
    count = len(x)
    beta, total = (cp.asarray(a) for a in precisions(x, perplexity))
    points = np.random.default_rng(seed).normal(0, 1e-2, (count, 2)).astype(np.float32)
    velocity, gains = np.zeros_like(points), np.ones_like(points)
    rate = max(count / 48, 50)
    for step in range(steps):
        early = step < 0.25 * steps
        u, v = (cp.asarray(np.ascontiguousarray(points[:, n])) for n in (0, 1))
        given = (beta[:, None], beta, total[:, None], total, u[:, None], u, v[:, None], v)
        pull_u, pull_v, push_u, push_v, whole = (
            a.get() for a in FORCES(x[:, None], x[None], *given)
        )
        attraction = np.stack([pull_u, pull_v], 1) / (2 * count) * (12 if early else 1)
        # A point is no pair with itself: of each the sum holds 1 for that.
        repulsion = np.stack([push_u, push_v], 1) / (whole.sum(dtype=np.float64) - count)
        gradient = 4 * (attraction - repulsion)
        opposed = velocity * gradient < 0
        gains = np.maximum(np.where(opposed, gains + 0.2, gains * 0.8), 0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gains * gradient
        points = (points + velocity).astype(np.float32)
    return points


def agreement(points: np.ndarray, labels: np.ndarray) -> float:
    """Returns which part of the points has a nearest other point of the same digit."""
    y = cp.asarray(points)
    nearest = cp.ops.nearest(y, y, k=2)[1].get()
    other = np.where(nearest[:, 0] == np.arange(len(labels)), nearest[:, 1], nearest[:, 0])
    return float((labels[other] == labels).mean())


def draw(path: Path, points: np.ndarray, labels: np.ndarray) -> None:
    """Writes a picture of the points, a colour a digit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.scatter(*points.T, c=labels, cmap="tab10", s=8)
    for digit in range(10):
        middle = np.median(points[labels == digit], 0)
        axes.annotate(str(digit), middle, fontsize=16, weight="bold", ha="center", va="center")
    axes.set_axis_off()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("digits.png"))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--perplexity", type=float, default=30)
    given = parser.parse_args()
    missing = [m for m in ("sklearn", "matplotlib") if importlib.util.find_spec(m) is None]
    if missing:
        print("this example needs scikit-learn and matplotlib: pip install 'clprim[examples]'")
        return
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = cp.asarray((images / 16).astype(np.float32))
    start = time.perf_counter()
    points = embed(x, perplexity=given.perplexity, steps=given.steps)
    taken = time.perf_counter() - start
    pairs = len(x) ** 2
    print(f"{given.steps} steps over {pairs:,} pairs: {taken:.1f} s, no matrix of them")
    print(f"{agreement(points, labels):.1%} of the digits are next to one of their kind")
    draw(given.output, points, labels)
    print(f"written: {given.output}")


if __name__ == "__main__":
    main()
