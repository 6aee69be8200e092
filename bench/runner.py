"""The one runner: makes a case's contenders, compares their results, lets them take turns."""

from __future__ import annotations

import ctypes
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

import clprim as cp
from bench import options, table
from bench.case import ALL, Call, Case, Host, Page, Row
from bench.cases import PAGES
from bench.limits import PEAK, Ceilings, peak_gauge
from bench.peers import missing
from bench.timing import (
    Contender,
    Gauge,
    batch,
    calm_race,
    measured_call,
    race,
    ratio,
    spread,
    stream,
)

#: Stands among failures where a user ended a run: the page has what was measured before.
INTERRUPTED = "interrupted: the rows that follow were not measured"
_OURS = "clprim"
# Contenders whose results are what others have to be, the first that is there.
_REFERENCES = ("PyTorch", "NumPy", "KeOps", "clprim, by hand", "our attention")
# Threads of what computed before spin for tens of milliseconds.
_CALM = 0.1
# One that takes this much longer than ours runs a few times only: the outcome is clear.
_SLOW, _FEW = 8, 3
_BATCH, _QUICK_BATCH, _BATCHES = 200, 20, 3
_ON_DEVICE = "clprim, on the device"
_QUICK_SAMPLE = 0.001


def results_of(found: Any) -> list[Host]:
    """Return anyone's results as arrays of NumPy."""
    if isinstance(found, dict):
        found = [*found.values()]
    return [fetch(one) for one in (found if isinstance(found, tuple | list) else [found])]


def fetch(result: Any) -> Host:
    if hasattr(result, "is_cuda"):
        result = result.detach().cpu()
    for download in ("get", "numpy"):
        if hasattr(result, download):
            return np.asarray(getattr(result, download)())
    return np.asarray(result)


def error_of(found: Sequence[Host], expected: Sequence[Host]) -> float:
    """Return the largest difference, by the largest number of each result."""
    if len(found) != len(expected):
        return math.inf
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape and a.size != b.size:
            return math.inf
        if not b.size or np.array_equal(a.reshape(b.shape), b):
            continue
        wide = np.result_type(a, b, np.float64)
        one, other = (x.astype(wide) for x in (a.reshape(b.shape), b))
        error = float(np.abs(one - other).max()) / (float(np.abs(other).max()) or 1.0)
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def keep_memory() -> None:
    """Tell the C library to keep freed memory, so that peers are spared page faults."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not the GNU C library
        return
    trim_threshold, mmap_max = -1, -4
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_max, 0)


def finish_of(name: str, call: Call, device: cp.Device) -> Call:
    """Return what waits for a contender: its own, the device's, or nothing."""
    own = getattr(call, "finish", None)
    if own is not None:
        return own  # type: ignore[no-any-return]
    waits = name.startswith((_OURS, "our ", "CLBlast", "PyOpenCL", "cl.array", "bare", "kernel("))
    return device.synchronize if waits else lambda: None


def contenders_of(
    case: Case, calls: dict[str, Call], page: Page, device: cp.Device, *, quick: bool
) -> dict[str, Contender]:
    """Return what is timed by the host, as the page says."""
    sample = _QUICK_SAMPLE if quick else page.sample
    found = {}
    for name, call in calls.items():
        finish = finish_of(name, call, device)
        if page.sample:
            found[name] = stream(name, case.work, call, finish, seconds=sample, least=page.least)
        else:
            calls_in_a_row = _QUICK_BATCH if quick else _BATCH
            found[name] = batch(name, call, finish, calls=calls_in_a_row)
    return found


class Runner:
    """Measures the cases of a page on a device."""

    def __init__(
        self,
        page: Page,
        device: cp.Device,
        *,
        repeats: int,
        quick: bool = False,
        wanted: Sequence[str] | None = None,
    ) -> None:
        self.page, self.device, self.quick, self.wanted = page, device, quick, wanted
        self.repeats = repeats if page.sample else _BATCHES * repeats
        self.ceilings = Ceilings(device)
        self.gauge: Gauge | None = None
        self.missing: dict[str, str] = {}

    def run(
        self, cases: Iterable[Case], progress: Callable[[str], None]
    ) -> tuple[list[Row], list[str], list[str]]:
        """Return the rows, remarks on those without room, and failures."""
        rows: list[Row] = []
        remarks: list[str] = []
        failures: list[str] = []
        for case in cases:
            progress(case.label)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", cl.CompilerWarning)  # of peers' kernels
                    row = self.measure(case)
            except cp.DeviceError as error:
                remarks.append(f"{case.label}: not measured: {error}")
                continue
            except KeyboardInterrupt:
                failures.append(INTERRUPTED)
                break
            except Exception as error:  # hours of other rows are not given up for one
                text = str(error).strip()[:500]
                failures.append(f"{case.label}: {type(error).__name__}: {text}")
                continue
            finally:
                self.device.pool.free_held()
            failures += [f"{case.label}: WRONG RESULT: {name}" for name in row.wrong]
            if "!" in row.extra:
                failures.append(f"{case.label}: {row.extra.pop('!')}")
            rows.append(row)
        if self.gauge is not None:
            # What passed for the best in a busy beginning may have been bettered since.
            for row in rows:
                if PEAK in row.seconds:
                    row.calm = row.calm and self.gauge.near_best(row.seconds[PEAK][0])
        return rows, remarks, failures

    def measure(self, case: Case) -> Row:
        """Let the contenders of a case take turns."""
        data = case.data()
        first = next(iter(case.makers))
        row = Row(case.group, case.title, case.work, case.nbytes, case.count)
        calls = self._calls(case, data, first, row)
        if case.extra is not None:
            row.extra = case.extra(data, calls[first])
        time.sleep(_CALM * (not self.quick))
        contenders = contenders_of(case, calls, self.page, self.device, quick=self.quick)
        mine = contenders.pop(first)
        if case.limit in ("peak", "calm"):
            self._beside_peak(row, mine, contenders, shares=case.limit == "peak")
        else:
            self._beside_memory(row, case, calls[first], mine, contenders)
        return row

    def _calls(self, case: Case, data: Any, first: str, row: Row) -> dict[str, Call]:
        """Return the calls of all that are here and right; who is not is noted in the row."""
        calls: dict[str, Call] = {}
        found: dict[str, list[Host]] = {}
        for name, make in case.makers.items():
            named = self.wanted is None or any(p.lower() in name.lower() for p in self.wanted)
            if name != first and not named:
                continue
            reason = missing(name)
            if reason:
                self.missing[name] = reason
                continue
            try:
                call = make(data)
                if call is None:
                    continue
                finish, result = finish_of(name, call, self.device), call()
                finish()
                if case.tolerance is not None and not hasattr(call, "differs"):
                    found[name] = results_of(result)
                if name == first and case.nbytes == ALL:
                    row.nbytes = sum(a.nbytes for a in (*data.host, *results_of(result)))
            except Exception as error:
                if name == first:
                    raise
                row.absent[name] = f"{type(error).__name__}: {str(error).strip()[:200]}"
                continue
            calls[name] = call
        self._compare(case, data, first, found, row)
        return {
            name: call for name, call in calls.items() if name == first or name not in row.wrong
        }

    def _compare(
        self, case: Case, data: Any, first: str, found: dict[str, list[Host]], row: Row
    ) -> None:
        if case.tolerance is None:
            return
        if case.expected is not None:
            expected = results_of(case.expected(data))
        else:
            expected = next((found[name] for name in _REFERENCES if name in found), found[first])
        for name, result in found.items():
            error = error_of(result, expected)
            if name == first:
                row.error = error
            if not error <= case.tolerance:
                row.wrong.append(name)

    def _beside_peak(
        self, row: Row, mine: Contender, others: dict[str, Contender], *, shares: bool
    ) -> None:
        """Race with the kernel of multiply-adds, whose time tells which rounds were disturbed."""
        if self.gauge is None:
            self.gauge = peak_gauge(self.device)
        looks = {name: contender.run().host for name, contender in others.items()}
        limit = _SLOW * mine.run().host
        fast = [others[name] for name, seconds in looks.items() if seconds <= limit]
        slow = [others[name] for name, seconds in looks.items() if seconds > limit]
        results, row.calm = calm_race([mine, *fast], self.gauge, self.repeats)
        self._keep(row, results, mine.name, fast)
        row.seconds[PEAK] = spread(results[PEAK].seconds("host"))
        if shares:
            row.share = ratio(results[mine.name], results[PEAK], "host")
            row.limit = results[PEAK].rate("host")
        if slow:
            few = race([mine, *slow], min(_FEW, self.repeats))
            self._keep(row, few, mine.name, slow)
            row.seconds[mine.name] = spread(results[mine.name].seconds("host"))

    def _beside_memory(
        self, row: Row, case: Case, call: Call, mine: Contender, others: dict[str, Contender]
    ) -> None:
        """Race with the best kernels that move as many bytes, by the device's clock."""
        racers, finalists = [mine, *others.values()], []
        if case.limit:
            finalists = self.ceilings.finalists(case.limit, row.nbytes)
            racers += [measured_call(_ON_DEVICE, row.nbytes, call, self.device), *finalists]
        before = self.ceilings.before(row.nbytes)
        results = race(racers, self.repeats, before=before)
        self._keep(row, results, mine.name, others.values())
        if finalists:
            best = max((results[f.name] for f in finalists), key=lambda r: r.rate("device"))
            row.share = ratio(results[_ON_DEVICE], best, "device")
            row.limit = best.rate("device")

    @staticmethod
    def _keep(row: Row, results: Any, mine: str, others: Iterable[Contender]) -> None:
        row.seconds[mine] = spread(results[mine].seconds("host"))
        for other in others:
            row.seconds[other.name] = spread(results[other.name].seconds("host"))
            row.times[other.name] = ratio(results[mine], results[other.name], "host")


def command(args: Any, say: Callable[[str], None]) -> int:
    """Measure a page, print it, write it; 1 where a result is wrong or a row fails."""
    folder, page, device = options.folder_of(args), PAGES[args.command], cp.current_device()
    if page.keep or getattr(args, "keep_memory", False):
        keep_memory()
    cases = [case for case in page.cases(args) if args.only in case.label]
    wanted = args.peers if "peers" in page.options else None
    repeats = options.repeats_of(args)
    runner = Runner(page, device, repeats=repeats, quick=args.quick, wanted=wanted)
    rows, remarks, failures = runner.run(cases, say)
    more = []
    whole = not options.label_of(args.given[1:]).removeprefix("compiled")
    if page.more is not None and whole and INTERRUPTED not in failures:
        say("new processes")
        more = page.more(args)
    say("")
    notes = [*table.notes_of(page, rows, runner.missing), *remarks]
    told = {"rows": rows, "tables": more, "notes": notes, "failures": failures}
    return options.finish(args, folder, page.title, page.unit, **told)
