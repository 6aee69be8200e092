"""Other libraries, measured beside clprim."""
