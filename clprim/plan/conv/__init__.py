"""Convolutions of images: what to compute, and the ways to do it."""
