"""Plans of matrix products, and of convolutions as products."""
