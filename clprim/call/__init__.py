"""From arguments to a planned call: checks, signatures, launches."""
