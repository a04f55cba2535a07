"""What the command has from its process: standard streams and signals."""
