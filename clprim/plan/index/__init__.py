"""Plans of kernels that write at indices."""
