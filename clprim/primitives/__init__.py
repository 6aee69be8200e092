"""What launches: the kernels that users define, and those that operators are made of."""
