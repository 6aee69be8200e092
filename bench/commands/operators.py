"""The command that measures operators next to PyTorch's."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import finish, moving
from bench.page.operators import ops_report
from bench.work.operator_cases import op_cases
from bench.work.operators import op_jobs, run_ops

_FAMILIES = tuple(dict.fromkeys(case.family for case in op_cases(quick=True)))


@takes(run=charted_run_of)
def ops(
    *,
    family: Annotated[
        str | None, typer.Option("--family", help=f"Some of {', '.join(_FAMILIES)}, with commas.")
    ] = None,
    run: Run,
) -> None:
    """Operators: milliseconds, share of the best copying kernel, PyTorch."""
    chosen = tuple(family.split(",")) if family else ()
    for name in chosen:
        if name not in _FAMILIES:
            known = ", ".join(_FAMILIES)
            raise typer.BadParameter(f"{name!r}; expected some of {known}", param_hint="--family")
    jobs = op_jobs(quick=run.quick, families=chosen)
    with moving() as progress:
        rows, refused = run_ops(jobs, run.device, repeats=run.repeats, progress=progress)
    options = f"--family {family}" if family else ""
    label = "-".join(chosen)
    finish(
        ops_report(rows, refused, run.device, quick=run.quick, options=options, label=label), run
    )
