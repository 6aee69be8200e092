"""A convolutional network learns handwritten digits from scratch, with clprim's operators alone.

    python examples/train_digits.py --epochs 30 -o curve.png

The data are scikit-learn's 1,797 digits of 8 × 8 pixels; a fifth of them is kept for the test, and
the others are shifted by up to a pixel whenever they are seen. One seed gives one result.
"""

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

import numpy as np

import clprim as cp
from clprim import ops

RELU = "y0 = max(y0, 0);"
CHANNELS = (1, 32, 64)
CLASSES = 10
BATCH = 64
RATE = 4e-3


class Network:
    """Two convolutions with bias and ReLU at their stores, a pooling between, a linear layer."""

    def __init__(self, rng: np.random.Generator) -> None:
        first, second, third = CHANNELS
        shapes = [(second, first, 3, 3), (third, second, 3, 3), (CLASSES, third * 16)]
        self.parameters = []
        for shape in shapes:
            deviation = np.sqrt(2 / np.prod(shape[1:]))
            self.parameters.append(cp.asarray(rng.normal(0, deviation, shape).astype(np.float32)))
            self.parameters.append(cp.zeros(shape[0]))

    def __call__(self, x: cp.Array) -> list[cp.Array]:
        """Returns what every layer makes of images: the logits last."""
        w1, b1, w2, b2, w3, b3 = self.parameters
        a = ops.conv2d(x, w1, b1, padding="same", epilogue=RELU)
        p, chosen = ops.max_pool2d(a, 2, return_indices=True)
        b = ops.conv2d(p, w2, b2, padding="same", epilogue=RELU)
        return [a, p, chosen, b, ops.linear(b.reshape(len(x), -1), w3, b3)]

    def gradients(self, x: cp.Array, layers: list[cp.Array], grad: cp.Array) -> list[cp.Array]:
        """Returns the gradients of the parameters, given that of the logits."""
        w1, _, w2, _, w3, _ = self.parameters
        a, p, chosen, b, _ = layers
        flat, dw3, db3 = ops.linear_backward(grad, b.reshape(len(x), -1), w3)
        db = ops.relu_backward(flat.reshape(b.shape), b)
        dp = ops.conv2d_input(p.shape, w2, db, padding="same")
        da = ops.relu_backward(ops.max_pool2d_backward(dp, a, 2, indices=chosen), a)
        dw1 = ops.conv2d_weight(x, w1.shape, da, padding="same")
        dw2 = ops.conv2d_weight(p, w2.shape, db, padding="same")
        return [dw1, ops.conv2d_bias(da), dw2, ops.conv2d_bias(db), dw3, db3]


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The images, each moved by up to a pixel in both directions."""
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(wide, images.shape[2:], (2, 3))
    rows, columns = rng.integers(0, 3, (2, len(images)))
    return np.ascontiguousarray(views[np.arange(len(images)), :, rows, columns])


def train(epochs: int, seed: int) -> tuple[list[float], list[float]]:
    """Trains a network; returns the mean loss of every epoch, and the accuracy in the test."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    digits = load_digits()
    images = (digits.images[:, None] / 16 - 0.3).astype(np.float32)
    order = rng.permutation(len(images))
    kept, learnt = np.split(order, [len(images) // 5])
    test, classes = cp.asarray(images[kept]), digits.target[kept]
    network = Network(rng)
    first, second = ([cp.zeros(p.shape) for p in network.parameters] for _ in range(2))
    one = cp.full((), 1.0)
    steps = len(learnt) // BATCH
    losses, accuracies = [], []
    for epoch in range(epochs):
        sums = cp.zeros(())
        order = rng.permutation(learnt)
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            x = cp.asarray(shifted(images[chosen], rng))
            target = cp.asarray(digits.target[chosen])
            layers = network(x)
            sums = sums + ops.cross_entropy(layers[-1], target)
            grad = ops.cross_entropy_backward(one, layers[-1], target)
            number = epoch * steps + step
            rate = RATE * (1 + np.cos(np.pi * number / (epochs * steps))) / 2
            ops.optim.adamw(
                network.parameters,
                network.gradients(x, layers, grad),
                first,
                second,
                step=number + 1,
                lr=rate,
                weight_decay=1e-2,
            )
            bar(number + 1, epochs * steps, losses, accuracies)
        found = ops.argmax(network(test)[-1], 1).get()
        losses.append(float(sums) / steps)
        accuracies.append(float((found == classes).mean()))
    bar(epochs * steps, epochs * steps, losses, accuracies)
    return losses, accuracies


def bar(done: int, total: int, losses: list[float], accuracies: list[float]) -> None:
    """Shows how far the training is, in one line that is written again and again."""
    width = 30
    filled = "#" * (width * done // total)
    known = f"loss {losses[-1]:.4f}, test {accuracies[-1]:.2%}" if losses else ""
    print(f"\r[{filled:<{width}}] {done}/{total} steps  {known}", end="", flush=True)


def draw(file: Path, losses: list[float], accuracies: list[float]) -> None:
    """Saves the learning curve as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, left = plt.subplots(figsize=(7, 4), layout="constrained")
    epochs = range(1, len(losses) + 1)
    left.plot(epochs, losses, color="tab:blue", marker=".")
    left.set(xlabel="epoch", ylabel="mean loss", yscale="log", title="scikit-learn's digits")
    right = left.twinx()
    right.plot(epochs, [100 * a for a in accuracies], color="tab:orange", marker=".")
    right.set_ylabel("right in the test, %")
    figure.savefig(file)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(tempfile.gettempdir()) / "clprim-digits.png"
    )
    given = parser.parse_args()
    print(f"on {cp.current_device()}")
    missing = [m for m in ("sklearn", "matplotlib") if importlib.util.find_spec(m) is None]
    if missing:
        print("this example needs scikit-learn and matplotlib: pip install 'clprim[examples]'")
        return
    started = time.perf_counter()
    losses, accuracies = train(given.epochs, given.seed)
    print(f"\n{accuracies[-1]:.2%} of the test are right, {time.perf_counter() - started:.1f} s")
    draw(given.output, losses, accuracies)
    print(f"the learning curve is in {given.output}")


if __name__ == "__main__":
    main()
