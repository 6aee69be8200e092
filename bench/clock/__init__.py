"""How times are taken."""
