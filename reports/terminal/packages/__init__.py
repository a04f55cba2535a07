"""Screens of kernel packages and operators: applied, tuned, wrapped."""
