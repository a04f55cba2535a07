"""Reducing: cut a target to the least program that still shows a finding."""
