"""Gradients of the kernels that users define, as kernels."""
