"""The virtual rank in the child process: process groups without peers, and what the rank communicates."""
