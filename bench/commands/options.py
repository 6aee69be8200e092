"""Options that several commands have: what they are called, mean, and stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import clprim as cp
from bench.work.conv import DIRECTIONS, FORMATS

RESULTS = Path(__file__).resolve().parents[1] / "results"
# Where a run writes unless it is told otherwise, below the current folder.
_DRAFTS = Path("build", "bench")
_REPEATS, _QUICK_REPEATS = 15, 2
# Values of options that stand for several of a table's keys.
_BOTH, _GRADIENTS, _ALL = "both", "gradients", "all"

QuickOption = Annotated[
    bool, typer.Option("--quick", help="Tiny workloads, few runs; targets are not judged.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", help=f"Folder for the Markdown and PNG; default: {_DRAFTS}."),
]
ShipOption = Annotated[
    bool, typer.Option("--ship", help="Write into bench/results, and its index anew.")
]
PeersOption = Annotated[
    str | None, typer.Option("--peers", help="Parts of names, with commas; default: all.")
]
ResidualOption = Annotated[
    bool,
    typer.Option(
        "--residual",
        help="With what follows each layer in the network: bias, sum of a residual, activation.",
    ),
]
_DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Index or part of a name; default: the current one.")
]
_RepeatsOption = Annotated[
    int | None,
    typer.Option("--repeats", min=1, help=f"Runs of each contender; default: {_REPEATS}."),
]
_NoChartOption = Annotated[bool, typer.Option("--no-chart", help="Leave the PNG out.")]
_BatchOption = Annotated[
    int | None, typer.Option("--batch", min=1, help="Images; default: 8, or as published.")
]
_FormatOption = Annotated[
    str, typer.Option("--memory-format", help=f"{', '.join(FORMATS)} or {_BOTH}.")
]
_DirectionOption = Annotated[
    str, typer.Option("--direction", help=f"{', '.join(DIRECTIONS)} or {_GRADIENTS}.")
]


@dataclass(frozen=True)
class Run:
    """The options of a run, made definite.

    Attributes:
        device: Where; the current one.
        quick: Whether everything is to be tiny.
        repeats: Runs of each contender.
        output: Folder for the files.
        chart: Whether one of them is a chart.
    """

    device: cp.Device
    quick: bool
    repeats: int
    output: Path
    chart: bool


@dataclass(frozen=True)
class Layers:
    """Which layers of networks are to be measured, and how.

    Attributes:
        networks: Their names.
        batch: Images; None for as many as each network has by default.
        formats: Of memory.
        directions: Forward, and gradients.
        given: Those options that differ from their defaults, as they were written.
    """

    networks: tuple[str, ...]
    batch: int | None
    formats: tuple[str, ...]
    directions: tuple[str, ...]
    given: Mapping[str, object] = field(default_factory=dict)

    @property
    def selection(self) -> dict[str, Any]:
        """Arguments of those who list the jobs of layers."""
        return {
            "networks": self.networks,
            "batch": self.batch,
            "formats": self.formats,
            "directions": self.directions,
        }


def takes(**factories: Callable[..., object]) -> Callable[[Callable[..., None]], Any]:
    """Replace arguments of a command by the options that they are made of.

    Args:
        **factories: For an argument of the command, the function that makes its value; what that
            function takes are the options.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        made_of = {name: _options(factory) for name, factory in factories.items()}
        options: list[inspect.Parameter] = []
        for parameter in _options(command):
            options.extend(made_of.get(parameter.name, [parameter]))

        @functools.wraps(command)
        def replaced(**given: Any) -> None:
            made = {
                name: factories[name](**{p.name: given.pop(p.name) for p in parameters})
                for name, parameters in made_of.items()
            }
            command(**given, **made)

        # What the command line is built from.
        replaced.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        replaced.__annotations__ = {option.name: option.annotation for option in options}
        return replaced

    return decorate


def run_of(
    *,
    device: _DeviceOption = None,
    quick: QuickOption = False,
    repeats: _RepeatsOption = None,
    output: OutputOption = None,
) -> Run:
    """Choose the device, and what else is the same for all that is timed on it."""
    try:
        found = cp.current_device() if device is None else cp.set_device(device)
    except cp.DeviceError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    repeats = repeats or (_QUICK_REPEATS if quick else _REPEATS)
    return Run(found, quick, repeats, folder_of(output, ship=False), chart=False)


def charted_run_of(
    *,
    device: _DeviceOption = None,
    quick: QuickOption = False,
    repeats: _RepeatsOption = None,
    output: OutputOption = None,
    ship: ShipOption = False,
    no_chart: _NoChartOption = False,
) -> Run:
    """Do as `run_of` does, for a command that draws a chart."""
    folder = folder_of(output, ship=ship)
    run = run_of(device=device, quick=quick, repeats=repeats, output=folder)
    return replace(run, chart=not no_chart)


def folder_of(output: Path | None, *, ship: bool) -> Path:
    """Return where files go.

    Args:
        output: As given.
        ship: Whether they are to be part of the repository.
    """
    if ship and output is not None:
        typer.echo("--ship and --output: expected one of them", err=True)
        raise typer.Exit(2)
    return RESULTS if ship else output or _DRAFTS


def layers_of(known: Collection[str], usual: str) -> Callable[..., Layers]:
    """Return what selects layers.

    Args:
        known: Names of the networks that there are.
        usual: The one that is measured where none is named.
    """
    network_option = Annotated[
        str, typer.Option("--network", help=f"{', '.join(known)} or {_ALL}.")
    ]

    def layers(
        *,
        network: str = usual,
        batch: _BatchOption = None,
        memory_format: _FormatOption = _BOTH,
        direction: _DirectionOption = "forward",
    ) -> Layers:
        given = {
            "network": network if network != usual else None,
            "batch": batch,
            "memory-format": memory_format if memory_format != _BOTH else None,
            "direction": direction if direction != "forward" else None,
        }
        return Layers(
            networks=chosen("--network", network, known, {_ALL: tuple(known)}),
            batch=batch,
            formats=chosen("--memory-format", memory_format, FORMATS, {_BOTH: tuple(FORMATS)}),
            directions=chosen("--direction", direction, DIRECTIONS, {_GRADIENTS: DIRECTIONS[1:]}),
            given={name: value for name, value in given.items() if value is not None},
        )

    layers.__annotations__["network"] = network_option
    return layers


def chosen(
    option: str, value: str, known: Collection[str], words: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the keys that an option's value stands for.

    Args:
        option: As it is written, for the message.
        value: That was given.
        known: All keys.
        words: Values that stand for several keys.
    """
    if value in words:
        return words[value]
    if value in known:
        return (value,)
    names = ", ".join((*known, *words))
    typer.echo(f"{option} {value}: expected one of {names}", err=True)
    raise typer.Exit(2)


def _options(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())
