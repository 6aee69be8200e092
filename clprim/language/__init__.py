"""The snippet language: OpenCL C statements over named operands, checked without a device."""
