"""``python -m clprim``: the command line where the ``clprim`` script is not on the path."""

import sys

from clprim.command.cli import main

if __name__ == "__main__":
    sys.exit(main())
