"""The one parser of ``python -m bench``: what pages and other commands take."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import clprim as cp
from bench.case import FORMATS, Options, Page
from bench.cases import PAGES
from bench.cases.arithmetic import DIRECTIONS
from bench.cases.networks import PEERS
from bench.models import MODELS
from bench.models_packages import PACKAGE_MODELS
from bench.table import RESULTS, Record, setting, slug
from clprim.tune.depthwise import DEPTHWISE
from clprim.tune.networks import NETWORKS

#: Where a run writes unless it is told otherwise, below the current folder.
DRAFTS = Path("build", "bench")
REPEATS, QUICK_REPEATS = 15, 2
_ALL = {"all": (), "both": tuple(FORMATS), "gradients": DIRECTIONS[1:]}


class WrongError(Exception):
    """Options that do not go together, or values that are not known."""


def folder_of(args: Options) -> Path:
    if args.ship is True and args.output is not None:
        raise WrongError("--ship and --output: expected one of them")
    return RESULTS if args.ship else args.output or DRAFTS


def repeats_of(args: Options) -> int:
    return args.repeats or (QUICK_REPEATS if args.quick else REPEATS)


def told(args: Options) -> str:
    """Return the command as typed, with its repeats."""
    more = [] if args.repeats else [f"--repeats {repeats_of(args)}"]
    return " ".join([*args.given, *more])


def name_of(args: Options, device: str) -> str:
    """Return the name of a run's files: a quick one must not replace the numbers of a real one."""
    label = label_of(args.given[1:])
    return "-".join(filter(None, (args.command, label, device, "quick" * args.quick)))


def finish(args: Options, folder: Path, title: str, unit: str, **found: Any) -> int:
    """Print and write what a run found, of the current device, and return its status."""
    device = cp.current_device()
    empty = {"rows": [], "tables": [], "notes": [], "failures": []}
    name, where = name_of(args, slug(device)), setting(device, told(args))
    record = Record(name, title, unit, where, **{**empty, **found})
    return record.finish(folder)


def words(known: Collection[str], *stand_for: str) -> Callable[[str], list[str]]:
    """Return what reads names with commas; some words stand for several of them."""

    def read(text: str) -> list[str]:
        found: list[str] = []
        for word in text.split(","):
            if word in stand_for:
                found += _ALL[word] or known
            elif word in known:
                found.append(word)
            else:
                names = ", ".join((*known, *stand_for))
                raise argparse.ArgumentTypeError(f"{text}: expected one of {names}")
        return found

    return read


def counts(text: str) -> list[int]:
    if not all(word.isdecimal() and int(word) for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text}: expected numbers from 1, with commas")
    return [int(word) for word in text.split(",")]


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1")
    return int(text)


def _networks(page: str) -> dict[str, Any]:
    known = {"conv": NETWORKS, "depthwise": DEPTHWISE, "tune": {**NETWORKS, **DEPTHWISE}}[page]
    usual = "mobilenet-v2" if page == "depthwise" else "resnet50"
    return {"type": words(known, "all"), "default": [usual],
            "help": f"{', '.join(known)} or all (default: {usual})"}  # fmt: skip


def _nets(page: str) -> dict[str, Any]:
    known = [*(PACKAGE_MODELS if page == "onnx" else ()), *MODELS]
    if page == "step":
        known = [name for name in known if not MODELS[name].tokens]
    return {"type": words(known), "help": f"some of {', '.join(known)}, with commas"}


# By name: what makes the keywords of `add_argument`, given the page.
_OPTIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "network": _networks,
    "net": _nets,
    "batch": lambda _: {"type": counts, "help": "images; several with commas"},
    "memory_format": lambda _: {
        "type": words(FORMATS, "both"), "default": [*FORMATS],
        "help": f"{', '.join(FORMATS)} or both"},
    "direction": lambda _: {
        "type": words(DIRECTIONS, "gradients"), "default": ["forward"],
        "help": f"{', '.join(DIRECTIONS)} or gradients"},
    "residual": lambda _: {"action": "store_true", "help": "with what follows each layer: bias, "
                           "sum of a residual, activation"},
    "peers": lambda _: {"type": lambda text: text.split(","), "help": "parts of their names"},
    "net_peers": lambda _: {"type": words(PEERS), "dest": "peers",
                            "help": f"some of {', '.join(PEERS)}, with commas"},
    "launch": lambda _: {"nargs": "?", "choices": ("launch",),
                         "help": "networks in one launch and apart, of one image and of 8"},
    "no_starts": lambda _: {"action": "store_true", "help": "without first calls in new processes"},
    "keep_memory": lambda _: {"action": "store_true", "help": "spare PyTorch's CPU fresh pages"},
    "compiled": lambda _: {"action": "store_true", "required": True,
                           "help": "has to be given: nets and step measure the rest"},
}  # fmt: skip


def _run_options(parser: argparse.ArgumentParser, *, ships: bool = True) -> None:
    add = parser.add_argument
    add("--device", help="index or part of a name; default: the current one")
    add("--quick", action="store_true", help="tiny cases, few runs; targets are not judged")
    add("--repeats", type=positive, help=f"runs of each contender; default: {REPEATS}")
    add("--output", type=Path, help=f"folder of the page; default: {DRAFTS}")
    if ships:
        add("--ship", action="store_true", help="write into bench/results, and its index anew")


def page_options(parser: argparse.ArgumentParser, name: str, page: Page) -> None:
    for option in page.options:
        flag = f"--{'peers' if option == 'net_peers' else option.replace('_', '-')}"
        flag = option if option == "launch" else flag
        parser.add_argument(flag, **_OPTIONS[option](name))
    parser.add_argument("--only", default="", help="rows whose table or title has this in it")


def defaults_of(name: str, *, quick: bool, only: str = "") -> Options:
    """Return the options of a page that nobody gave any."""
    parser = argparse.ArgumentParser()
    page_options(parser, name, PAGES[name])
    required = ["--compiled"] if "compiled" in PAGES[name].options else []
    args = parser.parse_args([*required, "--only", only])
    args.quick = quick
    return args


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure clprim beside the device's own limits and beside its peers.",
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, page in PAGES.items():
        one = commands.add_parser(name, help=page.title)
        page_options(one, name, page)
        _run_options(one)
    _others(commands)
    return whole


def _others(commands: Any) -> None:
    def command(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about)  # type: ignore[no-any-return]

    one = command("compare", "our calls of this checkout and of another one, in turns")
    one.add_argument("pages", nargs="+", choices=[*PAGES], metavar="PAGE", help=", ".join(PAGES))
    one.add_argument("--against", type=Path, required=True, help="the other checkout")
    one.add_argument("--only", default="", help="rows whose table or title has this in it")
    one.add_argument("--quick", action="store_true", help="tiny cases")
    one.add_argument("--repeats", type=positive, help=f"rounds of both; default: {REPEATS}")
    one.add_argument("--device", help="index or part of a name; default: the current one")
    one = command("tune", "times all tiles of contractions, keeps the best, says the gain")
    _run_options(one, ships=False)
    one.add_argument("--ship", metavar="NAMES", help="write a table for devices of such names")
    for option in ("network", "batch", "memory_format", "direction"):
        one.add_argument(f"--{option.replace('_', '-')}", **_OPTIONS[option]("tune"))
    one.add_argument("--products", action="store_true", help="products instead of convolutions")
    one = command("regret", "how far rules' tiles are from the best, on random problems")
    _run_options(one)
    one.add_argument("--minutes", type=float, default=5.0, help="how long")
    one.add_argument("--seed", type=int, help="draws the same problems again")
    one.add_argument("--group", default="all", help="a kind of problem, or all")
    _run_options(command("cookbook", "the cookbook's operators next to a copy of as many bytes"))
    one = command("vendors", "whether kernels build for GPUs that are not here")
    one.add_argument("--targets", help="such as gfx1030,sm_90; default: all")
    one.add_argument("--quick", action="store_true", help="one kernel of each")
    one.add_argument("--shares", action="store_true", help="a table of matrix units' peak instead")
    one = command("pages", "the index of recorded pages and the README's table anew")
    one.add_argument("--folder", type=Path, help="of the pages")
    one = command("torture", "random definitions, shapes, views, threads, damage to the cache")
    one.add_argument("--minutes", type=float, default=1.0, help="how long")
    one.add_argument("--seed", type=int, help="repeats a run; default: a new one")
    one.add_argument("--case", type=int, help="runs only this case of the seed")
    one.add_argument("--graphs", action="store_true", help="functions of 5 to 60 lines, compiled")
    one.add_argument("--threads", type=positive, default=8, help="that run cases at once")
    one.add_argument("--device", help="index or part of a name; default: all")
    one = command("builds", "every template in every dtype, built and run in child processes")
    one.add_argument("--device", help="index or part of a name; default: all")
    one.add_argument("--part", default="1/1", help="such as 2/5; default: all")
    one.add_argument("--every", type=positive, default=1, help="one out of so many")
    one.add_argument("--children", type=positive, help="processes; default: one a core")
    one.add_argument("--only", default="", help="a part of names")


def label_of(given: Sequence[str]) -> str:
    """Return the options that were typed as a part of a file's name."""
    found = []
    skip = "--device --quick --repeats --output --ship --minutes --seed".split()
    left = list(given)
    while left:
        flag = left.pop(0)
        value = left.pop(0) if left and not left[0].startswith("--") else ""
        if flag not in skip:
            plain = re.sub(r"[^A-Za-z0-9.]+", "-", value).strip("-")
            name = flag.removeprefix("--")
            named = not plain or name in ("batch", "peers")
            found.append("-".join(filter(None, (name if named else "", plain))))
    return "-".join(found)
