"""What vendors' offline compilers make of the kernels."""
