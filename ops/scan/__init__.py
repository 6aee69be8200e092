"""Operators that keep every partial result along an axis."""
