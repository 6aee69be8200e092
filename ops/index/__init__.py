"""Operators that read elements where an array of integers says."""
