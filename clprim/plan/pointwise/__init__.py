"""Plans of elementwise kernels."""
