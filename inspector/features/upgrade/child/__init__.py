"""What an environment says of itself, and eager calls of a model in it."""
