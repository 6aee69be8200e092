"""Operators from strings mapped over a Dask array of images: workers, each with a device.

    pip install "dask[distributed]"
    python examples/dask_images.py                          # two workers of its own, here
    python examples/dask_images.py tcp://scheduler:8786     # a cluster that is there

Blocks travel as NumPy arrays; each worker uploads its block, computes and downloads it. On a
machine with several devices, start each worker with its own CLPRIM_DEVICE.
"""

import sys

import numpy as np

import clprim as cp

CONTRAST = """
typeof_y0 mean = x1 * w0, deviation = sqrt(x2 * w0 - mean * mean) + 1e-6;
y0 = (x0 - mean) / deviation;
"""


def normalise(images: np.ndarray) -> np.ndarray:
    """Contrast of every image and channel: mean 0, deviation 1. Runs in a worker.

    Args:
        images: (N, C, H, W) of NumPy.
    """
    # Made where they run; the second block finds their kernels in the process's memory.
    sums = cp.Reduction(
        "y0 = x0; y1 = x0 * x0;",
        init="reduce_y0 = 0; reduce_y1 = 0;",
        step="reduce_y0 += y0; reduce_y1 += y1;",
    )
    contrast = cp.Pointwise(CONTRAST)
    x = cp.asarray(images)
    s, s2 = sums(x, axis=(2, 3), keepdims=True)
    return contrast(x, s, s2, 1 / (x.shape[2] * x.shape[3])).get()


def main() -> None:
    print(f"on {cp.current_device()}")
    random = np.random.default_rng(0)
    images = random.uniform(0, 1, (16, 3, 64, 64)).astype(np.float32)
    expected = (images - images.mean((2, 3), keepdims=True)) / images.std((2, 3), keepdims=True)
    try:
        import dask.array as da
        from dask.distributed import Client
    except ImportError:
        print('Dask is not installed: pip install "dask[distributed]"; one block at a time instead')
        blocks = [normalise(block) for block in np.split(images, 4)]
        print(f"largest error: {np.abs(np.concatenate(blocks) - expected).max():.1e}")
        return
    address = sys.argv[1] if len(sys.argv) > 1 else None
    options = {} if address else {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with Client(address, dashboard_address=None, **options) as client:
        blocks = da.from_array(images, chunks=(4, 3, 64, 64))
        result = blocks.map_blocks(normalise, dtype=np.float32).compute()
        print(f"{blocks.npartitions} blocks, {len(client.scheduler_info()['workers'])} workers")
    print(f"largest error: {np.abs(result - expected).max():.1e}")


if __name__ == "__main__":
    main()
