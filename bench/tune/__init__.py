"""Measures tiles for the tables."""
