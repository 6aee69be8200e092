"""What is compiled to see that no compiler dies of it."""
