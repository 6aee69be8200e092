"""Operators: each is a few strings over `Pointwise` and `Reduction`."""
