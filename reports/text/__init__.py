"""Sentences and pieces of text that the screen and Markdown share, one module a subject."""
