"""Check an operator that `ctrace kernels wrap` writes: what the kernel writes to, and whether its parts agree."""
