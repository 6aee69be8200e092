"""Operators of attention."""
