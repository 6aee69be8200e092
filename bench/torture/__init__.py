"""Random definitions, shapes, views, dtypes, threads and damage, checked against NumPy."""
