"""What counts as hit, as missed, and as neither."""

import pytest

from bench.page.targets import Target, judge, summarize

SHARE = Target("share", 0.8, "of the ceiling")
TIME = Target("seconds", 0.4, "import", at_most=True, unit=" s")
TIMES = Target("times", 15, "as fast", unit="×")


@pytest.mark.parametrize(
    ("target", "value", "outcome", "text"),
    [
        (SHARE, 0.8, "hit", "≥ 80%: hit, 80.0%"),
        (SHARE, 0.7999, "MISSED", "≥ 80%: MISSED, 80.0%"),
        (TIME, 0.4, "hit", "≤ 0.4 s: hit, 0.400 s"),
        (TIME, 0.41, "MISSED", "≤ 0.4 s: MISSED, 0.410 s"),
        (TIMES, 17.456, "hit", "≥ 15×: hit, 17.46×"),
    ],
)
def test_outcome(target, value, outcome, text):
    (verdict,) = judge([target], "row", {target.measure: value})
    assert verdict.outcome == outcome
    assert str(verdict) == text


def test_a_target_reads_well():
    assert str(SHARE) == "≥ 80% of the ceiling"
    assert str(TIME) == "≤ 0.4 s import"


def test_without_a_value_or_with_an_excuse_nothing_is_judged():
    missing, excused = judge([TIMES], "a", {}) + judge([SHARE], "b", {"share": 0.1}, "--quick")
    assert missing.outcome == excused.outcome == "not judged"
    assert str(missing) == "≥ 15×: (not measured)"
    assert str(excused) == "≥ 80%: (--quick)"


def test_summaries():
    verdicts = [
        *judge([SHARE], "a", {"share": 0.9}),
        *judge([TIME], "b", {"seconds": 0.1}),
        *judge([SHARE], "c", {"share": 0.5}),
        *judge([TIME], "d", {"seconds": 0.3}),
        *judge([SHARE], "e", {"share": 0.1}, "fits the cache"),
        *judge([TIMES], "f", {"times": 1}, "--quick"),
    ]
    share, time, times = summarize(verdicts)
    assert (share.hits, share.judged, share.worst.subject) == (1, 2, "c")
    assert (share.outcome, share.excuse) == ("MISSED", "fits the cache")
    assert (time.hits, time.judged, time.worst.subject) == (2, 2, "d")
    assert (time.outcome, time.excuse) == ("hit", "")
    assert (times.outcome, times.worst) == ("not judged", None)
