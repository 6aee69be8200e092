"""Numbers of 8 bits that stand for real ones."""
