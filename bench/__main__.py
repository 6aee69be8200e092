"""``python -m bench gemm|conv|…``: measures, prints, and writes a page."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

# What runs the tests' own kernels needs what they need.
_OF_TESTS = ("pytest", "ml_dtypes")
# The commands that are no pages, by the modules that have them.
_COMMANDS = {
    "compare": "compare", "tune": "tune", "regret": "regret", "cookbook": "cookbook",
    "vendors": "vendors", "pages": "table", "torture": "torture.run", "builds": "builds.run",
}  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Run a command, and return its status: 1 where something is wrong, 2 where it is not known."""
    import clprim as cp
    from bench import options
    from bench.cases.networks import MissingError

    given = [*(sys.argv[1:] if words is None else words)]
    args = options.parser().parse_args(given)
    args.given = given
    module = importlib.import_module(f"bench.{_COMMANDS.get(args.command, 'runner')}")
    run: Callable[[Any, Callable[[str], None]], int] = module.command
    try:
        if getattr(args, "device", None) is not None:
            cp.set_device(args.device)
        return run(args, _progress)
    except (cp.DeviceError, MissingError, options.WrongError) as error:
        print(error, file=sys.stderr)
        return 2


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ImportError as error:
        package = (error.name or "more").partition(".")[0]
        if package in ("bench", "clprim"):
            raise
        extra = "test" if package in _OF_TESTS else "bench"
        sys.exit(f'The benchmarks need {package}: pip install "clprim[{extra}]"')
