"""Devices, programs and what they measure: everything that holds an OpenCL handle."""
