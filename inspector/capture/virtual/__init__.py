"""A GPU that is not there, as torch, Inductor and Triton see it."""
