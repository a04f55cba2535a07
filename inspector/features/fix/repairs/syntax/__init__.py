"""Read source for the repairs: its tree, its names and its effects; and write it back."""
