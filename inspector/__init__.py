"""Capture a run, read its log, build a Session from it, and answer questions about it."""
