"""Graphs in one launch by the thousand, for hours: ``python tests/one_launch.py --graphs 10000``.

Random graphs are compared with their kernels apart, bit for bit; ``--minutes 60`` replays some of
them and says what memory that took. Both on clprim's current device (``CLPRIM_DEVICE``).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from pathlib import Path

from graph.test_one_launch import bits, both, data, random_graph, walked

import clprim as cp


def differing(device, seeds):
    """Yields the seeds of graphs whose bits are others in one launch than apart, or change."""
    for seed in seeds:
        given = data(seed)
        one, each = both(device, random_graph(seed), given)
        assert walked(one), f"the graph of seed {seed} is launched apart"
        wanted = bits(each(given))
        if any(bits(one(given)) != wanted for _ in range(2)):
            yield seed


def growth(device, seconds, seeds=range(3)):
    """Replays graphs for so long; returns how often, and the bytes that the process grew by."""
    jobs = []
    for seed in seeds:
        given = data(seed)
        one, each = both(device, random_graph(seed), given)
        jobs.append((one, given, bits(each(given))))
    first = count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or count < 3 * WARM:
        for one, given, wanted in jobs:
            for _ in range(20):
                one(given)
            assert bits(one(given)) == wanted
        count += 21 * len(jobs)
        if not first and count >= WARM:
            gc.collect()
            first = resident()
    gc.collect()
    return count, resident() - first


#: Replays after which nothing is new any more.
WARM = 600


def resident():
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first graph's seed")
    parser.add_argument("--minutes", type=float, default=0)
    args = parser.parse_args()
    device, begun = cp.current_device(), time.monotonic()
    wrong = []
    for seed in range(args.first, args.first + args.graphs):
        wrong += differing(device, [seed])
        if seed % 100 == 99:
            done = seed + 1 - args.first
            print(f"{done} graphs, {len(wrong)} differ: {wrong[:20]}", flush=True)
            gc.collect()
    print(
        f"{args.graphs} graphs, {len(wrong)} differ, {time.monotonic() - begun:.0f} s on {device}"
    )
    if args.minutes:
        count, more = growth(device, 60 * args.minutes)
        print(f"{count:,} replays in {args.minutes:g} minutes: {more / 2**20:+.1f} MiB")
        wrong += [more] if more > 8 << 20 else []
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
