"""``python -m bench pointwise|reduce|layout|gemm|…``: measures, prints, and writes files."""

from __future__ import annotations

import sys
from typing import NoReturn

# What runs the tests' own kernels needs what they need.
_OF_TESTS = ("pytest", "ml_dtypes")


def _leave(error: ImportError) -> NoReturn:
    """Ends with the name of the package that is missing; a module of ours is a fault of ours."""
    package = (error.name or "more").partition(".")[0]
    if package in ("bench", "clprim"):
        raise error
    extra = "test" if package in _OF_TESTS else "bench"
    sys.exit(f'The benchmarks need {package}: pip install "clprim[{extra}]"')


try:
    import matplotlib  # noqa: F401
    import rich  # noqa: F401
    import typer  # noqa: F401

    from bench.commands import app
except ImportError as error:
    _leave(error)

if __name__ == "__main__":
    try:
        app(prog_name="python -m bench")
    except ImportError as error:  # what one command alone needs
        _leave(error)
