"""Commands on kernel packages, from the command line to their child processes."""
