"""Passes that decide where and in which order elements lie, and what need not be copied."""
