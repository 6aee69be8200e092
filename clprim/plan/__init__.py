"""Plans: pure functions from operands and traits to what a kernel will do. No OpenCL in sight."""
