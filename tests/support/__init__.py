"""Shared by several tests: handmade sessions and logs, golden files, paths."""
