"""Kernels of a graph as phases of one launch."""
