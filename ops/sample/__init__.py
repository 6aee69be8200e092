"""Operators that read between the elements of an image."""
