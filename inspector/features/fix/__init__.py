"""Repairs that are proved, and the least program that shows a finding."""
