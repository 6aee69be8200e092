"""``python -m bench pointwise|reduce|layout|gemm|…``: measures, prints, and writes files."""

from __future__ import annotations

import sys

try:
    import matplotlib  # noqa: F401
    import rich  # noqa: F401
    import typer  # noqa: F401
except ImportError as error:
    package = (error.name or "more").partition(".")[0]
    sys.exit(f'The benchmarks need {package}: pip install "clprim[bench]"')

from bench.commands import app

if __name__ == "__main__":
    app(prog_name="python -m bench")
