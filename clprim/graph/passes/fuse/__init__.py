"""Passes that make one kernel of several."""
