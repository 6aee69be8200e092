"""Passes that save memory between kernels."""
