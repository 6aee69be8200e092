"""Lays out what `bench.work.subpixel` measured: forms of a network, peers, promises, a chart."""

from __future__ import annotations

from collections.abc import Sequence

from bench.clock.timing import Spread
from bench.page.report import Report, Table
from bench.page.targets import Target, Verdict, judge
from bench.peers.peer import Peer
from bench.work.subpixel import FORMS, SizeRow, StoreRow

_CONVERSIONS = {
    "NHWC": Target("launches", 0, "launches that change the layout, NHWC", at_most=True, unit=""),
    "NCHW": Target("launches", 2, "launches that change the layout, NCHW", at_most=True, unit=""),
}
_SHUFFLES = Target("shuffles", 0, "launches of depth_to_space alone", at_most=True, unit="")
_OUTSIDE = Target("outside", 0.02, "of the time outside of convolutions", at_most=True)
_STORE = Target("store", 1.02, "as long as with plain stores", at_most=True, unit="×")
_TORCH = "PyTorch, NHWC"
_PEER = Target("times", 1.05, f"as fast as {_TORCH}", unit="×")


def subpixel_report(
    rows: Sequence[SizeRow],
    stores: Sequence[StoreRow],
    peers: Sequence[Peer],
    *,
    quick: bool = False,
) -> Report:
    """Lay rows out for readers.

    Args:
        rows: As `run_subpixel` returned them.
        stores: Likewise.
        peers: Likewise.
        quick: Whether everything was too small for its targets.
    """
    excuse = "--quick" if quick else ""
    verdicts = [verdict for row in rows for verdict in _verdicts(row, excuse)]
    for store in stores:
        subject = f"{store.title}, {store.layout}"
        verdicts += judge([_STORE], subject, {"store": store.ratio.median}, excuse)
    return Report(
        "subpixel",
        "A sub-pixel network without a transpose",
        tables=(*(_table(row) for row in rows), _store_table(stores)),
        verdicts=tuple(verdicts),
        notes=_notes(peers),
        failures=tuple(
            f"{row.title}: the result of {name} differs" for row in rows for name in row.wrong
        ),
    )


def _verdicts(row: SizeRow, excuse: str) -> list[Verdict]:
    found = []
    for form in FORMS:
        if form.how not in ("fused", "converted"):
            continue
        launches, subject = row.launches[form.title], f"{row.title}, {form.title}"
        # How many kernels there are does not depend on how large pictures are.
        values = {"launches": launches.conversions, "shuffles": launches.shuffles}
        found += judge([_CONVERSIONS[form.layout], _SHUFFLES], subject, values)
        if form.how == "fused":
            outside = {"outside": row.outside[form.title].median}
            found += judge([_OUTSIDE], subject, outside, excuse)
    times = {"times": row.times[_TORCH].median} if _TORCH in row.times else {}
    return [*found, *judge([_PEER], f"{row.title}, NHWC", times, excuse)]


def _table(row: SizeRow) -> Table:
    lines = []
    for name, seconds in row.seconds.items():
        launches, times = row.launches.get(name), row.times.get(name)
        lines.append(
            (
                name,
                f"{1e3 * seconds:.2f}",
                f"{row.flops / seconds / 1e9:.0f}",
                "–" if times is None else f"{times.median:.2f}× ({_quartiles(times)})",
                *_counted(row, name, launches is not None),
            )
        )
    return Table(
        f"Pictures of {row.title}, {row.flops / 1e9:.1f} GFLOP",
        (
            "",
            "ms",
            "GFLOP/s",
            "fused is as fast",
            "convolutions",
            "depth_to_space",
            "other launches",
            "outside of convolutions",
        ),
        tuple(lines),
    )


def _counted(row: SizeRow, name: str, known: bool) -> tuple[str, str, str, str]:
    if not known:
        return ("–",) * 4
    launches, outside = row.launches[name], row.outside[name]
    percent = f"{outside.median:.1%} ({100 * outside.low:.1f}–{100 * outside.high:.1f})"
    counts = (launches.convolutions, launches.shuffles, launches.conversions)
    first, second, third = map(str, counts)
    return first, second, third, percent


def _quartiles(times: Spread) -> str:
    return f"{times.low:.2f}–{times.high:.2f}"


def _store_table(stores: Sequence[StoreRow]) -> Table:
    return Table(
        "Convolutions that store squares of pixels",
        ("", "layout", "ms", "as long as with plain stores"),
        tuple(
            (
                store.title,
                store.layout,
                f"{1e3 * store.seconds:.3f}",
                f"{store.ratio.median:.3f}× ({store.ratio.low:.3f}–{store.ratio.high:.3f})",
            )
            for store in stores
        ),
    )


def _notes(peers: Sequence[Peer]) -> tuple[str, ...]:
    return (
        "The network: 3×3 convolutions with a bias 3→64, two residual blocks and one more of "
        "64→64, 64→128 and 32→64, each followed by `depth_to_space` of 2, and 16→3; activations "
        "and sums are epilogues.",
        "`fused`: convolutions store to the shuffled address. `separate`: `ops.depth_to_space` "
        "after them. `transposing`: that one in NCHW, with conversions around it. `converted`: "
        "fused, in NHWC, between conversions of input and result. All give the same result.",
        "Milliseconds by the host's clock, medians; contenders take turns. `fused is as fast`: the "
        "fused form in the same layout, compared round by round (median, quartiles).",
        "`outside of convolutions`: of a profiled run by the host's clock, what kernels of "
        "convolutions, by the device's, leave over; launches are counted in the profile.",
        *(f"{peer.note(())}." for peer in peers),
    )
