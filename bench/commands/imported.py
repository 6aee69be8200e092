"""The command that measures ONNX models."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from bench.commands.nets import names_of, some
from bench.commands.options import Run, charted_run_of, takes
from bench.commands.output import finish, moving
from bench.page.imported import imported_report
from bench.work.imported import EXPORTED, absent_packages, imported_jobs, run_imported
from bench.work.models import MODELS, missing
from bench.work.package_models import PACKAGE_MODELS


@takes(run=charted_run_of)
def onnx(
    *,
    net: Annotated[
        str | None,
        typer.Option(
            "--net",
            help=f"Some of {', '.join(PACKAGE_MODELS)}, which packages carry, or networks as of "
            "bench nets, exported; with commas.",
        ),
    ] = None,
    no_starts: Annotated[
        bool, typer.Option("--no-starts", help="Leave loading in new processes out.")
    ] = False,
    run: Run,
) -> None:
    """ONNX models that packages carry, and exported networks, beside ONNX Runtime and OpenVINO."""
    named = some("--net", net, (*PACKAGE_MODELS, *MODELS))
    jobs = imported_jobs(quick=run.quick, names=named)
    absent = missing([job.name for job in jobs if job.kind == EXPORTED])
    needed = [p for p in ("onnx", "onnxruntime") if importlib.util.find_spec(p) is None]
    if needed:
        absent = f"this needs {' and '.join(needed)}: pip install {' '.join(needed)}"
    if named and not jobs:
        absent = f"not installed: {', '.join(absent_packages(named))}"
    if absent:
        typer.echo(absent, err=True)
        raise typer.Exit(2)
    with moving() as progress:
        options = {"repeats": run.repeats, "progress": progress, "quick": run.quick}
        rows, peers, refused = run_imported(jobs, run.device, starts=not no_starts, **options)
    report = imported_report(
        rows,
        peers,
        refused=refused,
        absent=[] if run.quick else absent_packages(named),
        excuse="--quick" if run.quick else "a part of the rows" if named else "",
        **names_of({"net": net}, **{"no-starts": no_starts}),
    )
    finish(report, run)
