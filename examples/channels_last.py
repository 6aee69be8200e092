"""Memory formats: one definition, several layouts, a kernel for each, and no hidden copies."""

import numpy as np

import clprim as cp

scale = cp.Pointwise("typeof_y0 y = x0 * x1 + x2; y0 = y < 0 ? 0 : y;", name="scale_shift_relu")
total = cp.Reduction("y0 = x0;", init="reduce_y0 = 0;", step="reduce_y0 += y0;", name="total")


def main() -> None:
    images = np.random.default_rng(0).integers(-3, 4, (8, 24, 32, 32)).astype(np.float32)
    gamma = np.arange(24, dtype=np.float32).reshape(24, 1, 1)
    layouts = {
        "contiguous": cp.asarray(images),
        "channels_last": cp.asarray(images, memory_format="channels_last"),
        "every second row": cp.asarray(np.repeat(images, 2, axis=2))[:, :, ::2],
    }
    expected = np.maximum(images * gamma + 1, 0)
    w, b = cp.asarray(gamma), cp.full((1,), 1.0)
    for x in layouts.values():
        total(scale(x, w, b), axis=(0, 2, 3))  # compiled here, so that the profile is of runs alone
    print(f"on {cp.current_device()}\n")
    with cp.profile() as p:
        for name, x in layouts.items():
            y = scale(x, w, b)
            s = total(y, axis=(0, 2, 3))
            print(f"{name:16}  x {x.strides!s:24}  y {y.strides!s:24}")
            np.testing.assert_array_equal(y.get(), expected)
            np.testing.assert_array_equal(s.get(), expected.sum((0, 2, 3)))
    # Nothing but these two operators ran: no operator copied its input to another layout.
    names = {event.name for event in p.events}
    print(f"\n{p.table()}")
    assert names <= {"scale_shift_relu", "total", "total_finish"}, names


if __name__ == "__main__":
    main()
