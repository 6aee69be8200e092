"""Plans of kernels that reduce a group and map its elements."""
