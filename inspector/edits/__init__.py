"""Changes of source as data: one kit for the edits of advice, of repairs and of reproducers."""
