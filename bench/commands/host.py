"""The command that measures what the host does before a kernel runs."""

from __future__ import annotations

from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import finish, moving
from bench.work.launch import launch_report, run_conv_launch, run_launch, run_starts


@takes(run=charted_run_of)
def launch(run: Run) -> None:
    """Host microseconds a call, time to import, time of the first call."""
    with moving(of=3) as progress:
        calls = run_launch(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
        convs = run_conv_launch(run.device, repeats=run.repeats, quick=run.quick, progress=progress)
        starts = run_starts(run.device, quick=run.quick, progress=progress)
    finish(launch_report(*calls, *convs, starts, quick=run.quick), run)
