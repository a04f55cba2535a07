"""What `ctrace check` found, in each of its formats."""
