"""Run one task in a child process that imports torch, and read its result."""
