"""The commands of ``python -m bench``, beside what they measure: a file a kind of measurement."""

from __future__ import annotations

import typer

from bench.commands.arithmetic import conv, depthwise, gemm, pairs, subpixel
from bench.commands.bandwidth import gradient, layout, norm, pointwise, reduce
from bench.commands.builds import builds
from bench.commands.compiled import torch
from bench.commands.cookbook import cookbook
from bench.commands.host import launch
from bench.commands.imported import onnx
from bench.commands.nets import nets, step
from bench.commands.operators import ops
from bench.commands.pages import pages
from bench.commands.regret import regret
from bench.commands.torture import torture
from bench.commands.tuning import tune
from bench.commands.vendors import vendors

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure clprim beside the device's own bandwidth and beside its peers.",
)

_COMMANDS = (
    pointwise,
    reduce,
    gemm,
    conv,
    depthwise,
    norm,
    ops,
    layout,
    gradient,
    pairs,
    subpixel,
    launch,
    nets,
    step,
    torch,
    onnx,
    tune,
    regret,
    cookbook,
    vendors,
    pages,
    torture,
    builds,
)
for _command in _COMMANDS:
    app.command()(_command)
