"""OpenCL C templates; read through importlib.resources by clprim.render."""
