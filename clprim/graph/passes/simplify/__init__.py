"""Passes that leave less to do: dead code, common subexpressions, constants."""
