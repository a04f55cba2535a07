"""Kernel packages and operators as JSON: ejected, applied, tuned, edited, wrapped."""
