"""What is built and run to see that no compiler and no kernel dies of it."""
