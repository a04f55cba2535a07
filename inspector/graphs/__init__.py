"""Graphs that torch printed, read back as data; imported only when somebody asks for graphs."""
