"""Plans of several operators in one kernel."""
