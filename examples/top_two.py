"""A reduction of one's own: the two best classes of every row and how sure the best one is.

One pass over the scores gives the best value and its position, the second best value, and the sum
of exponentials that makes a probability of a score.
"""

import numpy as np

import clprim as cp

top_two = cp.Reduction(
    "y0 = x0;",
    # The best, where it is, the second best, Σ exp(x - best).
    init="""
    reduce_y0 = lowest_reduce_y0;
    reduce_y1 = -1;
    reduce_y2 = lowest_reduce_y2;
    reduce_y3 = 0;
    """,
    step="""
    if (y0 > reduce_y0) {
        reduce_y3 = reduce_y3 * exp(reduce_y0 - y0) + 1;  // exp(-inf) is 0 at the first element
        reduce_y2 = reduce_y0;
        reduce_y0 = y0;
        reduce_y1 = reduce_item;
    } else {
        reduce_y3 += exp(y0 - reduce_y0);
        reduce_y2 = fmax(reduce_y2, y0);
    }
    """,
    # Too many cases to be derived from the step. A partial result without elements stands at -1.
    combine="""
    if (other_y1 >= 0) {
        if (reduce_y1 < 0 || other_y0 > reduce_y0
            || (other_y0 == reduce_y0 && other_y1 < reduce_y1)) {
            reduce_y3 = other_y3 + reduce_y3 * exp(reduce_y0 - other_y0);
            reduce_y2 = fmax(reduce_y0, other_y2);
            reduce_y0 = other_y0;
            reduce_y1 = other_y1;
        } else {
            reduce_y3 += other_y3 * exp(other_y0 - reduce_y0);
            reduce_y2 = fmax(reduce_y2, other_y0);
        }
    }
    """,
    # The best class, its probability, and by how much it leads.
    finalize="y0 = reduce_y1; y1 = 1 / reduce_y3; y2 = reduce_y0 - reduce_y2;",
    result_type=(np.int64, np.float32, np.float32),
    partial_type=(np.float32, np.int64, np.float32, np.float32),
    name="top_two",
)


def main() -> None:
    scores = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32) * 3
    best, probability, lead = (r.get() for r in top_two(cp.asarray(scores), axis=1))

    exact = scores.astype(np.float64)
    expected = np.exp(exact.max(1)) / np.exp(exact).sum(1)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    print(f"on {cp.current_device()}")
    print("row  class  probability  lead")
    for row in range(len(scores)):
        print(f"{row:3}  {best[row]:5}  {probability[row]:11.4f}  {lead[row]:.4f}")
    np.testing.assert_array_equal(best, scores.argmax(1))
    np.testing.assert_allclose(probability, expected, rtol=1e-4)
    np.testing.assert_array_equal(lead, first - second)


if __name__ == "__main__":
    main()
