"""Plans of sorting."""
