"""Batch normalisation in training, from strings: statistics in one pass, then the normalisation.

The statistics are Welford's, which stay right where the mean is much larger than the deviation; the
sums of x and x² lose their digits there.
"""

import numpy as np

import clprim as cp

statistics = cp.Reduction(
    "y0 = x0;",
    # How many elements, their mean, and the sum of their squared distances from it.
    init="reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;",
    step="""
    typeof_y0 distance = y0 - reduce_y1;
    reduce_y0 += 1;
    reduce_y1 += distance / reduce_y0;
    reduce_y2 += distance * (y0 - reduce_y1);
    """,
    # Two groups of elements become one (Chan, Golub and LeVeque, 1979).
    combine="""
    typeof_reduce_y0 n = reduce_y0 + other_y0, apart = other_y1 - reduce_y1;
    typeof_reduce_y0 part = n == 0 ? 0 : other_y0 / n;
    reduce_y1 += apart * part;
    reduce_y2 += other_y2 + apart * apart * reduce_y0 * part;
    reduce_y0 = n;
    """,
    finalize="y0 = reduce_y1; y1 = reduce_y2 / count;",
    name="statistics",
)
normalise = cp.Pointwise("y0 = (x0 - x1) * rsqrt(x2 + w0) * x3 + x4;", name="normalise")


def main() -> None:
    random = np.random.default_rng(0)
    images = (random.standard_normal((16, 32, 28, 28)) + 1000).astype(np.float32)
    gamma, beta = np.ones((32, 1, 1), np.float32), np.zeros((32, 1, 1), np.float32)

    x = cp.asarray(images, memory_format="channels_last")
    mean, variance = statistics(x, axis=(0, 2, 3), keepdims=True)
    y = normalise(x, mean, variance, cp.asarray(gamma), cp.asarray(beta), 1e-5)

    exact = images.astype(np.float64)
    expected = exact.var(axis=(0, 2, 3), keepdims=True)
    error = np.abs(variance.get() / expected - 1).max()
    naive = (images * images).mean((0, 2, 3)) - images.mean((0, 2, 3)) ** 2
    naive_error = np.abs(naive / expected.ravel() - 1).max()
    print(f"on {cp.current_device()}")
    print("relative error of the variance of data around 1000:")
    print(f"  one pass, Welford  {error:.1e}")
    print(f"  E[x²] - E[x]²      {naive_error:.1e}")
    print(f"normalised: mean {y.get().mean():+.1e}, deviation {y.get().std():.6f}")
    assert error < 1e-4


if __name__ == "__main__":
    main()
