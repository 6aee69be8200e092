"""Graphs: what a function over arrays launches, as a value; passes over it, and its replay."""
