"""Autotuning: record which choices torch has for an operation, what it measured, and what it takes."""
