"""What the repairs ask of source: its tree, its names, what it does, and how to write it back."""
