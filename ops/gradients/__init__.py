"""Gradients of operators inside traces: of contractions, and by operators' own backward ones."""
