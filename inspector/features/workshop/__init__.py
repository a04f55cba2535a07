"""Kernels as files: ejected into a program, applied, tuned, edited, wrapped."""
