"""Plans of reductions."""
