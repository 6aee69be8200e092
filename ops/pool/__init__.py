"""Operators that sum up or choose within windows."""
