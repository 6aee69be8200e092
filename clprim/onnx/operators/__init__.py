"""Handlers of ONNX's operators, by family."""
