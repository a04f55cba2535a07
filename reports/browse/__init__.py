"""A run as a place to browse in a terminal."""
