"""Operators about order."""
