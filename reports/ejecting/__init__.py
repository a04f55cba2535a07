"""Write ejected kernels as Python packages that need torch and triton, and not ctrace."""
