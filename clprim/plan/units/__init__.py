"""Instruction sets of matrix units, as data: see `clprim.plan.units.unit`."""
